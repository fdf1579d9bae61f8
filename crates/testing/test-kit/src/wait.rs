//! Waiting for another process without the risk of a test that hangs.

use std::time::{Duration, Instant};

/// Time limit, far above what any test needs on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(1);

/// Checks again and again until `is_done` returns true.
///
/// # Panics
/// After 60 seconds, with `what` in the message.
pub fn wait_until(what: &str, mut is_done: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_done() {
        assert!(Instant::now() < deadline, "still waiting after {LIMIT:?}: {what}");
        std::thread::sleep(PAUSE);
    }
}

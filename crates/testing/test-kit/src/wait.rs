//! Waiting for another process without the risk of a test that hangs.

use std::time::{Duration, Instant};

/// Time limit, far above what any test needs on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(1);

/// Checks again and again until `is_done` returns true.
///
/// # Panics
/// After 60 seconds, with `what` in the message.
pub fn wait_until(what: &str, is_done: impl FnMut() -> bool) {
    wait_within(LIMIT, what, is_done);
}

/// The same with another limit, for programs that take long to start.
///
/// # Panics
/// After the limit, with `what` in the message.
pub fn wait_within(limit: Duration, what: &str, mut is_done: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !is_done() {
        assert!(Instant::now() < deadline, "still waiting after {limit:?}: {what}");
        std::thread::sleep(PAUSE);
    }
}

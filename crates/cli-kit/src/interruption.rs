//! Ctrl-C: the first asks for an orderly end, the second ends at once. SIGTERM and SIGHUP do the
//! same; the exit status says which it was.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};

/// With their numbers as the handlers keep them.
const SIGNALS: [(i32, usize); 3] = [(SIGINT, 2), (SIGTERM, 15), (SIGHUP, 1)];

/// The last signal that asked for the end; 0 before the first.
static LAST: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// A flag that the first Ctrl-C sets; the second ends the process. What runs then is ended by the
/// kernel and the guard.
///
/// # Errors
/// Signals cannot be received.
pub fn flag() -> anyhow::Result<Arc<AtomicBool>> {
    const WHAT: &str = "cannot receive signals";
    let flag = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new(SIGNALS.map(|(signal, _)| signal)).context(WHAT)?;
    for (signal, number) in SIGNALS {
        // By the handlers themselves, in this order: one wakes whoever waits for the program, who
        // sees the flag and then asks for the status.
        flag::register_usize(signal, Arc::clone(&LAST), number).context(WHAT)?;
        flag::register(signal, Arc::clone(&flag)).context(WHAT)?;
    }
    let end_at_the_second = move || {
        if let Some(signal) = signals.forever().nth(1) {
            low_level::exit(128 + signal);
        }
    };
    thread::Builder::new()
        .name("interruption".to_owned())
        .spawn(end_at_the_second)
        .context(WHAT)?;
    Ok(flag)
}

/// The exit status of an orderly end after a signal, as shells have it: 128 and the signal's number.
pub fn status() -> ExitCode {
    let signal = u8::try_from(LAST.load(Ordering::Relaxed)).ok().filter(|signal| *signal > 0);
    // SIGINT where nobody has sent one: another way of asking for the end.
    ExitCode::from(128 + signal.unwrap_or(2))
}

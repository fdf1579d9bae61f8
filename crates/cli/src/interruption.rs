//! Ctrl-C: the first asks for an orderly end, the second ends at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};

/// Exit status after Ctrl-C, as shells have it.
pub const INTERRUPTED: u8 = 130;

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// A flag that the first Ctrl-C sets; the second ends the process. What runs then is ended by the
/// kernel and the guard.
pub fn flag() -> anyhow::Result<Arc<AtomicBool>> {
    const WHAT: &str = "cannot receive signals";
    let flag = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new(SIGNALS).context(WHAT)?;
    for signal in SIGNALS {
        // By the handler itself, which wakes whoever waits for the program.
        flag::register(signal, Arc::clone(&flag)).context(WHAT)?;
    }
    let end_at_the_second = move || {
        if let Some(signal) = signals.forever().nth(1) {
            low_level::exit(i32::from(INTERRUPTED) - SIGINT + signal);
        }
    };
    thread::Builder::new()
        .name("interruption".to_owned())
        .spawn(end_at_the_second)
        .context(WHAT)?;
    Ok(flag)
}

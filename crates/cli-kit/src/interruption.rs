//! Handles Ctrl-C: the first asks for an orderly end, the second ends the process at once. SIGTERM
//! and SIGHUP do the same; the exit status shows which one it was. One that was ignored at the start
//! (SIGHUP under nohup) stays ignored.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use numapilot_sys::signals::is_ignored;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};

/// The signals with their numbers as stored by the handlers.
const SIGNALS: [(i32, usize); 3] = [(SIGINT, 2), (SIGTERM, 15), (SIGHUP, 1)];

/// An orderly end that takes no longer needs no message.
const MOMENT: Duration = Duration::from_secs(2);

/// The last signal that asked for the end; 0 before the first.
static LAST: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// A flag that the first Ctrl-C sets. If the process has not ended soon after, a message
/// tells how to end it. The second ends the process; the kernel and the guard then
/// end running programs.
///
/// # Errors
/// Fails if signals cannot be received.
pub fn flag() -> anyhow::Result<Arc<AtomicBool>> {
    const WHAT: &str = "cannot receive signals";
    let flag = Arc::new(AtomicBool::new(false));
    let mut received = Vec::new();
    for known in SIGNALS {
        if !is_ignored(known.0).context(WHAT)? {
            received.push(known);
        }
    }
    let mut signals = Signals::new(received.iter().map(|(signal, _)| signal)).context(WHAT)?;
    for (signal, number) in received {
        // The handlers store both, in this order: a signal wakes the thread that waits for the
        // program, which sees the flag and then reads the status.
        flag::register_usize(signal, Arc::clone(&LAST), number).context(WHAT)?;
        flag::register(signal, Arc::clone(&flag)).context(WHAT)?;
    }
    let end_at_the_second = move || {
        let mut signals = signals.forever();
        if signals.next().is_some() {
            thread::spawn(say_that_it_ends);
        }
        if let Some(signal) = signals.next() {
            low_level::exit(128 + signal);
        }
    };
    thread::Builder::new()
        .name("interruption".to_owned())
        .spawn(end_at_the_second)
        .context(WHAT)?;
    Ok(flag)
}

/// Tells after a moment why the process has not ended yet.
fn say_that_it_ends() {
    thread::sleep(MOMENT);
    // A closed stderr must not change how it ends.
    let _ = writeln!(
        io::stderr(),
        "numapilot: is ending in order; a second signal (Ctrl-C) ends it at once"
    );
}

/// The exit status of an orderly end after a signal, as in shells: 128 plus the signal's number.
pub fn status() -> ExitCode {
    let signal = u8::try_from(LAST.load(Ordering::Relaxed)).ok().filter(|signal| *signal > 0);
    // Without a signal, the end was requested in another way: SIGINT's status.
    ExitCode::from(128 + signal.unwrap_or(2))
}

//! Ctrl-C: the first asks for an orderly end, the second ends at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Exit status after Ctrl-C, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// A flag that the first Ctrl-C sets; the second ends the process.
pub fn flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let status = i32::from(INTERRUPTED) - SIGINT + signal;
        signal_hook::flag::register_conditional_shutdown(signal, status, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .context("cannot receive signals")?;
    }
    Ok(flag)
}

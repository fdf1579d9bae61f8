//! Copies the memory of forked children to the node on which they run. Servers that fork a process
//! for each connection fill their tables first, all on one node.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use numapilot_bind::env::REHOME;

use crate::env::{complain, variable};
use crate::kernel;

/// Mappings of at least this size are copied.
static LEAST_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Rehomes inherited memory in every child of fork(2), if the user requests it. This must be called
/// after [`crate::process::watch_forks`], because a child takes its CPU first.
pub fn watch_forks() {
    let Some(text) = variable(REHOME) else { return };
    match text.to_str().ok().and_then(|text| text.parse().ok()) {
        Some(bytes) => LEAST_BYTES.store(bytes, Relaxed),
        None => {
            complain(&[REHOME, ": not a number of bytes, such as 1048576; nothing is rehomed\n"]);
            return;
        }
    }
    // SAFETY: the handler has the required signature. If there is no memory for it, children share
    // the memory that they do not write.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
}

/// Runs in the child of a fork, on its only thread.
extern "C" fn forked() {
    kernel::keeping_errno(|| numapilot_replicate::rehome_inherited(LEAST_BYTES.load(Relaxed)));
}

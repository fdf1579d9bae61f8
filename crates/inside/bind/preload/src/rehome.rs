//! The memory of forked children, brought to the node where they run: servers that fork a
//! process for each connection fill their tables first, all on one node.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use numapilot_bind::env::REHOME;

use crate::env::{complain, variable};
use crate::kernel;

/// Mappings of this size and more follow.
static LEAST_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Has inherited memory rehomed in every child of fork(2), if the user wants it. Called when
/// threads are placed already: a child goes to its CPU first.
pub fn watch_forks() {
    let Some(text) = variable(REHOME) else { return };
    match text.to_str().ok().and_then(|text| text.parse().ok()) {
        Some(bytes) => LEAST_BYTES.store(bytes, Relaxed),
        None => {
            complain(&[REHOME, ": not a number of bytes, such as 1048576; nothing is rehomed\n"]);
            return;
        }
    }
    // SAFETY: the handler has the signature it must have. Without memory for it, children
    // share what they do not write.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
}

/// In the child of a fork, on its only thread.
extern "C" fn forked() {
    kernel::keeping_errno(|| numapilot_replicate::rehome_inherited(LEAST_BYTES.load(Relaxed)));
}

//! The request to return idle memory to the kernel.
//!
//! Layers below the background thread notice when there is much to return. They raise this flag,
//! and `crate::decay::background_thread` checks it.

use core::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Requests that idle memory be returned. The background thread is started once the caller has left
/// its data consistent.
#[inline]
pub fn raise() {
    // All threads share the line, so it is written only when it changes.
    if !REQUESTED.load(Ordering::Relaxed) {
        REQUESTED.store(true, Ordering::Relaxed);
    }
}

/// Whether there is a request that no thread has taken.
#[inline]
pub fn is_raised() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Takes the request; returns whether there was one.
pub fn take() -> bool {
    REQUESTED.swap(false, Ordering::Relaxed)
}

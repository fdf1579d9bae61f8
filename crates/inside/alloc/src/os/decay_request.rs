//! The request that idle memory be given back.
//!
//! Layers below the background thread see that there is much to give back. They raise this flag,
//! and `crate::decay::background_thread` looks at it.

use core::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Requests that idle memory be given back. The background thread is started once the caller has
/// put everything in order.
#[inline]
pub fn raise() {
    // The line is shared by all threads: it is written only when it changes.
    if !REQUESTED.load(Ordering::Relaxed) {
        REQUESTED.store(true, Ordering::Relaxed);
    }
}

/// Whether there is a request that nobody has taken.
#[inline]
pub fn is_raised() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Takes the request; whether there was one.
pub fn take() -> bool {
    REQUESTED.swap(false, Ordering::Relaxed)
}

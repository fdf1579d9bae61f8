//! `libnumapilot_bind.so`: rides inside a target by `LD_PRELOAD`.
#![cfg_attr(not(test), no_std)]

/// There is no unwinding and nobody to report to inside a foreign process.
#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: abort takes no argument and does not return.
    unsafe { libc::abort() }
}

//! The thread pointer: an address that identifies the calling thread.

use core::arch::asm;

/// An address that belongs only to the calling thread while it lives.
#[inline]
pub fn get() -> usize {
    let address;
    // SAFETY: every thread has a word there that contains its own address.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", out(reg) address,
            options(pure, readonly, nostack, preserves_flags));
    }
    // SAFETY: reads a register.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) address, options(pure, nomem, nostack, preserves_flags));
    }
    address
}

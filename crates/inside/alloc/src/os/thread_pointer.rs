//! The thread pointer: an address that names the calling thread.

use core::arch::asm;

/// An address that belongs to the calling thread alone while it lives.
#[inline]
pub fn get() -> usize {
    let address;
    // SAFETY: a word that every thread has there: the address itself.
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

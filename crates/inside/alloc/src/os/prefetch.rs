//! Prefetching.

use core::arch::asm;

/// Prefetches the cache line at an address for writing. Never faults.
#[inline(always)]
pub fn to_write(address: *const u8) {
    // SAFETY: a hint, which changes nothing, for any address.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("prefetchw [{0}]", in(reg) address, options(readonly, nostack, preserves_flags));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("prfm pstl1keep, [{0}]", in(reg) address, options(readonly, nostack, preserves_flags));
    }
}

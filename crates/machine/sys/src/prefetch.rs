//! A hint to the CPU that a cache line will soon be needed.
//!
//! Not a system call, but like one a thing that safe Rust cannot say: programs whose time
//! is cache misses overlap them by asking for many lines before using the first.

/// Asks for the line at `address`, which will be written to. Any address will do, mapped
/// or not: a prefetch never faults. Does nothing on machines other than x86-64 and AArch64.
#[inline]
pub fn for_write<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: PREFETCHT0 is part of x86-64 and has no effect but on caches.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: PRFM has no effect but on caches.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) address,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_address_will_do() {
        let values = [1u64; 4];
        super::for_write(values.as_ptr());
        super::for_write(std::ptr::null::<u64>());
        super::for_write(usize::MAX as *const u64);
        assert_eq!(values, [1; 4]);
    }
}

//! A hint to the CPU that the program will soon access a cache line.
//!
//! This is not a system call, but safe Rust cannot express it either. A program that is bound by
//! cache misses overlaps them by prefetching many lines before it uses the first.

/// Prefetches the line at `address` for a write. The address need not be mapped, because a prefetch
/// never faults. It does nothing on machines other than x86-64 and AArch64.
#[inline]
pub fn for_write<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: PREFETCHT0 is part of x86-64 and affects only caches.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: PRFM affects only caches.
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

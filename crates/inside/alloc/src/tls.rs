//! The calling thread's bins: one word of thread-local storage.
//!
//! Stable Rust has no thread-local statics without `std`, hence the assembler: a word in
//! `.tdata`, read by the initial-exec model (two loads; `@GOTTPOFF`, ELF Handling For
//! Thread-Local Storage, section 4.3.6). It starts as the address of [`EMPTY`], bins that
//! hold nothing and accept nothing, so that the fast paths need no test for a thread's
//! first call.

use core::arch::{asm, global_asm};

use crate::heap::{Bins, EMPTY};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("numapilot-alloc knows the thread-local storage of x86-64 and aarch64 only");

global_asm!(
    ".pushsection .tdata,\"awT\",%progbits",
    ".hidden numapilot_alloc_bins",
    ".globl numapilot_alloc_bins",
    ".type numapilot_alloc_bins,%object",
    ".size numapilot_alloc_bins,8",
    ".p2align 3",
    "numapilot_alloc_bins:",
    ".quad {empty}",
    ".popsection",
    empty = sym EMPTY,
);

/// The calling thread's bins; [`EMPTY`] before its first and after its last allocation.
#[inline(always)]
pub fn bins() -> *mut Bins {
    let bins: *mut Bins;
    // SAFETY: reads the thread's own word, which exists as long as the thread.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + numapilot_alloc_bins@GOTTPOFF]",
            "mov {0}, qword ptr fs:[{0}]",
            out(reg) bins,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "mrs {1}, tpidr_el0",
            "adrp {0}, :gottprel:numapilot_alloc_bins",
            "ldr {0}, [{0}, :gottprel_lo12:numapilot_alloc_bins]",
            "ldr {0}, [{0}, {1}]",
            out(reg) bins,
            out(reg) _,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    bins
}

/// Gives the calling thread other bins.
pub fn set_bins(bins: *mut Bins) {
    // SAFETY: writes the thread's own word.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + numapilot_alloc_bins@GOTTPOFF]",
            "mov qword ptr fs:[{0}], {1}",
            out(reg) _,
            in(reg) bins,
            options(nostack, preserves_flags),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "mrs {1}, tpidr_el0",
            "adrp {0}, :gottprel:numapilot_alloc_bins",
            "ldr {0}, [{0}, :gottprel_lo12:numapilot_alloc_bins]",
            "str {2}, [{0}, {1}]",
            out(reg) _,
            out(reg) _,
            in(reg) bins,
            options(nostack, preserves_flags),
        );
    }
}

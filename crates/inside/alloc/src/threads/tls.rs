//! The calling thread's bins: words of thread-local storage.
//!
//! Stable Rust has no thread-local statics without `std`, hence the assembler: a word in `.tdata`,
//! read by the initial-exec model (two loads; `@GOTTPOFF`, ELF Handling For Thread-Local Storage,
//! section 4.3.6). It starts as the address of [`EMPTY`], bins that hold nothing and accept
//! nothing, so that the fast paths need no test for a thread's first call. A second word, for the
//! slow paths, is the cache itself. A third one shows that the thread is at its end.

use core::arch::{asm, global_asm};

use crate::cache::bins::{Bins, EMPTY};
use crate::cache::thread_cache::ThreadCache;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("numapilot-alloc knows the thread-local storage of x86-64 and aarch64 only");

global_asm!(
    ".pushsection .tdata,\"awT\",%progbits",
    ".hidden numapilot_alloc_bins",
    ".globl numapilot_alloc_bins",
    ".type numapilot_alloc_bins,%object",
    ".size numapilot_alloc_bins,8",
    ".hidden numapilot_alloc_cache",
    ".globl numapilot_alloc_cache",
    ".type numapilot_alloc_cache,%object",
    ".size numapilot_alloc_cache,8",
    ".hidden numapilot_alloc_ended",
    ".globl numapilot_alloc_ended",
    ".type numapilot_alloc_ended,%object",
    ".size numapilot_alloc_ended,8",
    ".p2align 3",
    "numapilot_alloc_bins:",
    ".quad {empty}",
    "numapilot_alloc_cache:",
    ".quad 0",
    "numapilot_alloc_ended:",
    ".quad 0",
    ".popsection",
    empty = sym EMPTY,
);

/// Reads a word of the calling thread.
macro_rules! read {
    ($symbol:literal) => {{
        let value;
        // SAFETY: reads the thread's own word, which exists as long as the thread.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            asm!(
                concat!("mov {0}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                "mov {0}, qword ptr fs:[{0}]",
                out(reg) value,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            asm!(
                "mrs {1}, tpidr_el0",
                concat!("adrp {0}, :gottprel:", $symbol),
                concat!("ldr {0}, [{0}, :gottprel_lo12:", $symbol, "]"),
                "ldr {0}, [{0}, {1}]",
                out(reg) value,
                out(reg) _,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        value
    }};
}

/// Writes a word of the calling thread.
macro_rules! write {
    ($symbol:literal, $value:expr) => {
        // SAFETY: writes the thread's own word.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            asm!(
                concat!("mov {0}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                "mov qword ptr fs:[{0}], {1}",
                out(reg) _,
                in(reg) $value,
                options(nostack, preserves_flags),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            asm!(
                "mrs {1}, tpidr_el0",
                concat!("adrp {0}, :gottprel:", $symbol),
                concat!("ldr {0}, [{0}, :gottprel_lo12:", $symbol, "]"),
                "str {2}, [{0}, {1}]",
                out(reg) _,
                out(reg) _,
                in(reg) $value,
                options(nostack, preserves_flags),
            );
        }
    };
}

/// The bins for the fast paths of the calling thread. [`EMPTY`] before its first and after its last
/// allocation, and where the fast paths must do nothing.
#[inline(always)]
pub fn bins() -> *mut Bins {
    read!("numapilot_alloc_bins")
}

/// Gives the calling thread new bins.
pub fn set_bins(bins: *mut Bins) {
    write!("numapilot_alloc_bins", bins);
}

/// The calling thread's cache; null before its first and after its last allocation.
#[inline]
pub fn cache() -> *mut ThreadCache {
    read!("numapilot_alloc_cache")
}

/// Gives the calling thread a new cache, or none.
pub fn set_cache(cache: *mut ThreadCache) {
    write!("numapilot_alloc_cache", cache);
}

/// Whether the calling thread is at its end: it released its cache and takes no other.
#[inline]
pub fn has_ended() -> bool {
    let word: usize = read!("numapilot_alloc_ended");
    word != 0
}

/// Notes that the calling thread is at its end.
pub fn set_ended() {
    write!("numapilot_alloc_ended", 1_usize);
}

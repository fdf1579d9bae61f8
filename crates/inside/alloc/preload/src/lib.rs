//! `libnumapilot_alloc`: the C and C++ allocation functions over `numapilot-alloc`.
//!
//! Preloaded into a program, or linked before the C library, it takes the place of the C
//! library's allocator. Every function is as POSIX, C23 and the GNU C library's manual
//! describe it.
#![cfg_attr(not(test), no_std)]

mod c;
mod cxx;
mod statistics;

/// There is no unwinding and nobody to report to inside a foreign process.
#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: abort takes no argument and does not return.
    unsafe { libc::abort() }
}

// The compiled `core` library names this function in its unwind tables; nothing here
// unwinds, so it is never called. Hidden: a program that loads the shared Rust library
// must find that one's.
core::arch::global_asm!(
    ".pushsection .text",
    ".globl rust_eh_personality",
    ".hidden rust_eh_personality",
    "rust_eh_personality: .long 0",
    ".popsection",
);

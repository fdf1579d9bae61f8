//! `libnumapilot_alloc`: the C and C++ allocation functions over `numapilot-alloc`.
//!
//! When it is preloaded into a program, or linked before the C library, it replaces the C library's
//! allocator. Every function is as POSIX, C23 and the GNU C library's manual describe it.
#![cfg_attr(not(test), no_std)]

mod c;
mod catch;
mod cxx;
mod statistics;

numapilot_bind::freestanding!(numapilot_alloc::report::panicked());

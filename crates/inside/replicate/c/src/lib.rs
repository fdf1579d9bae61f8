//! `libnumapilot_replicate`: `numapilot-replicate` for C and C++, documented in
//! `numapilot_replicate.h`.
#![cfg_attr(not(test), no_std)]

mod memory;
mod value;

use core::ffi::c_void;

use numapilot_replicate::{Error, rehome_range};

numapilot_bind::freestanding!(
    // SAFETY: takes nothing and does not return.
    unsafe { libc::abort() }
);

/// Stores an error in `errno` and returns `result`.
fn fail<T>(error: Error, result: T) -> T {
    // SAFETY: the location is valid for the calling thread.
    unsafe { *libc::__errno_location() = error.errno() };
    result
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn numapilot_rehome(start: *mut c_void, size: usize) -> isize {
    match rehome_range(start as usize, size) {
        Ok(rehomed) => rehomed.moved as isize,
        Err(error) => fail(error, -1),
    }
}

//! Linux calls that no maintained crate offers, as thin safe functions.
//!
//! Each function is one system call, one `/proc` or `/sys` convention or one `perf_event_open`
//! idiom. The crate sets no policy, prints nothing, and has no state except the limit of open files
//! with which this process began. Masks are slices of `u64` words, in which bit 0 of word 0 is id
//! 0. The typed sets are in `numapilot-topology`.
//!
//! Errors are [`std::io::Error`] with the raw `errno`, because only the caller knows the user's
//! request and the remedy.

pub mod affinity;
mod aux_area;
pub mod bounded_output;
pub mod c_library;
pub mod mapping;
pub mod mark;
pub mod mempolicy;
pub mod open_files;
pub mod pagemap;
pub mod perf;
mod perf_area;
pub mod prctl;
pub mod prefetch;
pub mod process;
pub mod remote;
pub mod ring;
pub mod sampling;
pub mod shared;
pub mod signals;
pub mod spawn;
pub mod splitmix;
pub mod system_v;

use std::io;

/// Size of a page of memory, in bytes.
#[must_use]
pub fn page_size() -> usize {
    // SAFETY: sysconf takes one integer.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Turns the `-1` convention of libc into a `Result`.
pub(crate) fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

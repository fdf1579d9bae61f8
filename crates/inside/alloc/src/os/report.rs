//! Messages on standard error, and the end of the process where continuing would silently corrupt
//! memory later.

use crate::os::output::complain;
use crate::os::process;

/// A variable has an unknown value.
pub fn unknown_value(name: &str, value: &[u8], known: [&[u8]; 2]) {
    let text = |bytes| core::str::from_utf8(bytes).unwrap_or("(not text)");
    let (value, one, other) = (text(value), text(known[0]), text(known[1]));
    complain(format_args!("{name}={value} is ignored: it must be {one} or {other}"));
}

/// Why a pointer is bad, for causes that are found in more than one place.
pub const FOREIGN: &str = "it is not from this allocator";
/// See `crate::layout::size_class::QUANTUM`.
pub const MISALIGNED: &str = "it is not at a multiple of 16, where every object starts";

/// The program freed, or asked about, a pointer that it must not use.
#[cold]
pub fn bad_free(pointer: usize, cause: &str) -> ! {
    complain(format_args!("bad pointer {pointer:#x} in free or realloc: {cause}"));
    process::abort()
}

/// The kernel refused to move memory, and unmapped the destination.
#[cold]
pub fn lost_range(start: usize, number: i32) -> ! {
    complain(format_args!(
        "the kernel did not move memory to {start:#x} (error {number}), and what it unmapped \
         there cannot be mapped again"
    ));
    process::abort()
}

/// A C++ program that cannot throw is out of memory.
#[cold]
pub fn out_of_memory() -> ! {
    complain(format_args!("out of memory in operator new"));
    process::abort()
}

/// The allocator has a bug.
#[cold]
pub fn panicked() -> ! {
    process::abort()
}

//! Interprets any bytes as a sequence of calls: blocks stay aligned, do not overlap, and keep their
//! contents.
//!
//! `cargo fuzz run calls` (nightly), or on stable `cargo fuzz run -s none calls`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/model/calls.rs"]
mod calls;

fuzz_target!(|bytes: &[u8]| {
    let mut heap = calls::Heap::default();
    calls::Call::from_bytes(bytes).for_each(|call| heap.apply(call));
});

//! Any bytes as a sequence of calls: blocks stay aligned, apart and as they were written.
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

//! Any sequence of calls, checked against a model: a map of the live blocks.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what a test is for")]

mod calls;

use calls::{Call, Heap};
use proptest::collection::vec;
use proptest::prelude::*;

/// Sizes close to those where the behaviour changes: classes, the largest small size, pages.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        6 => 0usize..600,
        3 => (0u32..18, 0usize..3).prop_map(|(shift, by)| ((1 << shift) + by).saturating_sub(1)),
        2 => 600usize..40_000,
        1 => 40_000usize..600_000,
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        4 => size().prop_map(Call::Allocate),
        2 => size().prop_map(Call::AllocateZeroed),
        2 => (size(), 0u32..22).prop_map(|(size, shift)| Call::AllocateAligned(size, 1 << shift)),
        4 => (any::<usize>(), size()).prop_map(|(which, size)| Call::Resize(which, size)),
        6 => any::<usize>().prop_map(Call::Release),
        1 => Just(Call::Trim),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn calls_in_any_order(calls in vec(call(), 1..300)) {
        let mut heap = Heap::default();
        for call in calls {
            heap.apply(call);
        }
    }

    #[test]
    fn calls_from_any_bytes(bytes in vec(any::<u8>(), 0..2000)) {
        let mut heap = Heap::default();
        Call::from_bytes(&bytes).for_each(|call| heap.apply(call));
    }
}

/// A block that shrank in place has a larger class than its size implies. When it is released, it
/// must not be taken for one of the smaller class, whose blocks may be aligned.
#[test]
fn a_shrunk_block_goes_back_to_its_own_class() {
    let mut heap = Heap::default();
    for _ in 0..200 {
        heap.apply(Call::Allocate(160));
    }
    for which in 0..200 {
        heap.apply(Call::Resize(which, 120));
    }
    for _ in 0..200 {
        heap.apply(Call::Release(0));
    }
    for _ in 0..200 {
        heap.apply(Call::AllocateAligned(120, 128));
    }
}

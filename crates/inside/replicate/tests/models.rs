//! All interleavings of a few threads that read and replace, as the memory model of C11 allows
//! them, by loom. The modules are compiled here again, with loom's atomics.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

#[path = "../src/slots.rs"]
mod slots;
#[path = "../src/swap.rs"]
mod swap;
/// Replaces `core`'s atomics.
mod sync {
    pub use loom::sync::atomic;
    /// So few that a second reader needs another chunk.
    pub const PINS_PER_CHUNK: usize = 1;
}

use std::convert::Infallible;
use std::ptr::null_mut;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicPtr;
use loom::thread;

use slots::{Chunk, Slots};
use swap::{Pin, Swap, Version};

/// A version that is marked instead of freed, by a write that loom checks against all reads.
struct Marked {
    next: AtomicPtr<Self>,
    freed: UnsafeCell<bool>,
}

impl Version for Marked {
    fn next(&self) -> &AtomicPtr<Self> {
        &self.next
    }
}

/// Versions 0 to `N`; version 0 is current first.
struct Shared<const N: usize> {
    versions: [*mut Marked; N],
    swap: Swap<Marked>,
    slots: Slots<Marked>,
}

// SAFETY: the pointers lead to atomics and a cell that loom checks.
unsafe impl<const N: usize> Send for Shared<N> {}
// SAFETY: as above.
unsafe impl<const N: usize> Sync for Shared<N> {}

impl<const N: usize> Shared<N> {
    fn new() -> Arc<Self> {
        let version = |_| {
            let next = AtomicPtr::new(null_mut());
            Box::into_raw(Box::new(Marked { next, freed: UnsafeCell::new(false) }))
        };
        let versions: [_; N] = std::array::from_fn(version);
        Arc::new(Self { versions, swap: Swap::new(versions[0]), slots: Slots::new() })
    }

    fn publish(&self, version: usize) {
        // SAFETY: each version is published once.
        let free = unsafe { self.swap.replace(self.versions[version], || self.slots.pins()) };
        free.for_each(mark);
    }

    /// Registers, reads this many times, and unregisters.
    fn read(&self, times: usize) {
        let more = || Ok::<_, Infallible>(Box::into_raw(Box::new(Chunk::new())));
        let Ok(slot) = self.slots.take_slot(more);
        let mut last = 0;
        for _ in 0..times {
            let version = self.use_one(&slot.pin);
            assert!(version >= last, "an old version after a newer one");
            last = version;
        }
        slot.give_back();
    }

    /// Reads the current version; returns its number.
    fn use_one(&self, pin: &Pin<Marked>) -> usize {
        let version = self.swap.read(pin);
        // SAFETY: kept until the model ends.
        unsafe { &*version }.freed.with(|freed| {
            // SAFETY: loom checks that no thread writes it meanwhile.
            assert!(!unsafe { *freed }, "freed while it was being read");
        });
        self.versions.iter().position(|other| *other == version).unwrap()
    }
}

/// Marks a version in place of freeing it.
fn mark(version: *mut Marked) {
    // SAFETY: kept until the model ends.
    unsafe { &*version }.freed.with_mut(|freed| {
        // SAFETY: loom checks that no thread reads it meanwhile.
        let freed = unsafe { &mut *freed };
        assert!(!*freed, "freed twice");
        *freed = true;
    });
}

impl<const N: usize> Drop for Shared<N> {
    fn drop(&mut self) {
        self.swap.take_all().for_each(mark);
        for version in self.versions {
            // SAFETY: made by `new`, and not used any more.
            let version = unsafe { Box::from_raw(version) };
            // SAFETY: as above.
            assert!(version.freed.with(|freed| unsafe { *freed }), "never freed");
        }
        for chunk in self.slots.take_all() {
            // SAFETY: made by `read`.
            drop(unsafe { Box::from_raw(chunk) });
        }
    }
}

/// Tries all interleavings with at most three preemptions of a running thread. No known defect of
/// such structures needs more (Musuvathi, Qadeer 2007).
fn model(interleaved: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(interleaved);
}

#[test]
fn nothing_is_freed_that_somebody_reads() {
    model(|| {
        let shared = Shared::<3>::new();
        let reader = Arc::clone(&shared);
        let reader = thread::spawn(move || reader.read(2));
        shared.publish(1);
        shared.publish(2);
        reader.join().unwrap();
    });
}

#[test]
fn two_may_publish_at_a_time() {
    model(|| {
        let shared = Shared::<3>::new();
        // Either may be second, so only one read has an order.
        let threads = [1, 2].map(|version| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.publish(version))
        });
        shared.read(1);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn two_readers_have_a_pin_each() {
    model(|| {
        let shared = Shared::<2>::new();
        let threads = [1, 1].map(|times| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.read(times))
        });
        shared.publish(1);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_pin_goes_from_reader_to_reader() {
    model(|| {
        let shared = Shared::<2>::new();
        shared.read(1);
        let reader = Arc::clone(&shared);
        let reader = thread::spawn(move || {
            reader.read(1);
            reader.read(1);
        });
        shared.publish(1);
        reader.join().unwrap();
    });
}

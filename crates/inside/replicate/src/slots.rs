//! The pins of all readers of a value. There are as many as the most readers at any one time.

use core::ptr::null_mut;

use crate::swap::Pin;
use crate::sync::PINS_PER_CHUNK;
use crate::sync::atomic::{
    AtomicBool, AtomicPtr,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// A reader's pin. Processors fetch lines in pairs, so each pin has two lines; otherwise readers
/// would slow each other down.
#[repr(align(128))]
#[derive(Debug)]
pub struct Slot<V> {
    /// The pin.
    pub pin: Pin<V>,
    taken: AtomicBool,
}

/// Some pins.
#[derive(Debug)]
pub struct Chunk<V> {
    slots: [Slot<V>; PINS_PER_CHUNK],
    next: AtomicPtr<Self>,
}

/// All pins.
#[derive(Debug)]
pub struct Slots<V> {
    chunks: AtomicPtr<Chunk<V>>,
}

impl<V> Slot<V> {
    /// Releases the pin for another reader.
    pub fn give_back(&self) {
        self.pin.release();
        self.taken.store(false, Release);
    }
}

impl<V> Chunk<V> {
    /// Free pins.
    pub fn new() -> Self {
        let slot = || Slot { pin: Pin::new(), taken: AtomicBool::new(false) };
        Self { slots: core::array::from_fn(|_| slot()), next: AtomicPtr::new(null_mut()) }
    }
}

impl<V> Slots<V> {
    /// An empty list.
    pub fn new() -> Self {
        Self { chunks: AtomicPtr::new(null_mut()) }
    }

    /// A pin for a new reader. When all are taken, `more` allocates a chunk.
    ///
    /// # Errors
    /// Those of `more`.
    pub fn take_slot<E>(
        &self,
        more: impl FnOnce() -> Result<*mut Chunk<V>, E>,
    ) -> Result<&Slot<V>, E> {
        let free = |slot: &&Slot<V>| {
            !slot.taken.load(Relaxed)
                && slot.taken.compare_exchange(false, true, Acquire, Relaxed).is_ok()
        };
        if let Some(slot) = self.all().find(free) {
            return Ok(slot);
        }
        let chunk = more()?;
        // SAFETY: the chunk is live until `take_all`, which needs exclusive access to `self`.
        let shared = unsafe { &*chunk };
        let mine = &shared.slots[0];
        mine.taken.store(true, Relaxed);
        let mut head = self.chunks.load(Relaxed);
        loop {
            shared.next.store(head, Relaxed);
            match self.chunks.compare_exchange_weak(head, chunk, AcqRel, Relaxed) {
                Ok(_) => return Ok(mine),
                Err(now) => head = now,
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = &Slot<V>> {
        let mut chunk = self.chunks.load(Acquire);
        core::iter::from_fn(move || {
            // SAFETY: null or a chunk of the list, which lives as long as `self`.
            let this = unsafe { chunk.as_ref() }?;
            chunk = this.next.load(Acquire);
            Some(&this.slots)
        })
        .flatten()
    }

    /// Every pin that a reader has or may have.
    pub fn pins(&self) -> impl Iterator<Item = &Pin<V>> {
        self.all().map(|slot| &slot.pin)
    }

    /// All chunks, to be freed by the caller that allocated them.
    pub fn take_all(&mut self) -> impl Iterator<Item = *mut Chunk<V>> {
        let mut chunk = self.chunks.swap(null_mut(), AcqRel);
        core::iter::from_fn(move || {
            let this = chunk;
            // SAFETY: null or a chunk of the list, which nothing else uses any more.
            chunk = unsafe { this.as_ref() }?.next.load(Relaxed);
            Some(this)
        })
    }
}

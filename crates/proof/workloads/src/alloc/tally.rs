//! A thread's allocations and frees, and the bytes that all threads hold.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use super::object::Object;
use super::sizes::Histogram;
use crate::random::{Draws, mix};

/// A thread reports its bytes to the shared count once per this many changes. Reporting every
/// change would dominate the measurement.
const TELL: u32 = 256;

/// The bytes that all threads hold, and their peak.
#[derive(Debug, Default)]
pub struct Live {
    bytes: AtomicI64,
    peak: AtomicI64,
}

impl Live {
    fn add(&self, bytes: i64) {
        let now = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        self.peak.fetch_max(now, Relaxed);
    }

    /// The most bytes that were allocated at the same time, without those that threads had not yet
    /// reported.
    pub fn peak_bytes(&self) -> u64 {
        u64::try_from(self.peak.load(Relaxed)).unwrap_or(0)
    }
}

/// The tally of one thread.
#[derive(Debug)]
pub struct Tally<'a> {
    live: &'a Live,
    seed: u64,
    thread: u64,
    allocations: u64,
    checksum: u64,
    sizes: Histogram,
    untold: i64,
    most_untold: i64,
    changes: u32,
}

/// The final tally of a thread.
#[derive(Clone, Debug)]
pub struct Account {
    /// Number of the thread.
    pub thread: u64,
    /// Objects that it allocated.
    pub allocations: u64,
    /// Checksum over the tags of the objects that it freed.
    pub checksum: u64,
    /// Sizes of the objects that it allocated.
    pub sizes: Histogram,
}

impl<'a> Tally<'a> {
    /// An empty tally.
    pub fn new(live: &'a Live, seed: u64, thread: usize) -> Self {
        Self {
            live,
            seed,
            thread: thread as u64,
            allocations: 0,
            checksum: 0,
            sizes: Histogram::default(),
            untold: 0,
            most_untold: 0,
            changes: 0,
        }
    }

    /// The random choices of this thread.
    pub fn draws(&self) -> Draws {
        Draws::of(self.seed, self.thread)
    }

    /// Allocates an object.
    pub fn allocate(&mut self, bytes: u64) -> Object {
        let object = Object::new(bytes, tag(self.seed, self.thread, self.allocations));
        self.allocations += 1;
        self.sizes.add(object.bytes());
        self.change(object.bytes().cast_signed());
        object
    }

    /// An empty list with room for `length` entries. It counts as requested memory, because it
    /// comes from `malloc` as the objects in it do.
    pub fn list<T>(&mut self, length: usize) -> Vec<T> {
        let list = Vec::with_capacity(length);
        self.change(list_bytes(&list));
        list
    }

    /// Drops such a list.
    pub fn drop_list<T>(&mut self, list: Vec<T>) {
        self.change(-list_bytes(&list));
    }

    /// Grows an object.
    pub fn grow(&mut self, object: &mut Object, bytes: u64) {
        let before = object.bytes();
        object.grow(bytes);
        self.change(object.bytes().cast_signed() - before.cast_signed());
    }

    /// Reads an object's tag and frees it.
    pub fn free(&mut self, object: Object) {
        self.checksum = self.checksum.wrapping_add(mix(object.tag()));
        self.change(-object.bytes().cast_signed());
    }

    fn change(&mut self, bytes: i64) {
        self.untold += bytes;
        self.most_untold = self.most_untold.max(self.untold);
        self.changes += 1;
        if self.changes == TELL {
            self.tell();
        }
    }

    fn tell(&mut self) {
        // A peak between two reports counts, too.
        self.live.add(self.most_untold);
        self.live.add(self.untold - self.most_untold);
        (self.untold, self.most_untold, self.changes) = (0, 0, 0);
    }

    /// Closes the tally.
    pub fn finish(mut self) -> Account {
        self.tell();
        let Self { thread, allocations, checksum, sizes, .. } = self;
        Account { thread, allocations, checksum, sizes }
    }
}

fn list_bytes<T>(list: &Vec<T>) -> i64 {
    // No allocation is larger than i64::MAX.
    i64::try_from(list.capacity() * size_of::<T>()).unwrap_or(i64::MAX)
}

/// The tag of object `number` of a thread.
fn tag(seed: u64, thread: u64, number: u64) -> u64 {
    // 0 marks a damaged object.
    mix(mix(seed ^ mix(thread + 1)) ^ number) | 1
}

/// The checksum over all objects that these threads allocated, computed without the objects.
pub fn expected(seed: u64, accounts: &[Account]) -> u64 {
    let of_thread = |account: &Account| {
        let tags = (0..account.allocations).map(|n| mix(tag(seed, account.thread, n)));
        tags.fold(0, u64::wrapping_add)
    };
    accounts.iter().map(of_thread).fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_that_of_all_threads_together() {
        let live = Live::default();
        let (mut one, mut two) = (Tally::new(&live, 1, 0), Tally::new(&live, 1, 1));
        let objects: Vec<Object> = (0..1000).map(|_| one.allocate(80)).collect();
        let one = one.finish();
        objects.into_iter().for_each(|object| two.free(object));
        let accounts = [one, two.finish()];
        assert_eq!(live.peak_bytes(), 80_000);
        let checksum = accounts.iter().map(|a| a.checksum).fold(0, u64::wrapping_add);
        assert_eq!(checksum, expected(1, &accounts));
    }

    #[test]
    fn an_object_that_was_not_freed_shows() {
        let live = Live::default();
        let mut tally = Tally::new(&live, 1, 0);
        drop(tally.allocate(8));
        let account = tally.finish();
        assert_ne!(account.checksum, expected(1, std::slice::from_ref(&account)));
    }
}

//! Stacks of sampled calls, and how many objects were allocated and freed there.
//!
//! There are two tables that only grow, in memory of their own: addresses, so that a stack is a
//! list of small numbers, and stacks, which differ in addresses or in the size of the object.

use super::stack::DEPTH;
use crate::os::kernel;

/// Most different addresses.
const LOCATIONS: usize = 1 << 16;
/// Most different stacks.
const STACKS: usize = 1 << 16;
/// Slots of a hash table for this many.
const SLOTS: usize = 2 << 16;

/// A stack, and the allocations made there.
#[repr(C)]
pub struct Entry {
    /// Bytes of an object.
    pub size: u64,
    /// Number of samples taken.
    pub allocated: u64,
    /// Number of those that were freed.
    pub freed: u64,
    depth: u32,
    locations: [u32; DEPTH],
}

impl Entry {
    /// Numbers of its addresses, the innermost first.
    pub fn locations(&self) -> &[u32] {
        &self.locations[..self.depth as usize]
    }
}

/// The memory of the tables: all zeroes at first.
#[repr(C)]
struct Memory {
    /// By hash, the number of a location and of an entry, counted from 1; 0: none.
    location_slots: [u32; SLOTS],
    entry_slots: [u32; SLOTS],
    locations: [usize; LOCATIONS],
    entries: [Entry; STACKS],
}

/// The tables.
pub struct Table {
    memory: *mut Memory,
    locations: usize,
    entries: usize,
    /// Samples for which there was no room.
    pub lost: u64,
}

// SAFETY: the memory is the table's own.
unsafe impl Send for Table {}

impl Table {
    /// The state before [`Self::start`].
    pub const NONE: Self =
        Self { memory: core::ptr::null_mut(), locations: 0, entries: 0, lost: 0 };

    /// Takes memory; returns the cause if there is none.
    pub fn start(&mut self) -> Result<(), &'static str> {
        let bytes = size_of::<Memory>();
        let start = kernel::reserve(bytes).map_err(|_| "there is no address space for it")?;
        // SAFETY: just reserved.
        unsafe { kernel::commit(start, bytes) }.map_err(|_| "there is no memory for it")?;
        self.memory = start as *mut Memory;
        Ok(())
    }

    fn memory(&self) -> Option<&Memory> {
        // SAFETY: taken by `start`, zeroed, never returned, and reached only through the table.
        unsafe { self.memory.as_ref() }
    }

    /// Addresses by number, from 1 on.
    pub fn locations(&self) -> &[usize] {
        self.memory().map_or(&[], |memory| &memory.locations[..self.locations])
    }

    /// All stacks.
    pub fn entries(&self) -> &[Entry] {
        self.memory().map_or(&[], |memory| &memory.entries[..self.entries])
    }

    /// Counts a sampled object of `size` bytes. Returns the number to pass to [`Self::leave`] when
    /// it is freed, or 0 if there is no room.
    pub fn enter(&mut self, addresses: &[usize], size: u64) -> u32 {
        let number = self.find(addresses, size).unwrap_or(0);
        match self.entry(number) {
            Some(entry) => entry.allocated += 1,
            None => self.lost += 1,
        }
        number
    }

    /// Counts a freed object.
    pub fn leave(&mut self, number: u32) {
        if let Some(entry) = self.entry(number) {
            entry.freed += 1;
        }
    }

    fn entry(&mut self, number: u32) -> Option<&mut Entry> {
        // SAFETY: as in `memory`, and the table is borrowed exclusively.
        let memory = unsafe { self.memory.as_mut() }?;
        memory.entries[..self.entries].get_mut((number as usize).checked_sub(1)?)
    }

    /// The number of a stack, which is added if it is new.
    fn find(&mut self, addresses: &[usize], size: u64) -> Option<u32> {
        let mut locations = [0; DEPTH];
        let depth = addresses.len().min(DEPTH);
        for (location, &address) in locations.iter_mut().zip(addresses) {
            *location = self.locate(address)?;
        }
        let words = locations[..depth].iter().map(|&location| u64::from(location));
        let hash = hash(words.chain([size]));
        // SAFETY: as in `memory`, and the table is borrowed exclusively.
        let memory = unsafe { self.memory.as_mut() }?;
        for slot in slots(hash) {
            let number = memory.entry_slots[slot];
            if number == 0 {
                let entry = memory.entries.get_mut(self.entries)?;
                entry.size = size;
                entry.depth = depth as u32;
                entry.locations = locations;
                self.entries += 1;
                memory.entry_slots[slot] = self.entries as u32;
                return Some(self.entries as u32);
            }
            let entry = &memory.entries[number as usize - 1];
            if entry.size == size && entry.locations() == &locations[..depth] {
                return Some(number);
            }
        }
        None
    }

    /// The number of an address, which is added if it is new.
    fn locate(&mut self, address: usize) -> Option<u32> {
        // SAFETY: as in `memory`, and the table is borrowed exclusively.
        let memory = unsafe { self.memory.as_mut() }?;
        for slot in slots(hash([address as u64])) {
            let number = memory.location_slots[slot];
            if number == 0 {
                *memory.locations.get_mut(self.locations)? = address;
                self.locations += 1;
                memory.location_slots[slot] = self.locations as u32;
                return Some(self.locations as u32);
            }
            if memory.locations[number as usize - 1] == address {
                return Some(number);
            }
        }
        None
    }
}

/// The slots of a hash, one after the other.
fn slots(hash: u64) -> impl Iterator<Item = usize> {
    let first = (hash >> 32) as usize;
    (first..first + SLOTS).map(|slot| slot % SLOTS)
}

/// Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4), word by word.
fn hash(words: impl IntoIterator<Item = u64>) -> u64 {
    words
        .into_iter()
        .fold(0, |hash: u64, word| (hash.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_distinguished() {
        let mut table = Table::NONE;
        assert_eq!(table.enter(&[1, 2], 16), 0);
        assert_eq!(table.lost, 1);
        table.start().unwrap();
        let first = table.enter(&[1, 2], 16);
        let numbers = [&[1, 2][..], &[2, 1], &[1], &[1, 2, 3]].map(|stack| table.enter(stack, 16));
        assert_eq!(numbers[0], first);
        assert!(numbers[1..].iter().all(|&number| number != first && number != 0));
        assert_ne!(table.enter(&[1, 2], 32), first);
        table.leave(first);
        let entry = &table.entries()[first as usize - 1];
        assert_eq!((entry.size, entry.allocated, entry.freed), (16, 2, 1));
        let addresses = entry.locations().iter().map(|&n| table.locations()[n as usize - 1]);
        assert!(addresses.eq([1, 2]));
        assert_eq!(table.locations(), [1, 2, 3]);
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let mut table = Table::NONE;
        table.start().unwrap();
        for address in 1..=STACKS + 10 {
            let _ = table.enter(&[7], address as u64);
        }
        assert_eq!((table.entries().len(), table.lost), (STACKS, 10));
        table.leave(0);
    }
}

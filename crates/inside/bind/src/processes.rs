//! The CPU that each process holds: an open-addressed table of atomics, keyed by process id.
//!
//! Each process has one word, with its id in the upper half and its CPU in the lower half. Zero
//! marks a free entry. The kernel assigns ids in sequence, so `id % SIZE` spreads them without a
//! hash.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const SIZE: usize = 4096;
/// Number of entries that are probed for one process.
const PROBES: usize = 32;
/// Number of registered processes that are checked at each registration. If it is above one, the
/// table is cleared faster than it fills.
const SWEEP: usize = 4;

/// Lower half of an entry whose process pins itself; CPUs are stored as number + 1.
const ITS_OWN: u32 = u32::MAX;

/// The record of a process: how its main thread is placed. It survives `exec`, which keeps the
/// process and its affinity but not its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// This CPU, which the library assigned.
    Cpu(u16),
    /// The CPUs that the program chose.
    ItsOwn,
}

#[repr(C)]
pub(crate) struct Processes {
    entries: [AtomicU64; SIZE],
    hand: AtomicU32,
}

impl Processes {
    pub(crate) const fn new() -> Self {
        Self { entries: [const { AtomicU64::new(0) }; SIZE], hand: AtomicU32::new(0) }
    }

    /// The entries that may hold this process.
    fn probe(&self, pid: u32) -> impl Iterator<Item = &AtomicU64> {
        (0..PROBES).map(move |i| &self.entries[(pid as usize + i) % SIZE])
    }

    fn entry_of(&self, pid: u32) -> Option<&AtomicU64> {
        self.probe(pid).find(|entry| owner(entry.load(Relaxed)) == pid)
    }

    pub(crate) fn find(&self, pid: u32) -> Option<Holds> {
        holds(self.entry_of(pid)?.load(Relaxed))
    }

    /// [`Processes::find`] in a copy of the table's bytes.
    pub(crate) fn find_in(table: &[u8], pid: u32) -> Option<Holds> {
        let (words, _) = table.as_chunks::<8>();
        let word = |i: usize| words.get((pid as usize + i) % SIZE).map(|w| u64::from_ne_bytes(*w));
        (0..PROBES).filter_map(word).find(|word| owner(*word) == pid).and_then(holds)
    }

    pub(crate) fn insert(&self, pid: u32, holds: Holds) {
        let word = u64::from(pid) << 32 | u64::from(encode(holds));
        if let Some(entry) = self.entry_of(pid) {
            entry.store(word, Relaxed);
            return;
        }
        for entry in self.probe(pid) {
            if entry.compare_exchange(0, word, Relaxed, Relaxed).is_ok() {
                return;
            }
        }
    }

    pub(crate) fn remove(&self, pid: u32) -> Option<Holds> {
        holds(self.entry_of(pid)?.swap(0, Relaxed))
    }

    /// Checks the next few registered processes and clears the dead ones.
    pub(crate) fn sweep(&self, alive: impl Fn(u32) -> bool, release: impl Fn(u16)) {
        let mut asked = 0;
        for _ in 0..SIZE {
            let entry = &self.entries[self.hand.fetch_add(1, Relaxed) as usize % SIZE];
            let word = entry.load(Relaxed);
            if word == 0 {
                continue;
            }
            asked += 1;
            if !alive(owner(word))
                // The process that clears the entry releases its CPU, exactly once.
                && entry.compare_exchange(word, 0, Relaxed, Relaxed).is_ok()
                && let Some(Holds::Cpu(cpu)) = holds(word)
            {
                release(cpu);
            }
            if asked == SWEEP {
                return;
            }
        }
    }
}

fn owner(word: u64) -> u32 {
    (word >> 32) as u32
}

fn encode(holds: Holds) -> u32 {
    match holds {
        Holds::Cpu(cpu) => u32::from(cpu) + 1,
        Holds::ItsOwn => ITS_OWN,
    }
}

fn holds(word: u64) -> Option<Holds> {
    match word as u32 {
        0 => None,
        ITS_OWN => Some(Holds::ItsOwn),
        code => u16::try_from(code - 1).ok().map(Holds::Cpu),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_whose_ids_collide_are_kept_apart() {
        let table = Processes::new();
        let ids = [7, 7 + 4096, 7 + 2 * 4096];
        for (cpu, pid) in (0..).zip(ids) {
            table.insert(pid, Holds::Cpu(cpu));
        }
        assert_eq!(table.remove(7), Some(Holds::Cpu(0)));
        assert_eq!(table.find(7), None);
        assert_eq!(table.find(7 + 4096), Some(Holds::Cpu(1)));
        assert_eq!(table.find(7 + 2 * 4096), Some(Holds::Cpu(2)));
    }

    #[test]
    fn a_second_record_replaces_the_first() {
        let table = Processes::new();
        table.insert(9, Holds::Cpu(0));
        table.insert(9, Holds::ItsOwn);
        assert_eq!(table.remove(9), Some(Holds::ItsOwn));
        assert_eq!(table.find(9), None);
    }

    #[test]
    fn a_full_table_refuses_quietly_and_a_sweep_makes_room() {
        let table = Processes::new();
        for pid in 1..=4096 {
            table.insert(pid, Holds::ItsOwn);
        }
        table.insert(5000, Holds::Cpu(1));
        assert_eq!(table.find(5000), None);
        for _ in 0..4096 {
            table.sweep(|_| false, |_| ());
        }
        table.insert(5000, Holds::Cpu(1));
        assert_eq!(table.find(5000), Some(Holds::Cpu(1)));
    }
}

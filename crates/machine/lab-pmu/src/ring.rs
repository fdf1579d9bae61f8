//! A ring of sampled accesses: one CPU writes, one reader reads, nobody waits. What does
//! not fit is counted as lost.

use std::sync::atomic::{AtomicU64, Ordering};

/// Where an access was served from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Level {
    /// A private cache beyond the first level.
    Private = 1,
    /// The last level of cache.
    Last = 2,
    /// A cache of another CPU.
    OtherCache = 3,
    /// DRAM.
    Dram = 4,
}

impl Level {
    fn from_bits(bits: u64) -> Option<Self> {
        [Self::Private, Self::Last, Self::OtherCache, Self::Dram]
            .into_iter()
            .find(|level| *level as u64 == bits & 0xff)
    }
}

/// A sampled access that missed the first level of cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Simulated time.
    pub time_ns: u64,
    /// Virtual address in the process that ran; which process that was, the emulator does
    /// not know.
    pub virtual_address: u64,
    /// Physical address: with `/proc/PID/pagemap` it tells whose the access was.
    pub physical_address: u64,
    /// Virtual CPU.
    pub cpu: u32,
    /// Home node of the memory.
    pub home: u32,
    /// A store.
    pub write: bool,
    /// Where it was served from.
    pub level: Level,
    /// What it took, queues included.
    pub latency_ns: u32,
}

impl Record {
    fn pack(&self) -> [u64; SAMPLE_WORDS] {
        [
            self.time_ns,
            self.virtual_address,
            self.physical_address,
            u64::from(self.cpu) << 32 | u64::from(self.home),
            u64::from(self.latency_ns) << 32 | u64::from(self.write) << 8 | self.level as u64,
        ]
    }

    #[allow(clippy::cast_possible_truncation)]
    fn unpack(words: [u64; SAMPLE_WORDS]) -> Option<Self> {
        let [time_ns, virtual_address, physical_address, place, what] = words;
        Some(Self {
            time_ns,
            virtual_address,
            physical_address,
            cpu: (place >> 32) as u32,
            home: place as u32,
            write: what & 0x100 != 0,
            level: Level::from_bits(what)?,
            latency_ns: (what >> 32) as u32,
        })
    }
}

const SAMPLE_WORDS: usize = 5;
/// Slots are whole cache lines.
const SLOT_WORDS: usize = 8;
/// Written, read, lost, each on its own cache line.
const HEADER_WORDS: usize = 24;
const WRITTEN: usize = 0;
const READ: usize = 8;
const LOST: usize = 16;

/// Words of a ring.
pub(crate) const fn words(slots: usize) -> usize {
    HEADER_WORDS + slots * SLOT_WORDS
}

/// One CPU's ring. There must be one writer and one reader at a time; with more, samples
/// get lost or mixed, and nothing worse happens.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    header: &'a [AtomicU64],
    slots: &'a [AtomicU64],
}

impl<'a> Ring<'a> {
    /// A ring in these words.
    pub(crate) fn new(words: &'a [AtomicU64]) -> Option<Self> {
        let (header, slots) = words.split_at_checked(HEADER_WORDS)?;
        (slots.len() >= SLOT_WORDS).then_some(Self { header, slots })
    }

    /// Samples that it holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.slots.len() / SLOT_WORDS
    }

    fn slot(&self, position: u64) -> &'a [AtomicU64] {
        let index = (position % self.capacity() as u64) as usize * SLOT_WORDS;
        &self.slots[index..index + SLOT_WORDS]
    }

    /// Writes a sample, or counts it as lost.
    pub fn push(&self, sample: &Record) {
        let written = self.header[WRITTEN].load(Ordering::Relaxed);
        let read = self.header[READ].load(Ordering::Acquire);
        if written.wrapping_sub(read) >= self.capacity() as u64 {
            let lost = self.header[LOST].load(Ordering::Relaxed);
            self.header[LOST].store(lost + 1, Ordering::Relaxed);
            return;
        }
        for (word, value) in self.slot(written).iter().zip(sample.pack()) {
            word.store(value, Ordering::Relaxed);
        }
        self.header[WRITTEN].store(written.wrapping_add(1), Ordering::Release);
    }

    /// The oldest sample that was not read yet.
    pub fn pop(&self) -> Option<Record> {
        loop {
            let read = self.header[READ].load(Ordering::Relaxed);
            let written = self.header[WRITTEN].load(Ordering::Acquire);
            if read == written {
                return None;
            }
            // More than fits: another reader, or damage; the rest is as good as lost.
            if written.wrapping_sub(read) > self.capacity() as u64 {
                self.header[READ].store(written, Ordering::Release);
                return None;
            }
            let slot = self.slot(read);
            let sample = Record::unpack(std::array::from_fn(|i| slot[i].load(Ordering::Relaxed)));
            self.header[READ].store(read.wrapping_add(1), Ordering::Release);
            if sample.is_some() {
                return sample;
            }
        }
    }

    /// Forgets what was not read yet.
    pub fn skip(&self) {
        self.header[READ].store(self.header[WRITTEN].load(Ordering::Acquire), Ordering::Release);
    }

    /// Samples that found the ring full, since the beginning.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.header[LOST].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn memory(slots: usize) -> Vec<AtomicU64> {
        (0..words(slots)).map(|_| AtomicU64::new(0)).collect()
    }

    fn sample(time_ns: u64) -> Record {
        Record {
            time_ns,
            virtual_address: time_ns.wrapping_mul(3),
            physical_address: time_ns.wrapping_mul(5),
            cpu: 7,
            home: 3,
            write: time_ns.is_multiple_of(2),
            level: Level::Dram,
            latency_ns: 210,
        }
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let memory = memory(4);
        let ring = Ring::new(&memory).unwrap();
        (0..6).for_each(|i| ring.push(&sample(i)));
        assert_eq!(ring.lost(), 2);
        assert_eq!(
            std::iter::from_fn(|| ring.pop()).map(|s| s.time_ns).collect::<Vec<_>>(),
            [0, 1, 2, 3]
        );
        ring.push(&sample(9));
        assert_eq!(ring.pop(), Some(sample(9)));
        assert_eq!(ring.pop(), None);
    }

    #[test]
    fn a_reader_beside_the_writer_gets_whole_samples_in_order() {
        const COUNT: u64 = 200_000;
        let memory = memory(64);
        let ring = Ring::new(&memory).unwrap();
        let mut seen = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| (1..=COUNT).for_each(|i| ring.push(&sample(i))));
            let mut last = 0;
            while last < COUNT && seen + ring.lost() < COUNT {
                if let Some(found) = ring.pop() {
                    assert!(found.time_ns > last);
                    assert_eq!(found, sample(found.time_ns));
                    last = found.time_ns;
                    seen += 1;
                }
            }
        });
        seen += std::iter::from_fn(|| ring.pop()).count() as u64;
        assert_eq!(seen + ring.lost(), COUNT);
    }

    proptest! {
        #[test]
        fn damaged_memory_is_read_without_harm(
            written: u64, read: u64, slots in proptest::collection::vec(any::<u64>(), 32),
        ) {
            let memory = memory(4);
            memory[WRITTEN].store(written, Ordering::Relaxed);
            memory[READ].store(read, Ordering::Relaxed);
            for (word, value) in memory[HEADER_WORDS..].iter().zip(slots) {
                word.store(value, Ordering::Relaxed);
            }
            let ring = Ring::new(&memory).unwrap();
            prop_assert!(std::iter::from_fn(|| ring.pop()).count() <= 4);
            ring.push(&sample(1));
        }

        #[test]
        fn samples_survive_packing(time_ns: u64, cpu: u32, home: u32, write: bool, latency_ns: u32) {
            let sample = Record { cpu, home, write, latency_ns, ..sample(time_ns) };
            prop_assert_eq!(Record::unpack(sample.pack()), Some(sample));
        }
    }
}

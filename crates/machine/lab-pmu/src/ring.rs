//! A ring of sampled accesses. One CPU writes, any number of readers read, and none of them waits.
//! A reader counts samples that were overwritten before it read them as lost.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// What served an access.
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
    /// Virtual address in the process that ran. The emulator does not know which process that was.
    pub virtual_address: u64,
    /// Physical address. With `/proc/PID/pagemap` it identifies the process.
    pub physical_address: u64,
    /// Virtual CPU.
    pub cpu: u32,
    /// Home node of the memory.
    pub home: u32,
    /// A store.
    pub write: bool,
    /// What served it.
    pub level: Level,
    /// Its latency, queues included.
    pub latency_ns: u32,
    /// Number of accesses that missed the first level, of which this is one sample.
    pub period: u64,
}

impl Record {
    fn pack(&self) -> [u64; SAMPLE_WORDS] {
        [
            self.time_ns,
            self.virtual_address,
            self.physical_address,
            u64::from(self.cpu) << 32 | u64::from(self.home),
            u64::from(self.latency_ns) << 32 | u64::from(self.write) << 8 | self.level as u64,
            self.period,
        ]
    }

    #[allow(clippy::cast_possible_truncation)]
    fn unpack(words: [u64; SAMPLE_WORDS]) -> Option<Self> {
        let [time_ns, virtual_address, physical_address, place, what, period] = words;
        Some(Self {
            time_ns,
            virtual_address,
            physical_address,
            cpu: (place >> 32) as u32,
            home: place as u32,
            write: what & 0x100 != 0,
            level: Level::from_bits(what)?,
            latency_ns: (what >> 32) as u32,
            period,
        })
    }
}

const SAMPLE_WORDS: usize = 6;
/// Slots are whole cache lines.
const SLOT_WORDS: usize = 8;
/// The number of samples written, on its own cache line.
const HEADER_WORDS: usize = 8;
const WRITTEN: usize = 0;

/// Words of a ring.
pub(crate) const fn words(slots: usize) -> usize {
    HEADER_WORDS + slots * SLOT_WORDS
}

/// One CPU's ring. There must be one writer at a time. With more, samples are lost or mixed, but
/// nothing worse happens.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    header: &'a [AtomicU64],
    slots: &'a [AtomicU64],
}

impl<'a> Ring<'a> {
    /// The ring in these words.
    pub(crate) fn new(words: &'a [AtomicU64]) -> Option<Self> {
        let (header, slots) = words.split_at_checked(HEADER_WORDS)?;
        (slots.len() >= SLOT_WORDS).then_some(Self { header, slots })
    }

    /// The number of samples that fit. Writing a sample destroys the oldest one.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.slots.len() / SLOT_WORDS
    }

    fn slot(&self, position: u64) -> &'a [AtomicU64] {
        let index = (position % self.capacity() as u64) as usize * SLOT_WORDS;
        &self.slots[index..index + SLOT_WORDS]
    }

    /// Writes a sample over the oldest one.
    pub fn push(&self, sample: &Record) {
        let written = self.header[WRITTEN].load(Ordering::Relaxed);
        // A reader that sees a word of this sample also sees the number written before it.
        fence(Ordering::Release);
        for (word, value) in self.slot(written).iter().zip(sample.pack()) {
            word.store(value, Ordering::Relaxed);
        }
        self.header[WRITTEN].store(written.wrapping_add(1), Ordering::Release);
    }

    /// A reader of the samples that are written from now on.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader { position: self.header[WRITTEN].load(Ordering::Acquire), lost: 0 }
    }

    /// The oldest sample that a reader has not seen yet.
    pub fn next(&self, reader: &mut Reader) -> Option<Record> {
        loop {
            let behind = self.header[WRITTEN].load(Ordering::Acquire).wrapping_sub(reader.position);
            if behind == 0 {
                return None;
            }
            // The oldest sample may be in the middle of being overwritten.
            let lost = behind.saturating_sub(self.capacity() as u64 - 1);
            reader.lost = reader.lost.wrapping_add(lost);
            reader.position = reader.position.wrapping_add(lost);
            if lost == behind {
                return None;
            }
            let slot = self.slot(reader.position);
            let words = std::array::from_fn(|i| slot[i].load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            let written = self.header[WRITTEN].load(Ordering::Relaxed);
            if written.wrapping_sub(reader.position) >= self.capacity() as u64 {
                continue;
            }
            reader.position = reader.position.wrapping_add(1);
            if let Some(sample) = Record::unpack(words) {
                return Some(sample);
            }
        }
    }
}

/// A reader's position in a ring.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    position: u64,
    lost: u64,
}

impl Reader {
    /// Samples that were overwritten before they were read.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use numapilot_test_kit::damaged_bytes;
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
            period: time_ns % 1000,
        }
    }

    #[test]
    fn what_is_written_over_is_counted() {
        let memory = memory(4);
        let ring = Ring::new(&memory).unwrap();
        ring.push(&sample(8));
        let mut reader = ring.reader();
        (0..6).for_each(|i| ring.push(&sample(i)));
        let seen = std::iter::from_fn(|| ring.next(&mut reader));
        assert_eq!(seen.map(|s| s.time_ns).collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!(reader.lost(), 3);
        ring.push(&sample(9));
        assert_eq!(ring.next(&mut reader), Some(sample(9)));
        assert_eq!(ring.next(&mut reader), None);
    }

    #[test]
    fn readers_do_not_take_from_each_other() {
        let memory = memory(8);
        let ring = Ring::new(&memory).unwrap();
        let mut readers = [ring.reader(); 2];
        (0..6).for_each(|i| ring.push(&sample(i)));
        for reader in &mut readers {
            assert_eq!(std::iter::from_fn(|| ring.next(reader)).count(), 6);
        }
    }

    #[test]
    fn readers_beside_the_writer_get_whole_samples_in_order() {
        const COUNT: u64 = 200_000;
        let memory = memory(64);
        let ring = Ring::new(&memory).unwrap();
        let read = |mut reader: Reader| {
            let (mut last, mut seen) = (0, 0);
            while last < COUNT {
                if let Some(found) = ring.next(&mut reader) {
                    assert!(found.time_ns > last);
                    assert_eq!(found, sample(found.time_ns));
                    last = found.time_ns;
                    seen += 1;
                }
            }
            assert_eq!(seen + reader.lost(), COUNT);
        };
        let [one, other] = [ring.reader(); 2];
        std::thread::scope(|scope| {
            scope.spawn(|| (1..=COUNT).for_each(|i| ring.push(&sample(i))));
            scope.spawn(|| read(one));
            read(other);
        });
    }

    /// The memory of a ring with four slots, after six samples.
    fn written() -> Vec<u8> {
        let memory = memory(4);
        let ring = Ring::new(&memory).unwrap();
        (0..6).for_each(|i| ring.push(&sample(i)));
        memory.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect()
    }

    proptest! {
        #[test]
        fn damaged_memory_is_read_without_harm(
            bytes in damaged_bytes(written()), position in prop_oneof![0u64..8, any::<u64>()],
        ) {
            let memory = memory(4);
            for (word, bytes) in memory.iter().zip(bytes.chunks_exact(8)) {
                word.store(u64::from_le_bytes(bytes.try_into().unwrap()), Ordering::Relaxed);
            }
            let ring = Ring::new(&memory).unwrap();
            let mut reader = Reader { position, lost: 0 };
            prop_assert!(std::iter::from_fn(|| ring.next(&mut reader)).count() <= 4);
            ring.push(&sample(1));
        }

        #[test]
        fn samples_survive_packing(
            time_ns: u64, cpu: u32, home: u32, write: bool, latency_ns: u32, period: u64,
        ) {
            let sample = Record { cpu, home, write, latency_ns, period, ..sample(time_ns) };
            prop_assert_eq!(Record::unpack(sample.pack()), Some(sample));
        }
    }
}

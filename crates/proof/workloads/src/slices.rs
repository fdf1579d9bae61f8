//! An input table with one slice per worker, handed out in morsels.
//!
//! A worker first reads its own slice, which it also filled (first touch). Then it helps workers
//! that are not done, so that a CPU that is busy with something else does not delay the phase.
//! (Morsel-driven parallelism: Leis, Boncz, Kemper, Neumann, SIGMOD 2014.)
//!
//! Each slice starts at a different position, and every other slice is handed out backwards. In
//! sequential data, the same keys are at the same positions of all slices; workers would otherwise
//! follow each other from lock to lock (a convoy).

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::WorkloadError;
use crate::data::{DataSet, Record, Source};

/// Records of a morsel: 256 KiB, a few hundred microseconds of work.
pub const MORSEL: usize = 16_384;

/// One worker's slice. Its alignment keeps the cursors of two workers out of one cache line (and
/// out of adjacent lines, which x86 fetches in pairs).
#[derive(Debug)]
#[repr(align(128))]
struct Slice {
    range: Range<u64>,
    records: OnceLock<Vec<Record>>,
    /// The morsel that is handed out first, and the direction.
    first: usize,
    backwards: bool,
    /// How many have been handed out.
    turn: AtomicUsize,
}

/// An input table.
#[derive(Debug)]
pub struct Slices<S = DataSet> {
    source: S,
    slices: Vec<Slice>,
}

impl<S: Source> Slices<S> {
    /// Divides the table among `workers`, without generating any records.
    #[must_use]
    pub fn new(source: S, workers: usize) -> Self {
        let records = u128::from(source.records());
        let cut = |i: usize| (records * i as u128 / workers as u128) as u64;
        let slices = (0..workers).map(|i| {
            let range = cut(i)..cut(i + 1);
            let morsels = (range.end - range.start).div_ceil(MORSEL as u64);
            // Multiples of the golden ratio, modulo 1, are never close to each other.
            let fraction = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let first = ((u128::from(fraction) * u128::from(morsels)) >> 64) as usize;
            let backwards = i % 2 == 1;
            Slice { range, records: OnceLock::new(), first, backwards, turn: AtomicUsize::new(0) }
        });
        Self { source, slices: slices.collect() }
    }

    /// Generates slice `index` in the calling thread, which touches it first. If `malloc` refuses a
    /// slice, it stays empty: see [`Slices::complete`].
    pub fn load(&self, index: usize) {
        let Slice { range, records, .. } = &self.slices[index];
        let mut filled = Vec::new();
        let Ok(length) = usize::try_from(range.end - range.start) else { return };
        if filled.try_reserve_exact(length).is_err() {
            return;
        }
        self.source.generate(range.clone(), &mut filled);
        // Only a second load of the same slice would find it filled, with the same records.
        let _ = records.set(filled);
    }

    /// Generates all slices in the calling thread.
    pub fn load_all(&self) {
        (0..self.slices.len()).for_each(|index| self.load(index));
    }

    /// Checks that every slice has been generated.
    ///
    /// # Errors
    /// [`WorkloadError::Malloc`] with the size of the table when a slice is missing.
    pub fn complete(&self) -> Result<(), WorkloadError> {
        if self.slices.iter().all(|slice| slice.records.get().is_some()) {
            return Ok(());
        }
        let bytes = self.source.records().saturating_mul(size_of::<Record>() as u64);
        Err(WorkloadError::Malloc { what: "the records", bytes })
    }

    /// The records of all slices, in order.
    pub fn records(&self) -> impl Iterator<Item = &[Record]> {
        self.slices.iter().map(|slice| slice.records.get().map_or(&[][..], Vec::as_slice))
    }

    /// The morsels of one worker. Over all workers, every record occurs once.
    pub fn morsels(&self, worker: usize) -> impl Iterator<Item = &[Record]> {
        let (others, own) = self.slices.split_at(worker);
        own.iter().chain(others).flat_map(|slice| {
            let records = slice.records.get().map_or(&[][..], Vec::as_slice);
            std::iter::from_fn(move || {
                let mut morsels = records.chunks(MORSEL);
                // The count may run past the end by one per worker.
                let turn = slice.turn.fetch_add(1, Relaxed);
                let turn = (turn < morsels.len()).then_some(turn)?;
                let at = (slice.first + turn) % morsels.len();
                if slice.backwards { morsels.nth_back(at) } else { morsels.nth(at) }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Distribution;

    const SET: DataSet =
        DataSet { distribution: Distribution::Zipf, records: 100_003, groups: 50, seed: 9 };

    #[test]
    fn the_data_do_not_depend_on_the_number_of_workers() {
        let generate = |workers| {
            let slices = Slices::new(SET, workers);
            (0..workers).rev().for_each(|i| slices.load(i));
            slices.complete().unwrap();
            slices.records().flatten().copied().collect::<Vec<_>>()
        };
        let one = generate(1);
        assert_eq!(one.len(), 100_003);
        assert_eq!(one, generate(7));
    }

    #[test]
    fn every_record_is_handed_out_once() {
        let slices = Slices::new(SET, 3);
        slices.load_all();
        let mut first = slices.morsels(1);
        let mut seen: Vec<Record> = first.next().unwrap().to_vec();
        // Worker 1 begins with its own slice.
        let own = slices.records().nth(1).unwrap();
        assert!(own.chunks(MORSEL).any(|morsel| morsel == seen));
        seen.extend(slices.morsels(2).flatten());
        seen.extend(first.flatten());
        seen.extend(slices.morsels(0).flatten());
        let mut all: Vec<Record> = slices.records().flatten().copied().collect();
        all.sort_unstable();
        seen.sort_unstable();
        assert_eq!(seen, all);
    }

    #[test]
    fn a_slice_that_was_not_generated_is_noticed() {
        let slices = Slices::new(SET, 2);
        slices.load(0);
        assert!(slices.complete().unwrap_err().to_string().contains("malloc refused"));
    }
}

//! k5, swapped: each thread fills its own array. Then all threads move to the next node, and their
//! memory stays behind. The controllers are balanced, but every access is remote.
//!
//! Best: move the arrays after their threads.

use super::clock::Clock;
use super::parts::Parts;
use super::pinned_threads::PinnedThreads;
use super::stage::Stage;
use super::{Area, KernelError, Options, Pathology, Place, Step};

/// Passes of each thread over its array.
const PASSES: usize = 2;

/// See the module.
pub(super) struct Swapped {
    place: Place,
    arrays: Parts,
}

impl Swapped {
    pub fn new(
        options: &Options,
        place: Place,
        pinned: &PinnedThreads,
    ) -> Result<Self, KernelError> {
        Ok(Self { place, arrays: Parts::new(options, place, pinned)? })
    }
}

impl Pathology for Swapped {
    fn areas(&self) -> Vec<&Area> {
        vec![&self.arrays.area]
    }

    fn run(&self, stage: &Stage<'_>) -> u64 {
        self.arrays.fill_own(stage);
        stage.pin_to(stage.pinned().rotated(stage.thread(), 1));
        if self.place == Place::Collocate {
            stage.mitigate(|| self.arrays.collocate(stage.pinned(), 1));
        }
        let passes = || (0..PASSES).map(|_| self.arrays.pass(stage.thread()));
        stage.rounds(|_| stage.work(|| passes().fold(0, u64::wrapping_add)))
    }

    fn expected(&self, rounds: usize) -> u64 {
        self.arrays.expected(PASSES * rounds)
    }

    fn items(&self) -> u64 {
        self.arrays.items(PASSES)
    }

    fn steps(&self, pinned: &PinnedThreads, clock: &Clock) -> Result<Vec<Step>, KernelError> {
        let homes = self.arrays.area.homes(pinned)?;
        let loads = self.arrays.loads(pinned, 1, &homes, self.arrays.pace(clock));
        Ok(vec![Step::once(loads).times(PASSES as f64)])
    }
}

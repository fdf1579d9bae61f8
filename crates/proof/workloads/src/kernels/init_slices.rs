//! k2, init1-slices: the main thread fills an array, and each thread works on its own slice of it.
//! Threads share no data, but everything lies on one node.
//!
//! Best: each slice on the node of its thread. Interleaving balances the controllers, but makes
//! most accesses remote for no reason.

use super::clock::Clock;
use super::parts::Parts;
use super::pinned_threads::PinnedThreads;
use super::stage::Stage;
use super::{Area, KernelError, Options, Pathology, Place, Step};

/// Passes of each thread over its slice.
const PASSES: usize = 2;

/// See the module.
pub(super) struct InitSlices {
    place: Place,
    slices: Parts,
}

impl InitSlices {
    pub fn new(
        options: &Options,
        place: Place,
        pinned: &PinnedThreads,
    ) -> Result<Self, KernelError> {
        Ok(Self { place, slices: Parts::new(options, place, pinned)? })
    }
}

impl Pathology for InitSlices {
    fn areas(&self) -> Vec<&Area> {
        vec![&self.slices.area]
    }

    fn run(&self, stage: &Stage<'_>) -> u64 {
        match self.place {
            Place::Local => self.slices.fill_own(stage),
            _ => self.slices.fill_by_main(stage),
        }
        if self.place == Place::Collocate {
            stage.mitigate(|| self.slices.collocate(stage.pinned(), 0));
        }
        let passes = || (0..PASSES).map(|_| self.slices.pass(stage.thread()));
        stage.rounds(|_| stage.work(|| passes().fold(0, u64::wrapping_add)))
    }

    fn expected(&self, rounds: usize) -> u64 {
        self.slices.expected(PASSES * rounds)
    }

    fn items(&self) -> u64 {
        self.slices.items(PASSES)
    }

    fn steps(&self, pinned: &PinnedThreads, clock: &Clock) -> Result<Vec<Step>, KernelError> {
        let homes = self.slices.area.homes(pinned)?;
        let loads = self.slices.loads(pinned, 0, &homes, self.slices.pace(clock));
        Ok(vec![Step::once(loads).times(PASSES as f64)])
    }
}

//! k5, swapped: each thread fills an array of its own; then all threads go on by one node,
//! and their memory stays behind. Controllers are balanced, every access is remote.
//!
//! Best: move the arrays after their threads.

use super::clock::Clock;
use super::crew::Crew;
use super::parts::Parts;
use super::stage::Stage;
use super::{Area, Illness, KernelError, Options, Place, Step};

/// How often each thread goes through its array.
const PASSES: usize = 2;

/// See the module.
pub(super) struct Swapped {
    place: Place,
    arrays: Parts,
}

impl Swapped {
    pub fn new(options: &Options, place: Place, crew: &Crew) -> Result<Self, KernelError> {
        Ok(Self { place, arrays: Parts::new(options, place, crew)? })
    }
}

impl Illness for Swapped {
    fn areas(&self) -> Vec<&Area> {
        vec![&self.arrays.area]
    }

    fn run(&self, stage: &Stage<'_>) -> u64 {
        self.arrays.fill_own(stage);
        stage.sit(stage.crew().rotated(stage.thread(), 1));
        if self.place == Place::Collocate {
            stage.cure(|| self.arrays.collocate(stage.crew(), 1));
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

    fn steps(&self, crew: &Crew, clock: &Clock) -> Result<Vec<Step>, KernelError> {
        let homes = self.arrays.area.homes(crew)?;
        let loads = self.arrays.loads(crew, 1, &homes, self.arrays.pace(clock));
        Ok(vec![Step::once(loads).times(PASSES as f64)])
    }
}

//! How each kernel is built, and what it needs.

use numapilot_lab_model::Model;

use super::area::{HUGE_WORDS, page_bytes};
use super::crew::Crew;
use super::{
    Illness, Kernel, KernelError, Options, Place, burst, good_local, gups, huge_false_sharing,
    init_readall, init_slices, pipe, probe, read_mostly, rotate, skew, swapped,
};

impl Kernel {
    /// What `best` stands for, and whether the kernel takes a placement at all.
    pub(super) fn resolve(
        self,
        place: Place,
        options: &Options,
        model: Option<&Model>,
        crew: &Crew,
    ) -> Result<Place, KernelError> {
        if place != Place::Best {
            let taken = self.places().contains(&place);
            return taken.then_some(place).ok_or(KernelError::NoSuchPlace { kernel: self, place });
        }
        Ok(match self {
            Self::Init1Readall | Self::Probe => Place::Replicate,
            Self::Init1Slices | Self::Swapped => Place::Collocate,
            Self::Gups | Self::Burst => Place::Interleave,
            Self::GoodLocal => Place::FirstTouch,
            Self::ThpFalseSharing => Place::Split,
            Self::Skew => Place::WeightedInterleave,
            Self::Pipe => Place::Consumer,
            Self::ReadMostly => read_mostly::best(options, model, crew),
            // Decided while it runs.
            Self::Rotate => Place::Best,
        })
    }

    /// Allocates its memory, untouched.
    pub(super) fn build(
        self,
        options: &Options,
        place: Place,
        crew: &Crew,
    ) -> Result<Box<dyn Illness>, KernelError> {
        Ok(match self {
            Self::Init1Readall => Box::new(init_readall::InitReadall::new(options, place, crew)?),
            Self::Init1Slices => Box::new(init_slices::InitSlices::new(options, place, crew)?),
            Self::Probe => Box::new(probe::Probe::new(options, place, crew)?),
            Self::Gups => Box::new(gups::Gups::new(options, place, crew)?),
            Self::Swapped => Box::new(swapped::Swapped::new(options, place, crew)?),
            Self::Rotate => Box::new(rotate::Rotate::new(options, place, crew)?),
            Self::Burst => Box::new(burst::Burst::new(options, place, crew)?),
            Self::GoodLocal => Box::new(good_local::GoodLocal::new(options, place, crew)?),
            Self::ThpFalseSharing => {
                Box::new(huge_false_sharing::HugeFalseSharing::new(options, place, crew)?)
            }
            Self::Skew => Box::new(skew::Skew::new(options, place, crew)?),
            Self::ReadMostly => Box::new(read_mostly::ReadMostly::new(options, place, crew)?),
            Self::Pipe => Box::new(pipe::Pipe::new(options, place, crew)?),
        })
    }

    /// The size below which a thread would have nothing to do.
    pub(super) fn least_bytes(self, threads: usize) -> u64 {
        let pages = (threads * page_bytes()) as u64;
        match self {
            Self::GoodLocal => 3 * pages,
            Self::ThpFalseSharing => pages.next_multiple_of((HUGE_WORDS * 8) as u64),
            Self::Probe => pages.next_power_of_two(),
            _ => pages,
        }
    }

    /// How many times its size it needs.
    pub(super) fn areas(self, place: Place, crew: &Crew) -> u64 {
        let copies = match place {
            Place::Replicate | Place::Best => crew.memory().len() as u64,
            _ => 0,
        };
        match self {
            // The check holds the expected table.
            Self::Gups | Self::Burst => 2,
            Self::Init1Readall | Self::Probe | Self::ReadMostly => 1 + copies,
            Self::Skew => 2,
            _ => 1,
        }
    }
}

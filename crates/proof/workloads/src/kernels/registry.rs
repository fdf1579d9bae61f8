//! Builds each kernel, and knows what it needs.

use numapilot_lab_model::Model;

use super::area::{HUGE_WORDS, page_bytes};
use super::pinned_threads::PinnedThreads;
use super::{
    Kernel, KernelError, Options, Pathology, Place, burst, good_local, gups, huge_false_sharing,
    init_readall, init_slices, pipe, probe, read_mostly, rotate, skew, swapped,
};

impl Kernel {
    /// The placement that `best` stands for, or an error if the kernel does not support the
    /// placement.
    pub(super) fn resolve(
        self,
        place: Place,
        options: &Options,
        model: Option<&Model>,
        pinned: &PinnedThreads,
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
            Self::ReadMostly => read_mostly::best(options, model, pinned),
            // Rotate decides while it runs.
            Self::Rotate => Place::Best,
        })
    }

    /// Allocates the kernel's memory, untouched.
    pub(super) fn build(
        self,
        options: &Options,
        place: Place,
        pinned: &PinnedThreads,
    ) -> Result<Box<dyn Pathology>, KernelError> {
        Ok(match self {
            Self::Init1Readall => Box::new(init_readall::InitReadall::new(options, place, pinned)?),
            Self::Init1Slices => Box::new(init_slices::InitSlices::new(options, place, pinned)?),
            Self::Probe => Box::new(probe::Probe::new(options, place, pinned)?),
            Self::Gups => Box::new(gups::Gups::new(options, place, pinned)?),
            Self::Swapped => Box::new(swapped::Swapped::new(options, place, pinned)?),
            Self::Rotate => Box::new(rotate::Rotate::new(options, place, pinned)?),
            Self::Burst => Box::new(burst::Burst::new(options, place, pinned)?),
            Self::GoodLocal => Box::new(good_local::GoodLocal::new(options, place, pinned)?),
            Self::ThpFalseSharing => {
                Box::new(huge_false_sharing::HugeFalseSharing::new(options, place, pinned)?)
            }
            Self::Skew => Box::new(skew::Skew::new(options, place, pinned)?),
            Self::ReadMostly => Box::new(read_mostly::ReadMostly::new(options, place, pinned)?),
            Self::Pipe => Box::new(pipe::Pipe::new(options, place, pinned)?),
        })
    }

    /// The size below which a thread would have no work.
    pub(super) fn least_bytes(self, threads: usize) -> u64 {
        let pages = (threads * page_bytes()) as u64;
        match self {
            Self::GoodLocal => 3 * pages,
            Self::ThpFalseSharing => pages.next_multiple_of((HUGE_WORDS * 8) as u64),
            Self::Probe => pages.next_power_of_two(),
            _ => pages,
        }
    }

    /// The memory that the kernel needs, as a multiple of its size.
    pub(super) fn areas(self, place: Place, pinned: &PinnedThreads) -> u64 {
        let copies = match place {
            Place::Replicate | Place::Best => pinned.memory().len() as u64,
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

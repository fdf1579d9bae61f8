//! The names of the twelve kernels, and the placements that each supports.

use std::fmt;
use std::str::FromStr;

use super::place::Place;

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// k1.
    Init1Readall,
    /// k2.
    Init1Slices,
    /// k3.
    Probe,
    /// k4.
    Gups,
    /// k5.
    Swapped,
    /// k6.
    Rotate,
    /// k7.
    Burst,
    /// k8.
    GoodLocal,
    /// k9.
    ThpFalseSharing,
    /// k10.
    Skew,
    /// k11.
    ReadMostly,
    /// k12.
    Pipe,
}

impl Kernel {
    /// All of them, k1 first.
    pub const ALL: [Self; 12] = [
        Self::Init1Readall,
        Self::Init1Slices,
        Self::Probe,
        Self::Gups,
        Self::Swapped,
        Self::Rotate,
        Self::Burst,
        Self::GoodLocal,
        Self::ThpFalseSharing,
        Self::Skew,
        Self::ReadMostly,
        Self::Pipe,
    ];

    /// Name: `k4-gups`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Init1Readall => "k1-init1-readall",
            Self::Init1Slices => "k2-init1-slices",
            Self::Probe => "k3-probe",
            Self::Gups => "k4-gups",
            Self::Swapped => "k5-swapped",
            Self::Rotate => "k6-rotate",
            Self::Burst => "k7-burst",
            Self::GoodLocal => "k8-good-local",
            Self::ThpFalseSharing => "k9-thp-false-sharing",
            Self::Skew => "k10-skew",
            Self::ReadMostly => "k11-read-mostly",
            Self::Pipe => "k12-pipe",
        }
    }

    /// Its pathology in one line.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Init1Readall => "the main thread fills, all threads read everything in order",
            Self::Init1Slices => "the main thread fills, each thread works on its slice",
            Self::Probe => "a shared table on one node, dependent probes",
            Self::Gups => "random atomic adds to a table on one node",
            Self::Swapped => "private arrays whose threads have moved to the next node",
            Self::Rotate => "private arrays whose threads move to the next node repeatedly",
            Self::Burst => "new memory, touched by the main thread, written by all, freed",
            Self::GoodLocal => "well placed streams, and the same in the cache",
            Self::ThpFalseSharing => "huge pages in which each thread has its own base pages",
            Self::Skew => "a neighbour takes three quarters of one controller",
            Self::ReadMostly => "k1 with one write per N reads",
            Self::Pipe => "a producer on one node, a consumer on another",
        }
    }

    /// The placements that it supports in addition to `best`, the pathology first.
    #[must_use]
    pub const fn places(self) -> &'static [Place] {
        use Place::{
            Bounce, Collocate, Consumer, FirstTouch, Follow, Interleave, Late, Local, Replicate,
            Split, Together, WeightedInterleave,
        };
        match self {
            Self::Init1Readall => &[FirstTouch, Interleave, Local, Collocate, Replicate],
            Self::Init1Slices | Self::Swapped | Self::GoodLocal => {
                &[FirstTouch, Interleave, Local, Collocate]
            }
            Self::Probe | Self::ReadMostly => &[FirstTouch, Interleave, Local, Replicate],
            Self::Gups => &[FirstTouch, Interleave, Local, Collocate],
            Self::Rotate => &[FirstTouch, Interleave, Local, Follow],
            Self::Burst => &[FirstTouch, Interleave, Local, Late],
            Self::ThpFalseSharing => &[FirstTouch, Interleave, Local, Collocate, Split],
            Self::Skew => &[FirstTouch, Interleave, Local, WeightedInterleave],
            Self::Pipe => &[FirstTouch, Interleave, Local, Consumer, Together, Bounce],
        }
    }

    /// The placements as a list for a message.
    #[must_use]
    pub fn places_text(self) -> String {
        let names: Vec<&str> = self.places().iter().map(|place| place.name()).collect();
        format!("{} and best", names.join(", "))
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kernel {
    type Err = String;

    /// `k4-gups`, or `k4`.
    fn from_str(text: &str) -> Result<Self, String> {
        let is = |kernel: &Self| {
            let name = kernel.name();
            name == text || name.split('-').next() == Some(text)
        };
        let found = Self::ALL.into_iter().find(is);
        found.ok_or_else(|| format!("'{text}' is not a kernel; choose one of k1 to k12"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_have_two_names() {
        for (i, kernel) in Kernel::ALL.into_iter().enumerate() {
            assert_eq!(format!("k{}", i + 1).parse(), Ok(kernel));
            assert_eq!(kernel.name().parse(), Ok(kernel));
            assert_eq!(kernel.places()[0], Place::FirstTouch);
        }
        for bad in ["k0", "k13", "gups", "k1-", ""] {
            assert!(bad.parse::<Kernel>().is_err(), "{bad}");
        }
    }
}

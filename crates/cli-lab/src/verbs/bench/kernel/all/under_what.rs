//! What a kernel runs under.

use clap::ValueEnum;
use numapilot_workloads::kernels::{Kernel, Place};

/// What a kernel runs under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Under {
    /// Nothing.
    None,
    /// The kernel's AutoNUMA.
    Autonuma,
    /// A policy of interleaving from the beginning.
    Interleave,
    /// `numapilot balance --mode paper`.
    Paper,
    /// `numapilot balance`.
    Default,
    /// The best mitigation that pages can be placed for, from the beginning.
    Oracle,
}

impl Under {
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Autonuma => "autonuma",
            Self::Interleave => "interleave",
            Self::Paper => "paper",
            Self::Default => "default",
            Self::Oracle => "oracle",
        }
    }

    /// The verb that runs the kernel, if it is not run by itself.
    pub const fn verb(self) -> Option<&'static [&'static str]> {
        match self {
            Self::None | Self::Interleave | Self::Oracle => None,
            Self::Autonuma => Some(&["run", "--numa-balancing", "on"]),
            Self::Paper => Some(&["balance", "--mode", "paper"]),
            Self::Default => Some(&["balance"]),
        }
    }

    /// Whether balance runs it.
    pub const fn is_balance(self) -> bool {
        matches!(self, Self::Paper | Self::Default)
    }

    /// Where its memory goes.
    pub fn place(self, kernel: Kernel) -> Place {
        match self {
            Self::Interleave => Place::Interleave,
            Self::Oracle => oracle(kernel),
            Self::None | Self::Autonuma | Self::Paper | Self::Default => Place::FirstTouch,
        }
    }
}

/// The best that pages can do: a page has one home, so no copies.
fn oracle(kernel: Kernel) -> Place {
    match kernel {
        Kernel::Init1Readall | Kernel::Probe | Kernel::ReadMostly => Place::Interleave,
        _ => Place::Best,
    }
}

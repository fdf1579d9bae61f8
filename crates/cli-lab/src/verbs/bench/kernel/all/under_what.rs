//! The tools and policies that `--under` names.

use clap::ValueEnum;
use numapilot_workloads::kernels::{Kernel, Place};

/// A tool or policy that a kernel runs under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Under {
    /// No tool.
    None,
    /// The Linux kernel's AutoNUMA.
    Autonuma,
    /// The interleave policy, from the start.
    Interleave,
    /// `numapilot balance --mode paper`.
    Paper,
    /// `numapilot balance`.
    Default,
    /// The kernel's best mitigation by page placement, from the start.
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

    /// The verb that runs the kernel, unless it runs by itself.
    pub const fn verb(self) -> Option<&'static [&'static str]> {
        match self {
            Self::None | Self::Interleave | Self::Oracle => None,
            Self::Autonuma => Some(&["run", "--numa-balancing", "on"]),
            Self::Paper => Some(&["balance", "--mode", "paper"]),
            Self::Default => Some(&["balance"]),
        }
    }

    /// Whether balance runs the kernel.
    pub const fn is_balance(self) -> bool {
        matches!(self, Self::Paper | Self::Default)
    }

    /// Where the kernel's memory is placed.
    pub fn place(self, kernel: Kernel) -> Place {
        match self {
            Self::Interleave => Place::Interleave,
            Self::Oracle => oracle(kernel),
            Self::None | Self::Autonuma | Self::Paper | Self::Default => Place::FirstTouch,
        }
    }
}

/// The best page placement. A page has one home, so replication is excluded.
fn oracle(kernel: Kernel) -> Place {
    match kernel {
        Kernel::Init1Readall | Kernel::Probe | Kernel::ReadMostly => Place::Interleave,
        _ => Place::Best,
    }
}

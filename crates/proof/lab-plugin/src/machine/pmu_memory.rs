//! The memory of the PMU.

use std::sync::atomic::AtomicU64;

use numapilot_sys::shared::SharedWords;

/// The PMU's memory.
#[derive(Debug)]
pub enum Memory {
    /// Shared with the guest.
    Shared(SharedWords),
    /// Private, if the guest has no PMU.
    Own(Vec<AtomicU64>),
}

impl AsRef<[AtomicU64]> for Memory {
    fn as_ref(&self) -> &[AtomicU64] {
        match self {
            Self::Shared(words) => words.as_ref(),
            Self::Own(words) => words,
        }
    }
}

//! Which allocations the heap profile samples.
//!
//! Every allocated byte is sampled with the same small probability, so the distance between two
//! samples is exponential in bytes (as in tcmalloc and jemalloc). Each thread counts down to its
//! next sample. `crate::telemetry::profile` processes the samples.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::config;
use crate::os::random;

/// Samples are taken.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// Whether a profile was requested. All calls then take the slow paths.
#[inline]
pub fn is_wanted() -> bool {
    config::PROFILE && config::get().profile.is_some()
}

/// Whether samples are taken.
#[inline]
pub fn is_running() -> bool {
    RUNNING.load(Ordering::Acquire)
}

/// Starts taking samples.
pub fn start() {
    RUNNING.store(true, Ordering::Release);
}

/// The sampling state of a thread. All zeroes: the next sample is not drawn yet.
#[repr(C)]
#[derive(Default)]
pub struct Countdown {
    /// Bytes until the next sample; 0: not drawn yet.
    bytes: Cell<u64>,
    /// A sample is being taken; allocations made for it are not sampled.
    busy: Cell<bool>,
}

impl Countdown {
    /// Counts an allocation; returns whether to sample it. If so, no other is sampled until
    /// [`Self::sampled`] is called.
    #[inline]
    pub fn is_due(&self, bytes: usize) -> bool {
        is_wanted() && self.pass(bytes as u64)
    }

    /// Draws the next sample again.
    pub fn restart(&self) {
        self.bytes.set(0);
        self.busy.set(false);
    }

    /// Notes that the sample has been taken.
    pub fn sampled(&self) {
        self.busy.set(false);
    }

    fn pass(&self, bytes: u64) -> bool {
        if self.busy.get() || !is_running() {
            return false;
        }
        let left = match self.bytes.get() {
            0 => random::exponential(config::get().profile_period, random::word),
            left => left,
        };
        self.busy.set(bytes >= left);
        // The distribution is memoryless, so the remainder does not matter.
        self.bytes.set(left.saturating_sub(bytes));
        self.busy.get()
    }
}

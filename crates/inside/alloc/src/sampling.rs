//! Which allocations the heap profile samples.
//!
//! Every allocated byte is sampled with the same small probability, so that the waiting time
//! between two samples is exponential in bytes (as in tcmalloc and jemalloc). Each thread counts
//! down to its next sample. What is done with a sample is up to `crate::telemetry::profile`.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::config;
use crate::os::random;

/// Samples are taken.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// Whether a profile was asked for: then all calls take the slow paths.
#[inline]
pub fn is_wanted() -> bool {
    config::get().profile.is_some()
}

/// Whether samples are taken.
#[inline]
pub fn is_running() -> bool {
    RUNNING.load(Ordering::Acquire)
}

/// Samples are taken from here on.
pub fn start() {
    RUNNING.store(true, Ordering::Release);
}

/// What a thread knows of sampling. All zeroes: the next sample is yet to be drawn.
#[repr(C)]
#[derive(Default)]
pub struct Countdown {
    /// Bytes until the next sample; 0: to be drawn.
    bytes: Cell<u64>,
    /// A sample is being taken: what that allocates is not sampled.
    busy: Cell<bool>,
}

impl Countdown {
    /// Counts an allocation; whether it is to be sampled. Then nothing is sampled until
    /// [`Self::sampled`] is called.
    #[inline]
    pub fn is_due(&self, bytes: usize) -> bool {
        is_wanted() && self.pass(bytes as u64)
    }

    /// Draws the next sample anew.
    pub fn restart(&self) {
        self.bytes.set(0);
        self.busy.set(false);
    }

    /// The sample has been taken.
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
        // The distribution has no memory: whatever was left over does not matter.
        self.bytes.set(left.saturating_sub(bytes));
        self.busy.get()
    }
}

//! The boot watchdog detects a guest that makes no progress.
//!
//! A booting guest always has a thread that runs or waits for one of the host's processors, however
//! busy the host is: the sum is a second or more per second. A hanging guest, in which the emulator
//! has lost the end of an interrupt and so blocks all later ones, only handles timer ticks: a tenth
//! of a second per second, or a third on a busy host.

use std::time::{Duration, Instant};

/// A guest that stays idle for this long counts as hung.
const PATIENCE: Duration = Duration::from_secs(10);
/// A guest is idle if it is busy for less than one part in `PARTS` of the time.
const PARTS: u32 = 2;
/// The interval between checks.
pub const GLANCE: Duration = Duration::from_secs(1);

/// The last progress of a guest.
#[derive(Clone, Copy, Debug)]
pub struct BootWatchdog {
    /// When the guest last made progress.
    since: Instant,
    /// How long its threads had run or waited to run until then.
    busy: Duration,
}

impl BootWatchdog {
    /// A watchdog for a guest that starts now.
    pub fn new(now: Instant) -> Self {
        Self { since: now, busy: Duration::ZERO }
    }

    /// Whether the guest hangs, given how long its threads have run or waited to run until now.
    pub fn is_lost(&mut self, now: Instant, busy: Duration) -> bool {
        let passed = now.saturating_duration_since(self.since);
        // The time of a thread that ends is no longer counted, so the sum can decrease.
        if busy.abs_diff(self.busy) * PARTS >= passed {
            *self = Self { since: now, busy };
        }
        now.saturating_duration_since(self.since) >= PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second in which a guest counts as hung, given its busy milliseconds in each second.
    fn lost_in(busy: impl Fn(u64) -> u64) -> Option<u64> {
        let begun = Instant::now();
        let mut watchdog = BootWatchdog::new(begun);
        let mut total = 0;
        (1..=120).find(|&second| {
            total += busy(second);
            watchdog.is_lost(begun + Duration::from_secs(second), Duration::from_millis(total))
        })
    }

    #[test]
    fn a_guest_that_runs_or_waits_to_run_is_left_alone() {
        assert_eq!(lost_in(|_| 1000), None);
        // Sixteen emulated CPUs on a host with two processors and other work.
        assert_eq!(lost_in(|_| 16_000), None);
        assert_eq!(lost_in(|_| 500), None);
        // A disk that blocks for nine seconds.
        assert_eq!(lost_in(|second| if second % 10 == 0 { 5000 } else { 0 }), None);
    }

    #[test]
    fn one_that_only_ticks_is_lost_soon() {
        assert_eq!(lost_in(|_| 0), Some(10));
        assert_eq!(lost_in(|_| 360), Some(10));
        assert_eq!(lost_in(|second| if second < 7 { 2000 } else { 100 }), Some(16));
    }

    #[test]
    fn the_end_of_a_thread_is_a_sign_of_life() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut watchdog = BootWatchdog::new(begun);
        assert!(!watchdog.is_lost(at(1), Duration::from_secs(30)));
        assert!(!watchdog.is_lost(at(9), Duration::from_secs(20)));
        assert!(!watchdog.is_lost(at(18), Duration::from_secs(20)));
        assert!(watchdog.is_lost(at(19), Duration::from_secs(20)));
    }
}

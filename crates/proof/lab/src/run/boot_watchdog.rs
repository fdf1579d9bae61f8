//! The watchdog of a boot: whether a guest gets anywhere.
//!
//! One that boots has always a thread that runs or waits for a processor of the host, however
//! busy that is: a second and more of both in each second. One that hangs, because the
//! emulator lost the end of an interrupt and holds back all later ones, only ticks: a tenth of
//! a second in each, a third on a busy host.

use std::time::{Duration, Instant};

/// So long a guest does next to nothing before it is taken for hung.
const PATIENCE: Duration = Duration::from_secs(10);
/// Next to nothing: less than one part in so many of the time.
const PARTS: u32 = 2;
/// How often to look.
pub const GLANCE: Duration = Duration::from_secs(1);

/// What a guest did last.
#[derive(Clone, Copy, Debug)]
pub struct BootWatchdog {
    /// When it was last seen to get on,
    since: Instant,
    /// and how long its threads had run or waited to run until then.
    busy: Duration,
}

impl BootWatchdog {
    /// Of a guest that starts now.
    pub fn new(now: Instant) -> Self {
        Self { since: now, busy: Duration::ZERO }
    }

    /// Whether a guest hangs whose threads have run or waited to run for so long by now.
    pub fn is_lost(&mut self, now: Instant, busy: Duration) -> bool {
        let passed = now.saturating_duration_since(self.since);
        // A thread that ends takes its time along: then it is less than before.
        if busy.abs_diff(self.busy) * PARTS >= passed {
            *self = Self { since: now, busy };
        }
        now.saturating_duration_since(self.since) >= PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Second in which a guest is taken for hung that is busy so long in each, in milliseconds.
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
        // Sixteen processors on a host with two and other work.
        assert_eq!(lost_in(|_| 16_000), None);
        assert_eq!(lost_in(|_| 500), None);
        // A disk that takes nine seconds.
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

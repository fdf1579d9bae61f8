//! Limits how often the kernel's files are read, so that costly reads get a bounded share of the
//! time.

use std::time::{Duration, Instant};

/// A read on which a decision depends takes at most one part in this many of one CPU's time.
pub const OFTEN: u32 = 1000;
/// The same for a search for processes that have ended or are new.
pub const SELDOM: u32 = 2000;
/// The same for data that hardly changes.
pub const RARELY: u32 = 4000;

/// Allows a costly read a bounded share of the time.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    next: Instant,
    rest: u32,
}

impl Pace {
    /// Due at once, then for one part in `rest` of one CPU's time.
    #[must_use]
    pub fn of(rest: u32) -> Self {
        Self { next: Instant::now(), rest }
    }

    /// Calls `look` if it is due, and then pauses in proportion to the CPU time that it took.
    /// Elapsed time would be wrong: on a busy machine a read lasts longer, and its result is needed
    /// most.
    pub fn when_due<T>(&mut self, look: impl FnOnce() -> T) -> Option<T> {
        let begin = Instant::now();
        if begin < self.next {
            return None;
        }
        let before = own_cpu_time();
        let result = look();
        self.next = begin + own_cpu_time().saturating_sub(before) * self.rest;
        Some(result)
    }
}

/// CPU time of this thread so far.
fn own_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_costly_look_is_rare() {
        let mut pace = Pace::of(OFTEN);
        let work = || {
            let begin = own_cpu_time();
            while own_cpu_time() < begin + Duration::from_millis(5) {}
        };
        assert!(pace.when_due(work).is_some());
        assert!(pace.when_due(|| ()).is_none());
        // Waiting for a CPU takes no CPU time.
        let mut pace = Pace::of(OFTEN);
        assert!(pace.when_due(|| std::thread::sleep(Duration::from_millis(5))).is_some());
        let rest = pace.next.saturating_duration_since(Instant::now());
        assert!(rest < Duration::from_millis(5) * OFTEN / 2, "{rest:?}");
    }
}

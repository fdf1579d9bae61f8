//! The CPUs' simulated clocks, as far as they know of each other.
//!
//! A CPU that is ahead of the slowest busy one by more than a quantum should wait; how,
//! and for how long at most, is the caller's to decide, since an emulator must not be held
//! up. Idle CPUs hold nobody back, and go forward to the others when they wake.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// How far a CPU may be ahead.
pub const QUANTUM_PS: u64 = 20_000_000;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Clock {
    now_ps: AtomicU64,
    /// Runs user code, as far as is known.
    busy: AtomicBool,
    /// Others have stopped waiting for it.
    given_up: AtomicBool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Clocks {
    clocks: Vec<Clock>,
}

impl Clocks {
    pub(crate) fn new(cpus: usize) -> Self {
        Self { clocks: (0..cpus).map(|_| Clock::default()).collect() }
    }

    /// A busy CPU's clock has moved.
    pub(crate) fn publish(&self, cpu: usize, now_ps: u64) {
        let clock = &self.clocks[cpu];
        clock.now_ps.store(now_ps, Relaxed);
        clock.given_up.store(false, Relaxed);
    }

    /// A CPU begins to run user code. Where its clock must go.
    pub(crate) fn wake(&self, cpu: usize, now_ps: u64) -> u64 {
        let clock = &self.clocks[cpu];
        if clock.busy.load(Relaxed) {
            return now_ps;
        }
        let others = self.slowest(cpu).map(|(_, ps)| ps);
        let to = others.unwrap_or_else(|| self.latest_ps()).max(now_ps);
        self.publish(cpu, to);
        clock.busy.store(true, Relaxed);
        to
    }

    /// A CPU has nothing to run.
    pub(crate) fn sleep(&self, cpu: usize) {
        self.clocks[cpu].busy.store(false, Relaxed);
    }

    /// The slowest busy CPU but this one, and its clock.
    pub(crate) fn slowest(&self, but: usize) -> Option<(usize, u64)> {
        self.clocks
            .iter()
            .enumerate()
            .filter(|(cpu, c)| *cpu != but && c.busy.load(Relaxed) && !c.given_up.load(Relaxed))
            .map(|(cpu, c)| (cpu, c.now_ps.load(Relaxed)))
            .min_by_key(|(_, ps)| *ps)
    }

    /// Stops everybody's waiting for a CPU until its clock moves.
    pub(crate) fn give_up(&self, cpu: usize) {
        self.clocks[cpu].given_up.store(true, Relaxed);
    }

    /// The clock that is furthest.
    pub(crate) fn latest_ps(&self) -> u64 {
        self.clocks.iter().map(|c| c.now_ps.load(Relaxed)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_cpu_holds_nobody_back_and_wakes_at_the_slowest_busy_one() {
        let clocks = Clocks::new(3);
        assert_eq!(clocks.wake(0, 0), 0);
        clocks.publish(0, 500);
        assert_eq!(clocks.wake(1, 0), 500);
        clocks.publish(1, 900);
        assert_eq!(clocks.slowest(1), Some((0, 500)));
        clocks.sleep(0);
        assert_eq!(clocks.slowest(1), None);
        clocks.sleep(1);
        assert_eq!(clocks.wake(2, 0), 900);
        assert_eq!(clocks.wake(2, 950), 950);
    }

    #[test]
    fn nobody_waits_for_one_that_was_given_up_until_it_moves() {
        let clocks = Clocks::new(2);
        clocks.wake(0, 0);
        clocks.wake(1, 0);
        clocks.give_up(0);
        assert_eq!(clocks.slowest(1), None);
        clocks.publish(0, 10);
        assert_eq!(clocks.slowest(1), Some((0, 10)));
    }
}

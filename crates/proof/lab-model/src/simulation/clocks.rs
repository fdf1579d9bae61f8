//! The CPUs' simulated clocks, as far as they know of each other.
//!
//! A CPU that is ahead of the slowest one in user mode by more than a quantum should wait;
//! how, and for how long at most, is the caller's to decide, since an emulator must not be
//! held up. Idle CPUs hold nobody back, and go forward to the others when they wake. Nor do
//! CPUs in the kernel, where simulated time stands still: they may be there to wait for an
//! answer of those that would wait for them.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// How far a CPU may be ahead.
pub const QUANTUM_PS: u64 = 20_000_000;

/// What a CPU does, as far as is known.
const IDLE: u8 = 0;
const KERNEL: u8 = 1;
const USER: u8 = 2;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Clock {
    now_ps: AtomicU64,
    state: AtomicU8,
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

    /// A CPU's clock has moved.
    pub(crate) fn publish(&self, cpu: usize, now_ps: u64) {
        self.clocks[cpu].now_ps.store(now_ps, Relaxed);
    }

    /// A CPU begins to run user code. Where its clock must go.
    pub(crate) fn wake(&self, cpu: usize, now_ps: u64) -> u64 {
        let clock = &self.clocks[cpu];
        let to = match clock.state.load(Relaxed) {
            IDLE => self.slowest_ps(KERNEL).unwrap_or_else(|| self.latest_ps()).max(now_ps),
            _ => now_ps,
        };
        self.publish(cpu, to);
        clock.state.store(USER, Relaxed);
        to
    }

    /// A CPU that ran user code is in the kernel.
    pub(crate) fn enter_kernel(&self, cpu: usize) {
        let state = &self.clocks[cpu].state;
        if state.load(Relaxed) == USER {
            state.store(KERNEL, Relaxed);
        }
    }

    /// A CPU has nothing to run.
    pub(crate) fn sleep(&self, cpu: usize) {
        self.clocks[cpu].state.store(IDLE, Relaxed);
    }

    /// The clock of the slowest CPU in user mode.
    pub(crate) fn floor_ps(&self) -> Option<u64> {
        self.slowest_ps(USER)
    }

    /// The slowest clock of those in this state or a busier one.
    fn slowest_ps(&self, least: u8) -> Option<u64> {
        let busy = self.clocks.iter().filter(|c| c.state.load(Relaxed) >= least);
        busy.map(|c| c.now_ps.load(Relaxed)).min()
    }

    /// The clock that is furthest.
    fn latest_ps(&self) -> u64 {
        self.clocks.iter().map(|c| c.now_ps.load(Relaxed)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_cpu_holds_nobody_back_and_wakes_at_the_slowest_busy_one() {
        let clocks = Clocks::new(3);
        assert_eq!(clocks.floor_ps(), None);
        assert_eq!(clocks.wake(0, 0), 0);
        clocks.publish(0, 500);
        assert_eq!(clocks.wake(1, 0), 500);
        clocks.publish(1, 900);
        assert_eq!(clocks.floor_ps(), Some(500));
        clocks.sleep(0);
        assert_eq!(clocks.floor_ps(), Some(900));
        clocks.sleep(1);
        assert_eq!(clocks.wake(2, 0), 900);
        assert_eq!(clocks.wake(2, 950), 950);
    }

    #[test]
    fn a_cpu_in_the_kernel_holds_nobody_back_and_returns_where_it_was() {
        let clocks = Clocks::new(2);
        clocks.wake(0, 100);
        clocks.wake(1, 700);
        clocks.enter_kernel(0);
        assert_eq!(clocks.floor_ps(), Some(700));
        assert_eq!(clocks.wake(0, 100), 100);
        assert_eq!(clocks.floor_ps(), Some(100));
        clocks.sleep(0);
        clocks.enter_kernel(0);
        assert_eq!(clocks.wake(0, 100), 700, "an idle CPU's kernel is no reason to be busy");
    }
}

//! The simulated clocks of the CPUs, as known to each other.
//!
//! A CPU whose clock is ahead of the slowest busy one by more than a quantum should wait. The
//! caller decides how, and for how long at most, because an emulator must not be blocked. Idle CPUs
//! hold no other CPU back, and catch up with the others when they wake. A CPU that another one
//! wakes starts at the waker's clock, and the others wait for it from then on, because the host may
//! take time to run it. In the kernel, simulated time stands still, so a CPU there holds others
//! back only until one of them gives it up.
//! only until one of them gives it up.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// The maximum lead of a CPU.
pub const QUANTUM_PS: u64 = 5_000_000;

/// The known states of a CPU.
const IDLE: u8 = 0;
/// In the kernel for so long that no other CPU waits for it any more.
const GIVEN_UP: u8 = 1;
const KERNEL: u8 = 2;
const USER: u8 = 3;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Clock {
    now_ps: AtomicU64,
    state: AtomicU8,
}

/// The clocks; see the module documentation.
#[derive(Debug)]
pub(crate) struct Clocks {
    clocks: Vec<Clock>,
}

impl Clocks {
    pub(crate) fn new(cpus: usize) -> Self {
        Self { clocks: (0..cpus).map(|_| Clock::default()).collect() }
    }

    /// Publishes a CPU's clock.
    pub(crate) fn publish(&self, cpu: usize, now_ps: u64) {
        self.clocks[cpu].now_ps.store(now_ps, Relaxed);
    }

    /// A CPU starts to run user code. Returns its new clock.
    pub(crate) fn enter_user(&self, cpu: usize, now_ps: u64) -> u64 {
        self.enter(cpu, now_ps, USER)
    }

    /// A CPU starts to run the kernel, on behalf of user code or after idling. Returns its new
    /// clock.
    pub(crate) fn enter_kernel(&self, cpu: usize, now_ps: u64) -> u64 {
        self.enter(cpu, now_ps, KERNEL)
    }

    fn enter(&self, cpu: usize, now_ps: u64, state: u8) -> u64 {
        let clock = &self.clocks[cpu];
        let to = match clock.state.load(Relaxed) {
            IDLE => self.floor_ps().unwrap_or_else(|| self.latest_ps()).max(now_ps),
            // The clock is later than its own if it was woken.
            _ => clock.now_ps.load(Relaxed).max(now_ps),
        };
        self.publish(cpu, to);
        clock.state.store(state, Relaxed);
        to
    }

    /// A CPU is woken by another one. If it was idle, it is in the kernel from the waker's clock
    /// on.
    pub(crate) fn wake(&self, cpu: usize, by: usize) {
        let clock = &self.clocks[cpu];
        if clock.state.load(Relaxed) == IDLE {
            let by_ps = self.clocks[by].now_ps.load(Relaxed);
            clock.now_ps.fetch_max(by_ps, Relaxed);
            let _ = clock.state.compare_exchange(IDLE, KERNEL, Relaxed, Relaxed);
        }
    }

    /// No CPU waits any longer for CPUs in the kernel whose clocks have not reached this time,
    /// until they continue.
    pub(crate) fn give_up(&self, until_ps: u64) {
        for clock in self.clocks.iter().filter(|c| c.now_ps.load(Relaxed) < until_ps) {
            let _ = clock.state.compare_exchange(KERNEL, GIVEN_UP, Relaxed, Relaxed);
        }
    }

    /// A CPU has nothing to run.
    pub(crate) fn sleep(&self, cpu: usize) {
        self.clocks[cpu].state.store(IDLE, Relaxed);
    }

    /// The clock of the slowest CPU that others wait for.
    pub(crate) fn floor_ps(&self) -> Option<u64> {
        let busy = self.clocks.iter().filter(|c| c.state.load(Relaxed) >= KERNEL);
        busy.map(|c| c.now_ps.load(Relaxed)).min()
    }

    /// The latest clock.
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
        assert_eq!(clocks.enter_user(0, 0), 0);
        clocks.publish(0, 500);
        assert_eq!(clocks.enter_kernel(1, 0), 500);
        clocks.publish(1, 900);
        assert_eq!(clocks.floor_ps(), Some(500));
        clocks.sleep(0);
        assert_eq!(clocks.floor_ps(), Some(900));
        clocks.sleep(1);
        assert_eq!(clocks.enter_user(2, 0), 900);
        assert_eq!(clocks.enter_user(2, 950), 950);
    }

    #[test]
    fn who_is_woken_begins_where_the_one_is_that_wakes_it_however_late_it_comes() {
        let clocks = Clocks::new(3);
        clocks.enter_user(0, 300);
        clocks.enter_user(1, 500);
        clocks.wake(2, 1);
        clocks.publish(0, 900);
        assert_eq!(clocks.floor_ps(), Some(500), "the others wait for it");
        clocks.publish(1, 2000);
        assert_eq!(clocks.enter_kernel(2, 0), 500);
        clocks.wake(2, 1);
        assert_eq!(clocks.enter_user(2, 600), 600, "it was awake");
        clocks.sleep(2);
        clocks.wake(2, 0);
        assert_eq!(clocks.enter_user(2, 2500), 2500, "it was asleep but ahead");
    }

    #[test]
    fn a_cpu_in_the_kernel_can_be_given_up_and_returns_where_it_was() {
        let clocks = Clocks::new(2);
        clocks.enter_user(0, 100);
        clocks.enter_user(1, 700);
        clocks.give_up(600);
        assert_eq!(clocks.floor_ps(), Some(100), "it is in user mode");
        assert_eq!(clocks.enter_kernel(0, 100), 100);
        clocks.give_up(100);
        assert_eq!(clocks.floor_ps(), Some(100), "it has come up");
        clocks.give_up(600);
        assert_eq!(clocks.floor_ps(), Some(700));
        assert_eq!(clocks.enter_user(0, 100), 100);
        assert_eq!(clocks.floor_ps(), Some(100));
    }
}

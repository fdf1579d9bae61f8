//! The simulated time: what each thread sees of it, and how it advances.

use std::ffi::c_uint;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use super::{Machine, charge};
use crate::internals::{CpuState, current_cpu};
use crate::schedule::{Schedule, Turn};

/// Duration of reading the time stamp counter while the machine boots, for the same reason.
const BOOT_READ_PS: u64 = 1_000_000;
/// How far the clock lags for QEMU's main loop. The main loop would otherwise run the guest's
/// timers itself, at a moment that depends on the host; the CPU thread must run them.
const MAIN_LOOP_BEHIND_PS: u64 = 10_000_000_000;

/// The longest sleep of an idle, paced machine on the host's clock, so that it notices input soon.
const GLANCE: Duration = Duration::from_millis(2);
/// The result of an attempt to advance the time of an idle machine to its next timer.
enum Jump {
    /// The machine is not idle any more: a CPU has work, or there is no timer.
    Ends,
    /// A timer ran; it may not have woken a CPU.
    Continues,
    /// The machine is paced, and the next timer expires after this time on the host's clock.
    Waits(Duration),
}

/// Converts picoseconds to QEMU's signed nanoseconds.
pub fn nanoseconds(ps: u64) -> i64 {
    i64::try_from(ps / 1000).unwrap_or(i64::MAX)
}

impl Machine {
    /// The simulated time in picoseconds. On the CPU thread, it is the clock of the current CPU, or
    /// the time that all CPUs have reached if that CPU is halted or timers are running. On other
    /// threads, it is the latter, less [`MAIN_LOOP_BEHIND_PS`].
    pub fn now_ps(&self) -> u64 {
        let reached = self.time_ps.load(Relaxed);
        let state = current_cpu();
        if state.is_null() {
            return reached.saturating_sub(MAIN_LOOP_BEHIND_PS);
        }
        if self.runs_timers.load(Relaxed) {
            return reached;
        }
        let Some(cpu) = self.executing().and_then(|cpu| self.cpus.get(cpu)) else {
            return reached;
        };
        // SAFETY: only the CPU thread has a current CPU. A callback that borrows the core asks for
        // the time only in the timers that it runs, for which the function has returned above.
        let core = unsafe { &*cpu.core.get() };
        // SAFETY: as above, for the schedule.
        let is_halted = unsafe { (*self.schedule.0.get()).is_halted(core.cpu()) };
        match cpu.scoreboard.get() {
            Some(scoreboard) if !is_halted => core.clock_ps(scoreboard.instructions()).max(reached),
            _ => reached,
        }
    }

    /// The number of the CPU that the calling thread is executing.
    fn executing(&self) -> Option<usize> {
        let state = current_cpu();
        self.cpus.iter().position(|cpu| !state.is_null() && cpu.state.load(Relaxed) == state)
    }

    /// The current CPU reads its time stamp counter. While the machine boots, this takes time, so
    /// that the kernel's delay loops, which poll the counter, end after few iterations.
    pub fn read_counter(&self) {
        if self.has_begun.load(Relaxed) || self.runs_timers.load(Relaxed) {
            return;
        }
        let Some(cpu) = self.executing() else { return };
        // SAFETY: a CPU reads its counter on the CPU thread, outside of callbacks.
        if let Some((core, scoreboard)) = unsafe { self.cpu(cpu as c_uint) } {
            let before = core.stall_ps();
            core.stall(BOOT_READ_PS);
            charge(core, before, scoreboard);
        }
    }

    /// The time on the guest's clocks in picoseconds: the simulated time, multiplied by the scale.
    pub fn guest_ps(&self) -> u64 {
        self.now_ps().saturating_mul(self.pace.scale)
    }

    /// The frequency of the time stamp counter.
    pub fn tsc_khz(&self) -> u64 {
        self.tsc_khz
    }

    /// Advances the time that all CPUs have reached to `ps`, and runs the timers that have expired.
    fn reach(&self, ps: u64) {
        self.time_ps.store(ps, Relaxed);
        self.runs_timers.store(true, Relaxed);
        self.internals.locked(|| {
            // SAFETY: the lock is held.
            unsafe {
                if self.internals.deadline_ns() == Some(0) {
                    self.internals.run_timers();
                }
            }
        });
        self.runs_timers.store(false, Relaxed);
        self.simulation.pmu().advance_time(ps / 1000);
    }

    /// A CPU has used up its budget, or runs for the first time since it halted. The schedule
    /// grants it a new budget or lets the next CPU run.
    pub fn budget(&self, cpu: c_uint) {
        // SAFETY: called from the CPU's execution callback.
        let Some((core, Some(scoreboard))) = (unsafe { self.cpu_now(cpu) }) else { return };
        // SAFETY: this is the CPU thread; the timers that `reach` runs do not borrow the schedule.
        let schedule = unsafe { self.schedule() };
        core.skip_to(schedule.now_ps());
        let has_others = !schedule.is_alone(core.cpu()) || self.is_another_due(core.cpu());
        let turn = schedule.account(core.cpu(), core.now_ps(), has_others, |ps| self.reach(ps));
        core.skip_to(schedule.now_ps());
        self.simulation.publish(core);
        match turn {
            Turn::Until(ps) => {
                let left = core.instructions_in(ps.saturating_sub(core.now_ps())) + 1;
                scoreboard.grant(left);
            }
            Turn::Leave => {
                scoreboard.grant(0);
                // SAFETY: the current CPU exists.
                unsafe { self.internals.exit(current_cpu()) };
            }
        }
    }

    /// Whether another CPU has work, when the schedule has them all as halted.
    fn is_another_due(&self, cpu: usize) -> bool {
        self.internals.locked(|| {
            let mut others = (0..self.cpus.len()).filter(|other| *other != cpu);
            // SAFETY: the CPUs exist, and the lock is held.
            others.any(|other| unsafe { !self.internals.is_idle(self.state_of(other)) })
        })
    }

    /// QEMU's state of a CPU. QEMU itself finds it by a walk over all CPUs.
    fn state_of(&self, cpu: usize) -> CpuState {
        let state = self.cpus[cpu].state.load(Relaxed);
        if state.is_null() { self.internals.cpu(cpu) } else { state }
    }

    /// A CPU executes `hlt`, at this address. If all CPUs are halted now, time advances to the next
    /// timer.
    pub fn halt(&self, cpu: c_uint, address: u64) {
        // SAFETY: called from the CPU's execution callback.
        let Some((core, Some(scoreboard))) = (unsafe { self.cpu_now(cpu) }) else { return };
        self.simulation.publish(core);
        scoreboard.grant(0);
        // SAFETY: as in `budget`.
        let schedule = unsafe { self.schedule() };
        if schedule.halt(core.cpu(), core.now_ps()) {
            // An interrupt is accepted from the second instruction after `sti` on. A kernel halts
            // with the first, so QEMU does not count an interrupt as work yet.
            let accepts = scoreboard.interrupts_from.load(Relaxed) == address;
            self.jump(schedule, accepts);
        }
    }

    /// Advances time from timer to timer until a CPU has work. Some timers wake no CPU, for example
    /// those of QEMU itself. `accepts` says whether the current CPU accepts interrupts while it is
    /// halted, in addition to those that it accepts now.
    fn jump(&self, schedule: &mut Schedule, accepts: bool) {
        loop {
            // Between timers, the lock is released for QEMU's main loop.
            match self.internals.locked(|| self.jump_once(schedule, accepts)) {
                Jump::Ends => return,
                Jump::Continues => {}
                Jump::Waits(time) => thread::sleep(time.min(GLANCE)),
            }
        }
    }

    /// Advances time to the next timer and runs it, unless a CPU has work. QEMU's lock must be
    /// held.
    fn jump_once(&self, schedule: &mut Schedule, accepts: bool) -> Jump {
        let current = current_cpu();
        let requests = self.requests.get().copied().filter(|_| accepts);
        let is_idle = |cpu: usize| {
            let state = self.state_of(cpu);
            // SAFETY: the CPUs exist, and the lock is held. The current CPU is not halted yet, but
            // is about to.
            unsafe {
                if state == current {
                    let interrupted = |at| self.internals.is_interrupted(state, at);
                    !self.internals.has_work(state) && !requests.is_some_and(interrupted)
                } else {
                    self.internals.is_idle(state)
                }
            }
        };
        if !(0..self.cpus.len()).all(is_idle) {
            return Jump::Ends;
        }
        self.runs_timers.store(true, Relaxed);
        self.time_ps.store(schedule.now_ps(), Relaxed);
        // SAFETY: the lock is held.
        let deadline = unsafe { self.internals.deadline_ns() };
        let jump = match deadline {
            None => Jump::Ends,
            Some(ns) => {
                let by_ps = ns.saturating_mul(1000).saturating_add(1000).div_ceil(self.pace.scale);
                match self.ahead_of_host(schedule.now_ps() + by_ps) {
                    Some(time) => Jump::Waits(time),
                    None => {
                        schedule.jump(by_ps);
                        self.time_ps.store(schedule.now_ps(), Relaxed);
                        // SAFETY: as above.
                        unsafe { self.internals.run_timers() };
                        self.simulation.pmu().advance_time(schedule.now_ps() / 1000);
                        Jump::Continues
                    }
                }
            }
        };
        self.runs_timers.store(false, Relaxed);
        jump
    }

    /// How long the host's clock takes to reach this simulated time; `None` if it has, or if the
    /// machine is not paced.
    fn ahead_of_host(&self, ps: u64) -> Option<Duration> {
        let guest = Duration::from_nanos(ps.saturating_mul(self.pace.scale) / 1000);
        let ahead = guest.checked_sub(self.started.elapsed())?;
        (self.pace.paced && !ahead.is_zero()).then_some(ahead)
    }
}

//! The schedule of the CPUs: decides which CPU continues to run, and when the simulated time
//! advances.
//!
//! QEMU runs all CPUs on one thread, one after another. Each CPU runs for one quantum. When all
//! CPUs that are not halted have used up the quantum, the time advances to the quantum's end, and
//! the timers that have expired by then run. When all CPUs are halted, the time advances to the
//! next timer at once.
//!
//! ```text
//!  CPU 0 |======|      |======|
//!  CPU 1 |      |======| halts ....
//!        T             T + quantum: timers
//! ```
//!
//! So the order of all events depends on the guest only, not on the host.

/// The decision for a CPU that has called the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The CPU runs until this time, in picoseconds.
    Until(u64),
    /// The CPU leaves translated code, and the next CPU runs.
    Leave,
}

#[derive(Clone, Copy, Debug)]
struct Cpu {
    /// The CPU's clock when it last called the schedule.
    now_ps: u64,
    is_halted: bool,
    /// Whether it has used up its quantum and has let the other CPUs run since.
    is_parked: bool,
}

/// The schedule; see the module documentation. Times are in picoseconds.
#[derive(Debug)]
pub struct Schedule {
    cpus: Vec<Cpu>,
    /// The time that all CPUs have reached.
    now_ps: u64,
    /// The end of the current quantum.
    end_ps: u64,
    /// The length of a quantum.
    quantum_ps: u64,
}

impl Schedule {
    /// The schedule of a machine at its start: all CPUs but the first are halted.
    pub fn new(cpus: usize, quantum_ps: u64) -> Self {
        let cpu = |index| Cpu { now_ps: 0, is_halted: index != 0, is_parked: false };
        Self { cpus: (0..cpus).map(cpu).collect(), now_ps: 0, end_ps: quantum_ps, quantum_ps }
    }

    /// Changes the length of a quantum, from the next one on.
    pub fn set_quantum(&mut self, ps: u64) {
        self.quantum_ps = ps;
    }

    /// The time that all CPUs have reached.
    pub fn now_ps(&self) -> u64 {
        self.now_ps
    }

    /// Whether a CPU is halted.
    pub fn is_halted(&self, cpu: usize) -> bool {
        self.cpus[cpu].is_halted
    }

    /// Whether all other CPUs are halted.
    pub fn is_alone(&self, cpu: usize) -> bool {
        self.cpus.iter().enumerate().all(|(other, state)| other == cpu || state.is_halted)
    }

    /// Decides whether a CPU with the clock `now_ps` continues; if it was halted, it has woken up.
    /// `has_others` tells whether other CPUs may have work. `advance` is called with the new time
    /// whenever the time advances.
    pub fn account(
        &mut self,
        cpu: usize,
        now_ps: u64,
        has_others: bool,
        mut advance: impl FnMut(u64),
    ) -> Turn {
        let this = &mut self.cpus[cpu];
        this.is_halted = false;
        this.now_ps = now_ps.max(self.now_ps);
        let now_ps = this.now_ps;
        if now_ps < self.end_ps {
            this.is_parked = false;
            return Turn::Until(self.end_ps);
        }
        if (has_others && !this.is_parked) || self.is_ahead(cpu) {
            self.cpus[cpu].is_parked = true;
            return Turn::Leave;
        }
        while now_ps >= self.end_ps && !self.is_ahead(cpu) {
            self.now_ps = self.end_ps;
            self.end_ps += self.quantum_ps;
            advance(self.now_ps);
        }
        if now_ps >= self.end_ps {
            return Turn::Leave;
        }
        self.cpus[cpu].is_parked = false;
        Turn::Until(self.end_ps)
    }

    /// Whether this CPU is ahead of another one, which has not reached the quantum's end yet.
    fn is_ahead(&self, cpu: usize) -> bool {
        let others = self.cpus.iter().enumerate().filter(|(other, _)| *other != cpu);
        others.map(|(_, other)| other).any(|cpu| !cpu.is_halted && cpu.now_ps < self.end_ps)
    }

    /// Records that a CPU halts. Returns whether all CPUs are halted now.
    pub fn halt(&mut self, cpu: usize, now_ps: u64) -> bool {
        let this = &mut self.cpus[cpu];
        (this.now_ps, this.is_halted, this.is_parked) = (now_ps, true, false);
        self.cpus.iter().all(|cpu| cpu.is_halted)
    }

    /// Advances the time by this much. All CPUs must be halted.
    pub fn jump(&mut self, by_ps: u64) {
        self.now_ps += by_ps;
        if self.end_ps < self.now_ps {
            self.end_ps = self.now_ps + self.quantum_ps;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const Q: u64 = 5_000_000;

    #[test]
    fn time_moves_when_all_have_used_up_the_quantum() {
        let mut schedule = Schedule::new(2, Q);
        let never = |_| panic!("time moves");
        assert_eq!(schedule.account(0, 10, true, never), Turn::Until(Q));
        assert_eq!(schedule.account(1, 0, true, never), Turn::Until(Q));
        assert_eq!(schedule.account(0, Q + 7, true, never), Turn::Leave);
        assert_eq!(schedule.account(0, Q + 7, true, never), Turn::Leave, "the other is behind");
        assert_eq!(schedule.account(1, Q, true, never), Turn::Leave, "others run first");
        let mut moved = Vec::new();
        assert_eq!(schedule.account(0, Q + 7, true, |to| moved.push(to)), Turn::Until(2 * Q));
        assert_eq!(moved, [Q]);
        assert_eq!(schedule.now_ps(), Q);
        assert_eq!(schedule.account(1, Q, true, never), Turn::Until(2 * Q));
    }

    #[test]
    fn a_halted_cpu_holds_nobody_back_and_wakes_at_the_time_of_all() {
        let mut schedule = Schedule::new(2, Q);
        let mut moved = Vec::new();
        assert_eq!(schedule.account(0, 3 * Q, true, |_| ()), Turn::Leave);
        assert_eq!(schedule.account(0, 3 * Q, true, |to| moved.push(to)), Turn::Until(4 * Q));
        assert_eq!(moved, [Q, 2 * Q, 3 * Q]);
        assert!(schedule.is_halted(1));
        assert_eq!(schedule.account(1, 5, true, |_| ()), Turn::Until(4 * Q));
        assert!(!schedule.is_halted(1));
        assert!(!schedule.halt(0, 3 * Q + 1));
        assert!(schedule.halt(1, 3 * Q + 1));
        schedule.jump(10 * Q);
        assert_eq!(schedule.now_ps(), 13 * Q);
        assert_eq!(schedule.account(1, 0, true, |_| ()), Turn::Until(14 * Q));
    }

    #[test]
    fn a_cpu_that_is_alone_goes_on() {
        let mut schedule = Schedule::new(2, Q);
        assert!(schedule.is_alone(0) && !schedule.is_alone(1));
        let mut moved = Vec::new();
        assert_eq!(schedule.account(0, 2 * Q, false, |to| moved.push(to)), Turn::Until(3 * Q));
        assert_eq!(moved, [Q, 2 * Q]);
        schedule.set_quantum(Q / 5);
        assert_eq!(schedule.account(0, 3 * Q, false, |_| ()), Turn::Until(3 * Q + Q / 5));
    }
}

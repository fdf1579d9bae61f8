//! What the threads of a running program have, and which of it the program has set itself.
//!
//! A thread that is first seen with other settings than the program was started with has set them
//! itself, unless it has inherited what this process has set since. So has a thread that no longer
//! has what this process set.

use std::collections::HashMap;

use numapilot_sys::prctl::ThpSwitch;
use numapilot_topology::CpuSet;

use super::State;
use crate::Note;
use crate::effect::Policy;

/// A thread: process, its own number, and when it started.
pub type Identity = (i32, i32, u64);

/// Who has set what a thread has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setter {
    /// This process, or nobody since the start.
    Plan,
    /// The program.
    Program,
}

/// The values of one setting.
#[derive(Debug)]
pub struct Values<T> {
    /// By thread: the value that this process set last, or `None` for one that the program has set.
    by_thread: HashMap<Identity, Option<T>>,
    /// The values that this process has set in any thread, before the present look at all of them.
    set: Vec<T>,
    /// Those that it has set since. A thread of the present look has not inherited them.
    fresh: Vec<T>,
}

impl<T> Default for Values<T> {
    fn default() -> Self {
        Self { by_thread: HashMap::new(), set: Vec::new(), fresh: Vec::new() }
    }
}

impl<T: Clone + PartialEq> Values<T> {
    /// Tells who has set the value that a thread has now.
    pub fn setter(&mut self, thread: Identity, start: &T, now: &T) -> Setter {
        let is_plans = match self.by_thread.get(&thread) {
            Some(None) => false,
            Some(Some(last)) => last == now,
            None => start == now || self.set.contains(now),
        };
        if is_plans {
            return Setter::Plan;
        }
        self.by_thread.insert(thread, None);
        Setter::Program
    }

    /// Records what this process has set.
    pub fn set(&mut self, thread: Identity, value: T) {
        if !self.fresh.contains(&value) {
            self.fresh.push(value.clone());
        }
        self.by_thread.insert(thread, Some(value));
    }

    /// Whether there are threads, and the program has set the value in all of them.
    fn are_programs(&self) -> bool {
        !self.by_thread.is_empty() && self.by_thread.values().all(Option::is_none)
    }

    fn has_looked(&mut self, lives: &impl Fn(&Identity) -> bool) {
        self.by_thread.retain(|thread, _| lives(thread));
        let Self { set, fresh, .. } = self;
        fresh.retain(|value| !set.contains(value));
        set.append(fresh);
    }
}

/// All settings of all threads.
#[derive(Debug, Default)]
pub struct Threads {
    pub cpus: Values<CpuSet>,
    /// `None` for a policy that is not known here.
    pub policy: Values<Option<Policy>>,
    /// Of processes: the first thread stands for all of one.
    pub thp: Values<ThpSwitch>,
}

impl Threads {
    /// Ends a look at all threads: forgets those that have ended.
    pub fn has_looked(&mut self, lives: impl Fn(&Identity) -> bool) {
        self.cpus.has_looked(&lives);
        self.policy.has_looked(&lives);
        self.thp.has_looked(&lives);
    }

    /// Notes about settings of a plan that no thread has, because the program has set them itself.
    /// Where some threads have it, the plan applies, as it does to a program that is started under
    /// it.
    pub fn notes(&self, start: &State, wanted: &State) -> Vec<Note> {
        let note = |subject: String, what: &str, remedy| {
            let cause = format!("the program has set {what} itself; numapilot left it alone");
            Note::new(subject, cause, remedy)
        };
        let mut notes = Vec::new();
        if wanted.cpus != start.cpus && self.cpus.are_programs() {
            let remedy = "look for taskset in its command, or use its own setting";
            let subject = format!("CPUs {}", wanted.cpus);
            notes.push(note(subject, "the affinity of all of its threads", remedy));
        }
        if wanted.policy != start.policy && self.policy.are_programs() {
            let remedy = "look for numactl in its command, or use its own setting";
            notes.push(note("memory".to_owned(), "the policy of all of its threads", remedy));
        }
        if wanted.thp != start.thp && self.thp.are_programs() {
            let remedy = "use its own setting (Redis: disable-thp)";
            notes.push(note("thp".to_owned(), "its switch of huge pages", remedy));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Identity = (1, 1, 10);
    const B: Identity = (1, 2, 20);
    const C: Identity = (1, 3, 30);
    const D: Identity = (1, 4, 40);

    #[test]
    fn what_the_program_has_set_stays_its_own() {
        let mut values = Values::default();
        assert_eq!(values.setter(A, &"start", &"start"), Setter::Plan);
        assert_eq!(values.setter(B, &"start", &"own"), Setter::Program);
        values.set(A, "own");
        // The plan's value happens to be that of other threads.
        assert_eq!(values.setter(B, &"start", &"own"), Setter::Program);
        assert_eq!(values.setter(C, &"start", &"own"), Setter::Program);
        values.has_looked(&|_| true);
        assert_eq!(values.setter(A, &"start", &"own"), Setter::Plan);
        // A thread that has inherited it.
        assert_eq!(values.setter(D, &"start", &"own"), Setter::Plan);
        values.set(D, "start");
        assert!(!values.are_programs());
        // Threads that no longer have what they were given.
        assert_eq!(values.setter(A, &"start", &"start"), Setter::Program);
        assert_eq!(values.setter(D, &"start", &"other"), Setter::Program);
        assert!(values.are_programs());
        values.has_looked(&|_| false);
        assert!(!values.are_programs());
    }
}

//! Changes the plan of a program that runs: the CPUs, memory policy and huge pages of its threads,
//! machine-wide settings, and the daemons beside it.
//!
//! ```text
//!  Live::of(program) --change(prepared)--> Window: machine-wide settings, placed threads
//!        ^                                   |
//!        '------------- next plan <--end()---'
//! ```
//!
//! The memory policy and huge pages apply to memory that the program touches after the change: the
//! memory that it has stays where it is. A thread or process that is created later inherits them.
//! A thread that has set its own affinity or policy is left alone. Memory that a daemon has moved
//! stays where it was moved to.

mod known;
mod obstacle;
mod threads;

use std::io;
use std::sync::atomic::AtomicBool;

use numapilot_observe::{Orphans, Tree};
use numapilot_sys::prctl::{self, ThpSwitch};
use numapilot_sys::{affinity, mempolicy};
use numapilot_topology::CpuSet;

use known::Threads;
pub use obstacle::obstacle;

use crate::daemons;
use crate::effect::Policy;
use crate::prepare::Prepared;
use crate::running::Running;
use crate::settings_journal::{Held, SettingsJournal};
use crate::threads::{Outcome, Watcher};
use crate::{Note, PlaceError};

/// A program that runs, and what applies to it.
#[derive(Debug)]
pub struct Live {
    program: i32,
    orphans: Orphans,
    tree: Tree,
    /// What it was started with.
    start: State,
    /// What applies now; `None` after a change that failed.
    now: Option<State>,
    /// What each thread has of it, as far as it was asked.
    threads: Threads,
}

/// Settings of threads.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    cpus: CpuSet,
    policy: Policy,
    thp: Option<ThpSwitch>,
}

/// The time during which a plan applies. If it is dropped, machine-wide settings are restored, and
/// threads keep their CPUs.
#[derive(Debug)]
pub struct Window {
    held: Option<Held>,
    watcher: Option<Watcher>,
    daemons: daemons::Session,
    /// Settings of the plan that threads keep from having.
    notes: Vec<Note>,
}

impl Live {
    /// A program that was started by this process, from `prepared`, and not waited for. `orphans`
    /// tells which of its processes are recognised after they have lost their parent.
    ///
    /// # Errors
    /// The settings of this process, which the program has inherited, cannot be read.
    pub fn of(
        program: &Running,
        prepared: &Prepared,
        orphans: Orphans,
    ) -> Result<Self, PlaceError> {
        let cpus = match &prepared.steps.cpus {
            Some(words) => words.clone(),
            None => affinity::get(0).map_err(|error| inherited("CPUs", &error))?,
        };
        let policy = match &prepared.steps.memory {
            Some((mode, flags, nodes)) => Policy::of_step(*mode, *flags, nodes),
            None => {
                let raw = mempolicy::get_mempolicy();
                let (mode, nodes) = raw.map_err(|error| inherited("memory policy", &error))?;
                let unknown = || io::Error::other(format!("the kernel's mode {mode} is unknown"));
                Policy::of_raw(mode, &nodes)
                    .ok_or_else(|| inherited("memory policy", &unknown()))?
            }
        };
        // What a kernel or filter does not tell is left as it is.
        let thp = prepared.steps.thp.or_else(|| prctl::thp_switch().ok());
        let start = State { cpus: CpuSet::from_words(&cpus), policy, thp };
        Ok(Self {
            program: program.pid(),
            tree: Tree::of_child_with(program.pid(), orphans.clone()),
            orphans,
            now: Some(start.clone()),
            start,
            threads: Threads::default(),
        })
    }

    /// Applies the settings of `prepared`, in place of those that apply now. What it leaves open is
    /// as at the start of the program. Ends early when `is_interrupted` becomes true.
    ///
    /// # Errors
    /// [`PlaceError`] for the first setting that cannot be changed, or that reads back otherwise,
    /// and if it was interrupted. Then a part of the plan may apply.
    pub fn change(
        &mut self,
        prepared: &Prepared,
        is_interrupted: &AtomicBool,
    ) -> Result<Window, PlaceError> {
        let held = match prepared.machine_wide() {
            [] => None,
            settings => SettingsJournal::system()?.acquire(settings, &prepared.program())?,
        };
        let steps = &prepared.steps;
        let wanted = State {
            cpus: match &steps.cpus {
                Some(words) => CpuSet::from_words(words),
                None => self.start.cpus.clone(),
            },
            policy: match &steps.memory {
                Some((mode, flags, nodes)) => Policy::of_step(*mode, *flags, nodes),
                None => self.start.policy.clone(),
            },
            thp: steps.thp.or(self.start.thp),
        };
        self.change_threads(&wanted, is_interrupted)?;
        let watch = |order: &[_]| {
            Watcher::of_running(self.program, order.to_vec(), self.orphans.clone()).map_err(
                |error| PlaceError::Live {
                    setting: "threads".to_owned(),
                    cause: error.to_string(),
                },
            )
        };
        let placement = prepared.placement.as_ref();
        let watcher = placement.map(|placement| watch(placement.order())).transpose()?;
        let notes = self.threads.notes(&self.start, &wanted);
        let daemons = prepared.daemons.as_ref().map(|daemons| daemons.start(self.program));
        Ok(Window { held, watcher, daemons: daemons.unwrap_or_default(), notes })
    }
}

impl Window {
    /// Ends the time of the plan: stops daemons, restores machine-wide settings, and lets placed
    /// threads run on all CPUs of their order. Returns what had no effect.
    #[must_use]
    pub fn end(self) -> Vec<Note> {
        let Self { held, watcher, daemons, mut notes } = self;
        // First, because they put back the CPUs that they have changed.
        notes.extend(daemons.finish().iter().filter_map(daemons::Outcome::idle_note));
        drop(held);
        if let Some(threads) = watcher.map(Watcher::release) {
            // Where some threads are placed, the plan applies.
            if threads.placed == 0 || threads.refused > 0 {
                notes.extend(threads.notes());
            }
            if threads == Outcome::default() {
                notes.push(Note::new(
                    "threads",
                    "the program had no threads to place: each of its processes has one, and \
                     executes another program than its parent",
                    "compare plans without threads",
                ));
            }
        }
        notes
    }
}

fn inherited(setting: &str, error: &io::Error) -> PlaceError {
    PlaceError::Live {
        setting: setting.to_owned(),
        cause: format!(
            "that of this process, which the program has inherited, is not known: {error}"
        ),
    }
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use std::process::Stdio;

    use numapilot_sys::mempolicy::Mode;
    use numapilot_sys::remote;

    use super::*;
    use crate::{MemoryMode, MemoryPolicy, Options, Plan, Thp, prepare};

    fn policy_of(tid: i32) -> Policy {
        let (mode, nodes) = remote::within(tid, |thread| thread.mempolicy()).unwrap();
        Policy::of_raw(mode, &nodes).unwrap()
    }

    fn silent(command: &mut std::process::Command) {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }

    fn has_thp(pid: i32) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status.contains("THP_enabled:\t1")
    }

    #[test]
    fn a_plan_applies_to_every_process_until_the_next_one() {
        let machine = numapilot_topology::read(std::path::Path::new("/")).unwrap();
        let command = ["sh", "-c", "sleep 600; true"].map(Into::into);
        let prepared = |plan: &Plan| {
            let options = Options { new_group: true, ..Options::default() };
            prepare(plan, &machine, &command, &options).unwrap()
        };
        let default = prepared(&Plan::default());
        let running = default.spawn(silent).unwrap();
        let never = AtomicBool::new(false);
        let mut live = Live::of(&running, &default, Orphans::Ignored).unwrap();
        let all = |live: &mut Live| {
            live.tree.refresh();
            live.tree.pids().collect::<Vec<_>>()
        };
        numapilot_test_kit::wait_until("the shell has no child", || all(&mut live).len() == 2);
        let memory = MemoryPolicy { mode: MemoryMode::Local, ..MemoryPolicy::default() };
        let plan = Plan { memory, thp: Thp::Never, ..Plan::default() };
        let window = live.change(&prepared(&plan), &never).unwrap();
        for pid in all(&mut live) {
            assert_eq!((policy_of(pid).mode, has_thp(pid)), (Mode::Local, false));
        }
        assert!(window.end().is_empty());
        let window = live.change(&default, &never).unwrap();
        for pid in all(&mut live) {
            assert_eq!((policy_of(pid), has_thp(pid)), (live.start.policy.clone(), true));
        }
        assert!(window.end().is_empty());
    }

    #[test]
    fn a_policy_that_the_program_has_set_is_left_alone() {
        let machine = numapilot_topology::read(std::path::Path::new("/")).unwrap();
        let command = ["sleep", "600"].map(Into::into);
        let prepared =
            |plan: &Plan| prepare(plan, &machine, &command, &Options::default()).unwrap();
        let default = prepared(&Plan::default());
        let running = default.spawn(silent).unwrap();
        let nodes = machine.memory_nodes();
        let set = |thread: &mut remote::Remote| {
            thread.set_mempolicy(Mode::Preferred, 0, nodes.as_words())
        };
        remote::within(running.pid(), set).unwrap();
        let mut live = Live::of(&running, &default, Orphans::Ignored).unwrap();
        let memory = MemoryPolicy { mode: MemoryMode::Local, ..MemoryPolicy::default() };
        let window = live
            .change(&prepared(&Plan { memory, ..Plan::default() }), &AtomicBool::new(false))
            .unwrap();
        assert_eq!(policy_of(running.pid()).mode, Mode::Preferred);
        let notes = window.end();
        assert!(notes[0].to_string().contains("the policy of all of its threads"), "{notes:?}");
    }
}

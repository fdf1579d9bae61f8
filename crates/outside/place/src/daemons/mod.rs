//! The daemons of a plan: `numapilot balance` and `numapilot cores`, which run beside the program
//! for as long as it runs.
//!
//! ```text
//!  Prepared.daemons --Session::start(pid)--> numapilot balance -p PID    not a child of this process
//!                          |                 numapilot cores -p PID
//!                          '--finish()--> SIGTERM; Outcome: what each has said at its end
//! ```
//!
//! A daemon ends by itself when the program has ended, also if this process is killed. It is no
//! child of this process, so nothing here mistakes it for a process of the program.

mod outcome;
mod session;

use std::path::PathBuf;

use numapilot_topology::Machine;

use crate::{Daemons, own_program};

pub(crate) use outcome::TOO_SHORT;
pub use outcome::{NOTHING_YET, Outcome, State};
pub(crate) use session::Session;

/// The daemons of a prepared command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beside {
    /// The file of numapilot.
    program: PathBuf,
    /// The verbs.
    verbs: &'static [&'static str],
}

impl Beside {
    /// These daemons, unless numapilot is missing.
    pub fn new(daemons: Daemons) -> Option<Self> {
        Some(Self { program: own_program("numapilot")?, verbs: daemons.verbs() })
    }

    /// Starts the daemons for a program that runs.
    pub fn start(&self, pid: i32) -> Session {
        Session::start(&self.program, self.verbs, pid)
    }

    /// The commands, with a word for the number of the program.
    pub fn commands(&self) -> impl Iterator<Item = String> {
        commands(self.verbs, "-p PID")
    }
}

/// The commands of daemons, for a program that is named by `target`.
pub(crate) fn commands(
    verbs: &'static [&'static str],
    target: &str,
) -> impl Iterator<Item = String> {
    verbs.iter().map(move |verb| format!("numapilot {verb} {target}"))
}

/// Why cores and the placement of threads exclude each other, with the remedy.
pub(crate) const EXCLUDES_THREADS: &str =
    "both decide on which CPUs a thread runs: cores and the placement of threads";
pub(crate) const ONE_OF_THE_TWO: &str = "use one of the two";

/// Why there is nothing to balance on a machine, if there is not.
#[must_use]
pub fn nothing_to_balance(machine: &Machine) -> Option<String> {
    let nodes = machine.memory_nodes().intersection(&machine.allowed.nodes);
    (nodes.len() < 2).then(|| {
        let has = if machine.memory_nodes().len() < 2 {
            "this machine has one node with memory"
        } else {
            "this process may use the memory of one node only (cpuset)"
        };
        format!("{has}: there is nothing to balance")
    })
}

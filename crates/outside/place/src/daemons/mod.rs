//! The daemons of a plan: `numapilot balance` and `numapilot cores`, which run beside the program
//! for as long as it runs.
//!
//! ```text
//!  Prepared.daemons --Session::start(pid)--> numapilot balance -p PID    not a child of this process
//!                          |                 numapilot cores -p PID
//!                          '--finish()--> SIGTERM; Seen: what each has said at its end
//! ```
//!
//! A daemon ends by itself when the program has ended, also if this process is killed. It is no
//! child of this process, so nothing here mistakes it for a process of the program.

mod session;

use std::path::{Path, PathBuf};

use numapilot_topology::{Extent, Machine, read_extent};

use crate::prepare::Prepared;
use crate::{Daemons, Note, own_program};

pub use session::NOTHING_YET;
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
    /// Starts the daemons for a program that runs.
    pub fn start(&self, pid: i32) -> Session {
        Session::start(&self.program, self.verbs, pid)
    }

    /// The commands, with this word for the program.
    pub fn commands(&self, pid: &str) -> impl Iterator<Item = String> {
        commands(self.verbs, pid)
    }
}

/// The commands of daemons, for a program that is named by `target`.
pub(crate) fn commands(
    verbs: &'static [&'static str],
    target: &str,
) -> impl Iterator<Item = String> {
    verbs.iter().map(move |verb| format!("numapilot {verb} {target}"))
}

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

impl Prepared {
    /// Must be called after the threads are set. A `supervised` program has a process of numapilot
    /// that stays, which can start daemons.
    pub(crate) fn set_daemons(&mut self, daemons: Daemons, supervised: bool) {
        if daemons == Daemons::None {
            return;
        }
        match self.beside(daemons, supervised) {
            Ok(beside) => self.daemons = Some(beside),
            Err((cause, remedy)) => {
                self.notes.push(Note::new(format!("daemons {}", daemons.name()), cause, remedy));
            }
        }
    }

    /// The daemons, or why they cannot run, with the remedy.
    fn beside(&self, daemons: Daemons, supervised: bool) -> Result<Beside, (String, &'static str)> {
        if !supervised {
            let cause = "no process of numapilot stays that could start them";
            return Err((cause.to_owned(), "start the program by numapilot run"));
        }
        let verbs = daemons.verbs();
        if verbs.contains(&"balance")
            && let Ok(machine) = read_extent(Path::new("/"), Extent::Nodes)
            && let Some(why) = nothing_to_balance(&machine)
        {
            return Err((why, "leave it out on this machine"));
        }
        if verbs.contains(&"cores") && self.placement.is_some() {
            let cause =
                "both decide on which CPUs a thread runs: cores and the placement of threads";
            return Err((cause.to_owned(), "use one of the two"));
        }
        let program = own_program("numapilot").ok_or_else(|| {
            let cause = "the program numapilot is neither beside this one nor in PATH";
            (cause.to_owned(), "install it, or add its directory to PATH")
        })?;
        Ok(Beside { program, verbs })
    }
}

//! The daemons beside the program, and what keeps them from running.

use std::path::Path;

use numapilot_topology::{Extent, read_extent};

use super::Prepared;
use crate::daemons::{Beside, EXCLUDES_THREADS, ONE_OF_THE_TWO, nothing_to_balance};
use crate::{Daemons, Note};

impl Prepared {
    /// Must be called after the threads are set.
    pub(super) fn set_daemons(&mut self, daemons: Daemons) {
        if daemons == Daemons::None {
            return;
        }
        match self.beside(daemons) {
            Ok(beside) => self.daemons = Some(beside),
            Err((cause, remedy)) => {
                self.notes.push(Note::new(format!("daemons {}", daemons.name()), cause, remedy));
            }
        }
    }

    /// The daemons, or why they cannot run, with the remedy.
    fn beside(&self, daemons: Daemons) -> Result<Beside, (String, &'static str)> {
        if !self.supervised {
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
            return Err((EXCLUDES_THREADS.to_owned(), ONE_OF_THE_TWO));
        }
        Beside::new(daemons).ok_or_else(|| {
            let cause = "the program numapilot is neither beside this one nor in PATH";
            (cause.to_owned(), "install it, or add its directory to PATH")
        })
    }
}

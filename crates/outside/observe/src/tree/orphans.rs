//! Descendants whose parent has ended before a look at the tree, for example daemons that fork
//! twice.
//!
//! Source: proc_pid_environ(5).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use super::ancestors::ancestors;
use crate::orphans::reap_orphan;

/// How a tree recognises the orphans that belong to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Orphans {
    /// Not at all.
    #[default]
    Ignored,
    /// Every new child of this process is one, because this process [adopts
    /// orphans](numapilot_sys::prctl::adopt_orphans). The tree reaps them.
    Adopted,
    /// By an entry `NAME=VALUE` in their environment, which they inherit.
    Marked(Vec<u8>),
}

/// Whether an orphan belongs to a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Belongs {
    Yes,
    No,
    Undecided,
}

impl Orphans {
    /// Orphans with this variable in their environment.
    #[must_use]
    pub fn marked(name: &str, value: &OsStr) -> Self {
        Self::Marked([name.as_bytes(), b"=", value.as_bytes()].concat())
    }

    /// The processes whose children may be such orphans.
    pub(super) fn adopters(&self) -> Vec<i32> {
        let this = std::process::id().cast_signed();
        match self {
            Self::Ignored => Vec::new(),
            Self::Adopted => vec![this],
            // The first process of a PID namespace is not an ancestor of one that was put into it.
            Self::Marked(_) => [ancestors(this), vec![this, 1]].concat(),
        }
    }

    /// Whether a child of one of the adopters belongs to the tree.
    pub(super) fn include(&self, pid: i32) -> Belongs {
        match self {
            Self::Ignored => Belongs::No,
            Self::Adopted => Belongs::Yes,
            Self::Marked(entry) => has_entry(pid, entry),
        }
    }

    /// Reaps a member that has ended, if it is an orphan that no other process waits for.
    pub(super) fn reap(&self, pid: i32, parent: i32) {
        if *self == Self::Adopted && parent == std::process::id().cast_signed() {
            reap_orphan(pid);
        }
    }
}

/// Whether a process was started with this entry in its environment. The environment is empty
/// during `execve`.
fn has_entry(pid: i32, entry: &[u8]) -> Belongs {
    match fs::read(format!("/proc/{pid}/environ")) {
        Ok(environment) if environment.is_empty() => Belongs::Undecided,
        Ok(environment) if environment.split(|byte| *byte == 0).any(|e| e == entry) => Belongs::Yes,
        _ => Belongs::No,
    }
}

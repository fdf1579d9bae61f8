//! Why a program was not started under a plan.

use std::io;
use std::path::PathBuf;

use numapilot_sys::spawn::SpawnError;
use numapilot_topology::NodestringError;
use thiserror::Error;

use crate::allocators::FindError;
use crate::settings_journal::SettingsJournalError;
use crate::{Denial, DeviceError, Note, ProfileError};

/// An error with its causes, as one line.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Why a program was not started under a plan. Each message names the cause and the remedy.
#[derive(Debug, Error)]
pub enum PlaceError {
    /// There is no command.
    #[error("no command to run; write it after the options, or after --")]
    NoCommand,
    /// The program does not exist.
    #[error("{program}: not found in {searched}; check the spelling or give its path")]
    NotFound {
        /// The user's text.
        program: String,
        /// `PATH`, or the path itself.
        searched: String,
    },
    /// The program exists but cannot be executed.
    #[error("{program}: cannot be executed")]
    NotExecutable {
        /// The user's text.
        program: String,
        /// The error of execve, or one that it would return.
        source: io::Error,
    },
    /// The user's limit of processes is reached, or there is no memory for a process.
    #[error(
        "{program}: no process could be created for it; see `ulimit -u`, the pids.max of its control \
         group, and free memory"
    )]
    NoProcess {
        /// The user's text.
        program: String,
        /// The error of fork or execve.
        source: io::Error,
    },
    /// The profile cannot be used.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The machine cannot be read.
    #[error(transparent)]
    Machine(#[from] numapilot_topology::ReadError),
    /// Nodes or CPUs that cannot be used.
    #[error(transparent)]
    Nodes(#[from] NodestringError),
    /// The nodes have no memory.
    #[error(
        "node {nodes} has no memory to allocate from; nodes with memory that may be used: {usable}"
    )]
    NoMemory {
        /// The requested ones.
        nodes: String,
        /// The usable ones.
        usable: String,
    },
    /// The nodes have no CPU.
    #[error("node {nodes} has no CPU to run on; nodes with CPUs: {usable}")]
    NoCpus {
        /// The requested ones.
        nodes: String,
        /// The usable ones.
        usable: String,
    },
    /// The CPUs exist, but this process may not use them.
    #[error("CPU {cpus} is {denial}; {}", denial.remedy())]
    DeniedCpus {
        /// The requested ones.
        cpus: String,
        /// The reason.
        denial: Denial,
    },
    /// The memory of the nodes is outside the cpuset.
    #[error(
        "the memory of node {nodes} is outside the cpuset of this process, which holds {usable}; \
         widen it (docker: --cpuset-mems; systemd: AllowedMemoryNodes=)"
    )]
    DeniedNodes {
        /// The requested ones.
        nodes: String,
        /// The usable ones.
        usable: String,
    },
    /// Without sysfs the CPUs of a node are unknown.
    #[error(
        "the CPUs of node {nodes} are unknown, because sysfs is not mounted: mount -t sysfs sysfs \
         /sys, or give CPUs (-C)"
    )]
    UnknownCpus {
        /// The requested ones.
        nodes: String,
    },
    /// The node of a device cannot be determined.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// `preferred` takes only one node.
    #[error("a preferred node is one node, not {nodes}; for several use preferred-many (-P)")]
    OnePreferred {
        /// The requested ones.
        nodes: String,
    },
    /// The CPUs are not on the CPU nodes.
    #[error("CPUs {cpus} are not on node {nodes}; give one of -C and -N, or CPUs of that node")]
    Disjoint {
        /// `-C`.
        cpus: String,
        /// `-N`.
        nodes: String,
    },
    /// The plan switches AutoNUMA off but lets it move pages.
    #[error(
        "numa-balancing off and memory balancing (-b) contradict each other; leave one of them out"
    )]
    Contradiction,
    /// The allocator cannot be used.
    #[error(transparent)]
    Allocator(#[from] FindError),
    /// A machine-wide setting cannot be changed.
    #[error(transparent)]
    SettingsJournal(#[from] SettingsJournalError),
    /// The variable is invalid.
    #[error(
        "environment variable '{0}': a name must not be empty or contain =, and neither name nor \
         value may contain a zero byte"
    )]
    Variable(String),
    /// `LD_PRELOAD` cannot contain this path.
    #[error(
        "{} contains a space or a colon, at which LD_PRELOAD splits; \
         copy or link the library to a path without them", .0.display()
    )]
    Unpreloadable(PathBuf),
    /// A setting of a program that runs cannot be changed.
    #[error("{setting} cannot be changed while the program runs: {cause}")]
    Live {
        /// The setting, with its thread.
        setting: String,
        /// The cause, with the remedy.
        cause: String,
    },
    /// The plan has notes, under `strict`.
    #[error("part of the plan is impossible, and strict was requested: {}", list(.0))]
    Strict(Vec<Note>),
    /// A setting has no effect on the running program, under `strict`.
    #[error("part of the plan had no effect, and strict was requested: {}", list(.0))]
    NoEffect(Vec<Note>),
    /// A step between fork and exec failed.
    #[error("cannot start {program} under this plan")]
    Step {
        /// The user's text.
        program: String,
        /// The step, and its errno.
        source: SpawnError,
    },
    /// Receiving signals failed.
    #[error("cannot receive signals for the program: {0}")]
    Signals(io::Error),
    /// Waiting or signalling failed.
    #[error("cannot watch process {pid}")]
    Watch {
        /// The process.
        pid: i32,
        /// The error of pidfd_open, poll or wait4.
        source: io::Error,
    },
}

impl PlaceError {
    /// The exit status of a launcher for this error, as in env(1) and timeout(1): 127 not found,
    /// 126 not executable, 125 any other failure of the launcher.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            _ => 125,
        }
    }
}

fn list(notes: &[Note]) -> String {
    notes.iter().map(Note::to_string).collect::<Vec<_>>().join(". ")
}

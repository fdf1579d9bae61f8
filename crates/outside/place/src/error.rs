//! Why a program was not started under a plan.

use std::io;
use std::path::PathBuf;

use numapilot_sys::spawn::SpawnError;
use numapilot_topology::NodestringError;
use thiserror::Error;

use crate::allocators::FindError;
use crate::settings_journal::SettingsJournalError;
use crate::{Denial, DeviceError, Note};

/// Why a program was not started under a plan. Each message names cause and remedy.
#[derive(Debug, Error)]
pub enum PlaceError {
    /// Nothing to run.
    #[error("no command to run; write it after the options, or after --")]
    NoCommand,
    /// The program does not exist.
    #[error("{program}: not found in {searched}; check the spelling or give its path")]
    NotFound {
        /// As the user wrote it.
        program: String,
        /// `PATH` or the path itself.
        searched: String,
    },
    /// The program exists and cannot be executed.
    #[error("{program}: cannot be executed")]
    NotExecutable {
        /// As the user wrote it.
        program: String,
        /// What execve said, or what would make it say so.
        source: io::Error,
    },
    /// The kernel gives this user no process or no memory for one.
    #[error(
        "{program}: no process could be made for it; see `ulimit -u`, the pids.max of its control \
         group, and free memory"
    )]
    NoProcess {
        /// As the user wrote it.
        program: String,
        /// Of fork or execve.
        source: io::Error,
    },
    /// The machine cannot be read.
    #[error(transparent)]
    Machine(#[from] numapilot_topology::ReadError),
    /// Nodes or CPUs that cannot be used.
    #[error(transparent)]
    Nodes(#[from] NodestringError),
    /// The nodes hold no memory.
    #[error(
        "node {nodes} has no memory to allocate from; nodes with memory that may be used: {usable}"
    )]
    NoMemory {
        /// Asked for.
        nodes: String,
        /// Possible.
        usable: String,
    },
    /// The nodes hold no CPU.
    #[error("node {nodes} has no CPU to run on; nodes with CPUs: {usable}")]
    NoCpus {
        /// Asked for.
        nodes: String,
        /// Possible.
        usable: String,
    },
    /// CPUs that are there and that this process may not use.
    #[error("CPU {cpus} is {denial}; {}", denial.remedy())]
    DeniedCpus {
        /// Asked for.
        cpus: String,
        /// Why they may not be used.
        denial: Denial,
    },
    /// Nodes whose memory is outside the cpuset.
    #[error(
        "the memory of node {nodes} is outside the cpuset of this process, which holds {usable}; \
         widen it (docker: --cpuset-mems; systemd: AllowedMemoryNodes=)"
    )]
    DeniedNodes {
        /// Asked for.
        nodes: String,
        /// Possible.
        usable: String,
    },
    /// Without sysfs nobody says which CPUs a node has.
    #[error(
        "which CPUs are on node {nodes} is not known, because sysfs is not mounted: \
         mount -t sysfs sysfs /sys, or give CPUs (-C)"
    )]
    UnknownCpus {
        /// Asked for.
        nodes: String,
    },
    /// The name of a device that leads to no node.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// `preferred` takes one node.
    #[error("a preferred node is one node, not {nodes}; for several use preferred-many (-P)")]
    OnePreferred {
        /// Asked for.
        nodes: String,
    },
    /// CPUs and CPU nodes have nothing in common.
    #[error("CPUs {cpus} are not on node {nodes}; give one of -C and -N, or CPUs of that node")]
    Disjoint {
        /// `-C`.
        cpus: String,
        /// `-N`.
        nodes: String,
    },
    /// AutoNUMA is to be off and to move pages.
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
    /// No environment can hold this variable.
    #[error(
        "environment variable '{0}': a name is not empty and has no =, and neither name nor value \
         has a zero byte"
    )]
    Variable(String),
    /// `LD_PRELOAD` has no way to write this path.
    #[error(
        "{} contains a space or a colon, at which LD_PRELOAD splits; \
         copy or link the library to a path without them", .0.display()
    )]
    Unpreloadable(PathBuf),
    /// Notes, under `strict`.
    #[error("cannot do all of the plan, and strict was asked for: {}", list(.0))]
    Strict(Vec<Note>),
    /// What was done and has no effect on the running program, under `strict`.
    #[error("part of the plan had no effect, and strict was asked for: {}", list(.0))]
    NoEffect(Vec<Note>),
    /// A step between fork and exec failed.
    #[error("cannot start {program} under this plan")]
    Step {
        /// As the user wrote it.
        program: String,
        /// Which step, and its errno.
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
        /// Of pidfd_open, poll or wait4.
        source: io::Error,
    },
}

impl PlaceError {
    /// The exit status a launcher gives for this error, as env(1) and timeout(1) have it:
    /// 127 not found, 126 not executable, 125 any other failure of the launcher.
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

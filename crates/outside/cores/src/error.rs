//! Errors of holding a target on its cores.

use std::io;
use std::path::PathBuf;

use numapilot_place::AlreadyManaged;
use numapilot_place::settings_journal::SettingsJournalError;
use thiserror::Error;

/// Why the cores of a target cannot be held. Nothing is left changed.
#[derive(Debug, Error)]
pub enum CoresError {
    /// The target has ended.
    #[error("the target has ended")]
    Gone,
    /// Another numapilot holds it.
    #[error(transparent)]
    Taken(#[from] AlreadyManaged),
    /// A dead daemon has left the target changed, and it could not be put back.
    #[error("first put back what a killed numapilot cores has left: {what}")]
    Unsettled {
        /// What was left, and why it is not put back.
        what: String,
    },
    /// One of two targets of one run descends from the other.
    #[error("process {child} belongs to process {parent}; give only the latter")]
    Related {
        /// The descendant.
        child: i32,
        /// Its ancestor.
        parent: i32,
    },
    /// There are not enough CPUs.
    #[error(
        "process {pid} may use too few cores: {there}, with --min {wanted}; {}see what withholds \
         the others (a cpuset, CPUs offline)",
        if *wanted > 1 { "lower --min, or " } else { "" }
    )]
    TooFew {
        /// The target.
        pid: i32,
        /// Its minimum.
        wanted: u32,
        /// CPUs that it may use.
        there: usize,
    },
    /// There would be enough CPUs for fewer targets.
    #[error(
        "{targets} processes need {} cores with --min {wanted}, and may use {there}; {}give fewer \
         processes",
        *targets as u64 * u64::from(*wanted),
        if *wanted > 1 { "lower --min, or " } else { "" }
    )]
    TooMany {
        /// Targets of this run.
        targets: usize,
        /// The minimum of each.
        wanted: u32,
        /// CPUs that they may use.
        there: usize,
    },
    /// There would be enough CPUs if targets of other daemons did not have them.
    #[error(
        "too few cores are free for process {pid}: {there}, with --min {wanted}; {}end numapilot \
         cores of another program, which holds the others",
        if *wanted > 1 { "lower --min, or " } else { "" }
    )]
    Occupied {
        /// The target.
        pid: i32,
        /// Its minimum.
        wanted: u32,
        /// Free CPUs.
        there: usize,
    },
    /// None of the ways works.
    #[error(
        "the cores of process {pid} cannot be held: {causes}; run as root or as its user, and \
         leave --actuator out to have the first way that works"
    )]
    NoWay {
        /// The target.
        pid: i32,
        /// Each way with the reason why it does not work.
        causes: String,
    },
    /// Somebody else moved it out of the group that was made for it.
    #[error(
        "it is no longer in {}: somebody else moved it; its cores are left as they are",
        group.display()
    )]
    MovedAway {
        /// The group.
        group: PathBuf,
    },
    /// Somebody else has changed the CPUs of its own group.
    #[error(
        "{} was set to '{now}' by somebody else, whose setting is left as it is; start numapilot \
         cores again to have the target's cores chosen among these",
        path.display()
    )]
    SetByOthers {
        /// The file.
        path: PathBuf,
        /// What is in it.
        now: String,
    },
    /// A file of a group cannot be used.
    #[error("{what} {}", path.display())]
    File {
        /// The action that failed.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The affinity of a thread cannot be set.
    #[error("the affinity of thread {tid} cannot be set; run as root or as its user")]
    Affinity {
        /// The thread.
        tid: i32,
        /// The cause.
        source: io::Error,
    },
    /// The record of the original state cannot be written or read.
    #[error(transparent)]
    Journal(#[from] SettingsJournalError),
    /// The machine's CPUs cannot be read.
    #[error("the machine's CPUs cannot be read: {0}")]
    Machine(String),
}

//! What can go wrong, each with its remedy.

use std::io;
use std::path::{Path, PathBuf};

use numapilot_place::{DirectoryError, PlaceError};
use thiserror::Error;

/// Why a bench cannot go on.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The engine's files are not there.
    #[error("{engine} is not installed: {cause}; {remedy}")]
    NotInstalled {
        /// Which.
        engine: &'static str,
        /// What was looked for.
        cause: String,
        /// How to get it.
        remedy: String,
    },
    /// Neither XDG_CACHE_HOME nor HOME.
    #[error(
        "there is no directory for databases: neither XDG_CACHE_HOME nor HOME is set; give --cache DIR"
    )]
    NoCache,
    /// A file operation.
    #[error("cannot {doing} {}: {cause}{}", path.display(), hint(cause))]
    File {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// Why it failed.
        cause: io::Error,
    },
    /// Less room than the data takes.
    #[error(
        "{} has {} of free space and {database} needs about {}; free some, give --cache DIR on \
         another file system, or a smaller --scale-factor",
        path.display(), Mib(*free_bytes), Mib(*needed_bytes)
    )]
    NoRoom {
        /// What would be stored.
        database: String,
        /// Where.
        path: PathBuf,
        /// Room there.
        free_bytes: u64,
        /// Room needed.
        needed_bytes: u64,
    },
    /// The database is being loaded or served by another bench, and waiting was ended.
    #[error("interrupted")]
    Interrupted,
    /// The plan cannot be had, or the engine's program cannot be started.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// It ended before it served.
    #[error("{engine} did not start ({status}){}", quoted(said))]
    NotStarted {
        /// Which.
        engine: String,
        /// How it ended.
        status: String,
        /// Its last words.
        said: String,
    },
    /// It was there and is no more.
    #[error("{engine} died in the middle ({status}){}", quoted(said))]
    Died {
        /// Which.
        engine: String,
        /// How it ended.
        status: String,
        /// Its last words.
        said: String,
    },
    /// A statement of our own that it refused: loading, settings.
    #[error("{engine} refused to {doing}: {cause}{}", full(cause))]
    Refused {
        /// Which.
        engine: String,
        /// What was asked.
        doing: String,
        /// What it said.
        cause: String,
    },
    /// Talking to it failed while it lives.
    #[error("the connection to {engine} failed: {cause}")]
    Connection {
        /// Which.
        engine: String,
        /// Why.
        cause: String,
    },
    /// A thread could not be started.
    #[error("cannot start a thread ({0}); raise the limit of processes (ulimit -u)")]
    Thread(io::Error),
    /// A query the data set does not have.
    #[error("{benchmark} has no query {number}; there are 1 to {last}")]
    NoQuery {
        /// Of which benchmark.
        benchmark: &'static str,
        /// Asked for.
        number: u32,
        /// The highest.
        last: u32,
    },
}

impl EngineError {
    /// For `map_err` after a file operation.
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::File { doing, path, cause }
    }
}

impl From<DirectoryError> for EngineError {
    fn from(DirectoryError { doing, path, cause }: DirectoryError) -> Self {
        Self::File { doing, path, cause }
    }
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FREE_SPACE,
        io::ErrorKind::PermissionDenied => "; give --cache DIR that may be written",
        _ => "",
    }
}

const FREE_SPACE: &str = "; free some space, or give --cache DIR on another file system";

/// Whether an engine reports a full disk or a used-up quota: in strerror's words, or, after a
/// write that was cut short, in PostgreSQL's.
pub(crate) fn names_full_disk(said: &str) -> bool {
    ["No space left on device", "Disk quota exceeded", "Check free disk space"]
        .iter()
        .any(|words| said.contains(words))
}

fn full(cause: &str) -> &'static str {
    if names_full_disk(cause) { FREE_SPACE } else { "" }
}

fn quoted(said: &str) -> String {
    match said.trim() {
        "" => String::new(),
        said => format!(", saying: {said}{}", full(said)),
    }
}

struct Mib(u64);

impl std::fmt::Display for Mib {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} MiB", self.0 >> 20)
    }
}

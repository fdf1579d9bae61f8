//! The errors, each with its remedy.

use std::io;
use std::path::{Path, PathBuf};

use numapilot_place::{DirectoryError, PlaceError};
use thiserror::Error;

/// Why a bench cannot continue.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The engine's files are missing.
    #[error("{engine} is not installed: {cause}; {remedy}")]
    NotInstalled {
        /// The engine.
        engine: &'static str,
        /// What was searched for.
        cause: String,
        /// How to install it.
        remedy: String,
    },
    /// Neither XDG_CACHE_HOME nor HOME is set.
    #[error(
        "there is no directory for databases: neither XDG_CACHE_HOME nor HOME is set; give --cache DIR"
    )]
    NoCache,
    /// A file operation failed.
    #[error("cannot {doing} {}: {cause}{}", path.display(), hint(cause))]
    File {
        /// The operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: io::Error,
    },
    /// Too little disk space.
    #[error(
        "{} has {} of free space, but {database} needs about {}; free some, give --cache DIR on \
         another file system, or a smaller --scale-factor",
        path.display(), Mib(*free_bytes), Mib(*needed_bytes)
    )]
    NoRoom {
        /// The database to store.
        database: String,
        /// The directory.
        path: PathBuf,
        /// Free space there.
        free_bytes: u64,
        /// Space needed.
        needed_bytes: u64,
    },
    /// The user interrupted the wait for a database that another bench loads or serves.
    #[error("interrupted")]
    Interrupted,
    /// The plan cannot be applied, or the engine's program cannot be started.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The engine ended before it served.
    #[error("{engine} did not start ({status}){}", quoted(message))]
    NotStarted {
        /// The engine.
        engine: String,
        /// Its exit status.
        status: String,
        /// Its last messages.
        message: String,
    },
    /// The engine ended during the run.
    #[error("{engine} died during the run ({status}){}", quoted(message))]
    Died {
        /// The engine.
        engine: String,
        /// Its exit status.
        status: String,
        /// Its last messages.
        message: String,
    },
    /// The engine refused one of our own statements, for loading or settings.
    #[error("{engine} refused to {doing}: {cause}{}", full(cause))]
    Refused {
        /// The engine.
        engine: String,
        /// The operation.
        doing: String,
        /// The engine's message.
        cause: String,
    },
    /// The connection to a running engine failed.
    #[error("the connection to {engine} failed: {cause}")]
    Connection {
        /// The engine.
        engine: String,
        /// The reason.
        cause: String,
    },
    /// A thread could not be started.
    #[error("cannot start a thread ({0}); raise the limit on processes (ulimit -u)")]
    Thread(io::Error),
    /// The data set has no such query.
    #[error("{benchmark} has no query {number}; there are 1 to {last}")]
    NoQuery {
        /// The benchmark.
        benchmark: &'static str,
        /// The requested number.
        number: u32,
        /// The highest number.
        last: u32,
    },
}

impl EngineError {
    /// Makes an error for `map_err` after a file operation.
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
        io::ErrorKind::PermissionDenied => "; give a --cache DIR that you may write to",
        _ => "",
    }
}

const FREE_SPACE: &str = "; free some space, or give --cache DIR on another file system";

/// Whether an engine reports a full disk or an exceeded quota, in strerror's words, or in
/// PostgreSQL's words after a partial write.
pub(crate) fn names_full_disk(message: &str) -> bool {
    ["No space left on device", "Disk quota exceeded", "Check free disk space"]
        .iter()
        .any(|words| message.contains(words))
}

fn full(cause: &str) -> &'static str {
    if names_full_disk(cause) { FREE_SPACE } else { "" }
}

fn quoted(message: &str) -> String {
    match message.trim() {
        "" => String::new(),
        message => format!(", saying: {message}{}", full(message)),
    }
}

struct Mib(u64);

impl std::fmt::Display for Mib {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} MiB", self.0 >> 20)
    }
}

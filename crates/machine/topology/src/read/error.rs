//! Why a machine could not be read.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a machine could not be read. Every variant names the file.
#[derive(Debug, Error)]
pub enum ReadError {
    /// A file or directory that every Linux kernel shows is not there.
    #[error(
        "{} is missing, where {expected} is expected; \
         mount sysfs and proc there, or make the copy of them complete",
        path.display()
    )]
    Missing {
        /// What was looked for.
        path: PathBuf,
        /// What it should have held.
        expected: &'static str,
    },
    /// A file that is there but cannot be opened or read.
    #[error("{} cannot be read; check its permissions", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file with something else in it than the kernel writes.
    #[error(
        "{} holds {found:?}, where {expected} is expected; \
         if this is a copy of /sys, record it again",
        path.display()
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The beginning of what it holds.
        found: String,
        /// What it should have held.
        expected: &'static str,
    },
    /// A file that contradicts another one.
    #[error(
        "{} cannot be right: {contradiction}; \
         if this is a copy of /sys, record it again",
        path.display()
    )]
    Contradiction {
        /// The file.
        path: PathBuf,
        /// What does not fit together.
        contradiction: String,
    },
}

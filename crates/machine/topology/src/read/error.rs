//! Why a machine could not be read.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::remedy;

/// Why a machine could not be read. Every message names the file.
#[derive(Debug, Error)]
pub enum ReadError {
    /// A file or directory that every Linux kernel shows is missing.
    #[error(
        "{} is missing, where {expected} is expected; \
         mount sysfs and proc there, or make the copy of them complete",
        path.display()
    )]
    Missing {
        /// The path.
        path: PathBuf,
        /// The expected contents.
        expected: &'static str,
    },
    /// A file that exists but cannot be opened or read.
    #[error("{} cannot be read; {}", path.display(), remedy::reading(source))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file whose contents are not what the kernel writes.
    #[error(
        "{} holds {found:?}, where {expected} is expected; \
         if this is a copy of /sys, record it again",
        path.display()
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The beginning of its contents.
        found: String,
        /// The expected contents.
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
        /// The contradiction.
        contradiction: String,
    },
}

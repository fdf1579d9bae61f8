//! Why a setting was not changed.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::Setting;

/// Why a setting was not changed; nothing is left changed.
#[derive(Debug, Error)]
pub enum SettingsJournalError {
    /// No place for the journal.
    #[error(
        "no directory for the journal from which numapilot puts back what it changes: {cause}; set \
         XDG_RUNTIME_DIR to a directory of this user alone (mode 0700), or run as root"
    )]
    NoDirectory {
        /// What is wrong with it.
        cause: String,
    },
    /// A file of the journal cannot be read or written.
    #[error("journal {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The setting cannot be read or written.
    #[error(
        "{setting} cannot be set to {value}, which needs root and a writable /sys and /proc/sys"
    )]
    Setting {
        /// Which.
        setting: Setting,
        /// Asked for.
        value: String,
        /// Why.
        source: io::Error,
    },
    /// Another run holds it at another value.
    #[error("{setting} is held at {held} by run {pid} ({command}); wait for it to end")]
    Held {
        /// Which.
        setting: Setting,
        /// Its value.
        held: String,
        /// By which process.
        pid: u32,
        /// Running what.
        command: String,
    },
    /// Another process changes it from run to run.
    #[error(
        "{setting} is changed again and again by process {pid} ({command}); wait for it to end"
    )]
    Reserved {
        /// Which.
        setting: Setting,
        /// By which process.
        pid: u32,
        /// Running what.
        command: String,
    },
}

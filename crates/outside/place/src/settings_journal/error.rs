//! The errors of changing a setting.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::Setting;

/// Why a setting was not changed. All settings are restored.
#[derive(Debug, Error)]
pub enum SettingsJournalError {
    /// There is no directory for the journal.
    #[error(
        "no directory for the journal from which numapilot restores settings: {cause}; set \
         XDG_RUNTIME_DIR to a directory that only this user can access (mode 0700), or run as \
         root"
    )]
    NoDirectory {
        /// The problem.
        cause: String,
    },
    /// A file of the journal cannot be read or written.
    #[error("journal {}", path.display())]
    File {
        /// The one concerned.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The setting cannot be read or written.
    #[error(
        "{setting} cannot be set to {value}, which needs root and a writable /sys and /proc/sys"
    )]
    Setting {
        /// The one concerned.
        setting: Setting,
        /// The requested value.
        value: String,
        /// The cause.
        source: io::Error,
    },
    /// Another run holds the setting at another value.
    #[error("{setting} is held at {held} by run {pid} ({command}); wait for it to end")]
    Held {
        /// The one concerned.
        setting: Setting,
        /// Its value.
        held: String,
        /// The process.
        pid: u32,
        /// Its command.
        command: String,
    },
    /// Another process changes the setting from run to run.
    #[error(
        "{setting} is changed from run to run by process {pid} ({command}); wait for it to end"
    )]
    Reserved {
        /// The one concerned.
        setting: Setting,
        /// The process.
        pid: u32,
        /// Its command.
        command: String,
    },
}

//! The jobs of process 1, one file each.

pub mod mounts;
pub mod ports;
pub mod power;
pub mod program;
pub mod settings;
pub mod streams;
pub mod terminal;

use std::io;
use std::path::Path;

use numapilot_lab_init::TaskError;
use thiserror::Error;

/// Why the guest could not run its program.
#[derive(Debug, Error)]
pub enum Trouble {
    /// The program did not start.
    #[error("{program}: {source}")]
    Program {
        /// Path of the program.
        program: String,
        /// The error of execve.
        source: io::Error,
    },
    /// A system call on a file or device failed.
    #[error("{what} {path}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The file or device.
        path: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The task is damaged.
    #[error(transparent)]
    Task(#[from] TaskError),
}

impl Trouble {
    /// Adds the operation and its object to an error.
    pub fn at<E: Into<io::Error>>(
        what: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(E) -> Self {
        let path = path.as_ref().display().to_string();
        move |source| Self::System { what, path, source: source.into() }
    }

    /// The errno of starting the program; 0 for other errors.
    pub fn errno_of_program(&self) -> i32 {
        match self {
            Self::Program { source, .. } => source.raw_os_error().unwrap_or(0),
            _ => 0,
        }
    }
}

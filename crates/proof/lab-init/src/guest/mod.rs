//! What process 1 does, one file per job.

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

/// Why the guest did not come to run its program.
#[derive(Debug, Error)]
pub enum Trouble {
    /// The program did not start.
    #[error("{program}: {source}")]
    Program {
        /// Its file.
        program: String,
        /// What execve said.
        source: io::Error,
    },
    /// A system call on a file or device failed.
    #[error("{what} {path}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The task cannot be read.
    #[error(transparent)]
    Task(#[from] TaskError),
}

impl Trouble {
    /// Names what was tried on what.
    pub fn at<E: Into<io::Error>>(
        what: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(E) -> Self {
        let path = path.as_ref().display().to_string();
        move |source| Self::System { what, path, source: source.into() }
    }

    /// The errno of starting the program, 0 for anything else.
    pub fn errno_of_program(&self) -> i32 {
        match self {
            Self::Program { source, .. } => source.raw_os_error().unwrap_or(0),
            _ => 0,
        }
    }
}

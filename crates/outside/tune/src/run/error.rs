//! Why a search ends before its time.

use std::io;

use numapilot_place::PlaceError;
use thiserror::Error;

use crate::evidence::Failure;

/// Why no further run makes sense.
#[derive(Debug, Error)]
pub enum RunError {
    /// The program itself cannot be started.
    #[error(transparent)]
    Start(#[from] PlaceError),
    /// `--prepare` or `--cleanup` failed.
    #[error("{option} '{command}' ended with {status}; nothing can be compared after that. {tail}")]
    Beside {
        /// The option.
        option: &'static str,
        /// The command.
        command: String,
        /// Its status.
        status: std::process::ExitStatus,
        /// The end of its output.
        tail: String,
    },
    /// `--ready` is of no use.
    #[error("--ready '{command}' {what}")]
    Ready {
        /// The command.
        command: String,
        /// Why, with the remedy.
        what: String,
    },
    /// The server does not even start without a plan.
    #[error("{failure}, without any plan{remedy}. {tail}")]
    Server {
        /// How it failed.
        failure: Failure,
        /// The remedy, if the cause is known.
        remedy: &'static str,
        /// The end of the server's output.
        tail: String,
    },
    /// The server has left its process.
    #[error(
        "the server has gone on in the background and its first process has ended, so that it \
         cannot be measured and stopped; {remedy}"
    )]
    Daemonised {
        /// How to keep it in the foreground.
        remedy: &'static str,
    },
    /// The default prints no progress, so no run would ever be cut short.
    #[error(
        "no line that the program prints matches --progress '{expression}'; correct it (it reads \
         one line at a time, and needs a number in its group), or leave it out"
    )]
    NoProgress {
        /// The expression.
        expression: String,
    },
    /// A file or pipe failed.
    #[error("{what}")]
    Io {
        /// The action that failed.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The lab could not run the program.
    #[error("the lab ended without figures. {message}")]
    Lab {
        /// The end of its output.
        message: String,
    },
    /// The guest could not run the server.
    #[error("in the guest, {message}")]
    Guest {
        /// Why, with the remedy.
        message: String,
    },
    /// The user interrupted.
    #[error("interrupted")]
    Interrupted,
}

pub(super) fn io_error(what: &str, source: io::Error) -> RunError {
    RunError::Io { what: what.to_owned(), source }
}

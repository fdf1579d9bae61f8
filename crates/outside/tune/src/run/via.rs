//! One run of a program that a launcher starts elsewhere.
//!
//! The plan is in the command line of the launcher, and this process starts the launcher without a
//! plan. The figures count only if every far end attests that the plan took effect.

use std::ffi::OsString;

use numapilot_place::via::{Missing, RunDirectory, Via};
use numapilot_place::{Plan, Reach};

use super::{RunError, io_error};
use crate::evidence::Failure;

/// Exit statuses of a shell, and of launchers like it, for a program that is missing or cannot be
/// executed.
const NOT_STARTED: [i32; 2] = [126, 127];

/// A run, with its own directory for attestations. The directory is removed when this is dropped.
pub struct FarRun {
    via: Via,
    directory: RunDirectory,
}

impl FarRun {
    /// Makes the directory.
    pub fn begin(via: Via, mark: &str) -> Result<Self, RunError> {
        let directory = via
            .begin_run(mark, false)
            .map_err(|error| io_error("--via", std::io::Error::other(error)))?;
        Ok(Self { via, directory })
    }

    /// The command of the launcher.
    pub fn command(&self, plan: &Plan, command: &[OsString]) -> Result<Vec<OsString>, RunError> {
        let directory = Some(self.directory.path());
        self.via
            .command(plan, Reach::Allowed, &[], directory, true, command)
            .map_err(|error| io_error("--via", std::io::Error::other(error)))
    }

    /// Why the run does not count: the program's own failure, or that of the plan.
    pub fn failure(self, plan: &Plan, failure: Option<Failure>) -> Option<Failure> {
        let attested = self.via.attested(&self.directory);
        let judged = attested.and_then(|attested| self.via.judge(plan, &attested, 1));
        match (judged, failure) {
            // A launcher that fails starts nothing that could attest.
            (Err(Missing::Nothing { .. }), Some(failure)) if !is_not_started(&failure) => {
                Some(failure)
            }
            (Err(missing), _) => {
                // The text of the far ends stays on its line.
                Some(Failure::NotApplied(missing.to_string().replace(char::is_control, " ")))
            }
            (Ok(()), failure) => failure,
        }
    }
}

fn is_not_started(failure: &Failure) -> bool {
    matches!(failure, Failure::Exit(status) if NOT_STARTED.contains(status))
}

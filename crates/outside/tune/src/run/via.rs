//! One run of a program that a launcher starts elsewhere.
//!
//! The plan is in the command line of the launcher, and this process starts the launcher without a
//! plan. The figures count only if every far end attests that the plan took effect.

use std::ffi::OsString;

use numapilot_place::via::{Missing, RunDirectory, Via, judge};
use numapilot_place::{Plan, Reach};

use super::{RunError, io_error};
use crate::evidence::Failure;

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
    pub fn command(&self, plan: &Plan, command: &[OsString]) -> Vec<OsString> {
        self.via.command(plan, Reach::Allowed, &[], Some(self.directory.path()), true, command)
    }

    /// Why the run does not count: the program's own failure, or that of the plan.
    pub fn failure(self, plan: &Plan, failure: Option<Failure>) -> Option<Failure> {
        let judged = self.directory.attested().and_then(|attested| judge(plan, &attested));
        match (judged, failure) {
            // A launcher that fails starts nothing that could attest.
            (Err(Missing::Nothing), Some(failure)) => Some(failure),
            (Err(missing), _) => {
                // The text of the far ends stays on its line.
                Some(Failure::NotApplied(missing.to_string().replace(char::is_control, " ")))
            }
            (Ok(()), failure) => failure,
        }
    }
}

//! One run of a program that a launcher starts elsewhere.
//!
//! The plan is in the command line of the launcher, and this process starts the launcher without a
//! plan. The figures count only if every far end attests that the plan took effect.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use numapilot_place::via::{Missing, Via, judge, read};
use numapilot_place::{Plan, Reach};

use super::{RunError, io_error};
use crate::evidence::Failure;

/// A run, with its own directory for attestations. The directory is removed when this is dropped.
pub struct FarRun {
    via: Via,
    directory: PathBuf,
}

impl FarRun {
    /// Makes the directory, which is named after the run's mark.
    pub fn begin(via: Via, mark: &str) -> Result<Self, RunError> {
        let directory = via.directory.join(mark);
        fs::create_dir_all(&directory)
            .map_err(|error| io_error(&format!("cannot make {}", directory.display()), error))?;
        Ok(Self { via, directory })
    }

    /// The command of the launcher.
    pub fn command(&self, plan: &Plan, command: &[OsString]) -> Vec<OsString> {
        self.via.command(plan, Reach::Allowed, &[], Some(&self.directory), true, command)
    }

    /// Why the run does not count: the program's own failure, or that of the plan.
    pub fn failure(self, plan: &Plan, failure: Option<Failure>) -> Option<Failure> {
        let attested = match read(&self.directory) {
            Ok(attested) => judge(plan, &attested),
            Err(error) => Err(Missing::Other(format!("the attestations cannot be read: {error}"))),
        };
        match (attested, failure) {
            // A launcher that fails starts nothing that could attest.
            (Err(Missing::Nothing), Some(failure)) => Some(failure),
            (Err(missing), _) => Some(Failure::NotApplied(missing.to_string())),
            (Ok(()), failure) => failure,
        }
    }
}

impl Drop for FarRun {
    fn drop(&mut self) {
        // What cannot be removed is small, and no other run reads it.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

//! Where the runs of a file of --parquet were made.

use std::ffi::OsString;

use numapilot_topology::{Machine, StableHash};
use numapilot_trials::Source;
use numapilot_tune::evidence::Goal;

use super::files::{Origin, kernel};

impl Origin<'_> {
    /// This host, or the emulated machine, with the command and the metric.
    pub fn source(&self, metric: &str, goal: Goal) -> Source {
        let here = here(self.machine, self.command, metric, goal);
        match self.lab {
            Some(machine) => here.emulated(machine),
            None => here,
        }
    }
}

/// This host.
pub fn here(machine: &Machine, command: &[OsString], metric: &str, goal: Goal) -> Source {
    Source {
        command: StableHash::of(command.iter().map(|word| word.as_encoded_bytes())).to_string(),
        metric: metric.to_owned(),
        goal,
        ..Source::here(machine, kernel())
    }
}

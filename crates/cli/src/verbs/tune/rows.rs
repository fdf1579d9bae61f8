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
            // Simulated figures do not depend on this host.
            Some(machine) => Source {
                emulated: Some(machine.to_owned()),
                topology: None,
                processor: None,
                kernel: None,
                ..here
            },
            None => here,
        }
    }
}

/// This host.
pub fn here(machine: &Machine, command: &[OsString], metric: &str, goal: Goal) -> Source {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Source {
        host: host.trim().to_owned(),
        topology: Some(machine.topology_hash().to_string()),
        emulated: None,
        processor: machine.processor.clone(),
        kernel: Some(kernel()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: StableHash::of(command.iter().map(|word| word.as_encoded_bytes())).to_string(),
        metric: metric.to_owned(),
        goal,
    }
}

//! Makes the output and the figures of a guest into the run of a program or a server.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::execution::Execution;
use super::guest_server::GuestServer;
use super::{RunError, end_of_output, io_error, tail};
use crate::evidence::{Failure, Remains};

/// The exit status of `numapilot run` for a plan that it cannot apply.
const NOT_APPLIED: Failure = Failure::Exit(125);
/// The region of a report that `numapilot run` begins where its program does.
const PROGRAM: &str = "program";

/// The fields of `lab run --json` that are used.
#[derive(Deserialize)]
struct Figures {
    regions: Vec<Region>,
}

#[derive(Deserialize)]
struct Region {
    name: String,
    simulated_seconds: f64,
}

/// A guest that has run.
pub struct Guest {
    /// The lab's own run. Its output is that of the guest.
    execution: Execution,
    /// Simulated seconds of the program; the reason if there are none.
    simulated: Result<f64, NoSeconds>,
    /// Seconds on the host, divided by the guests that ran at the same time.
    pub seconds: f64,
}

/// The run of a program or a server in a guest.
pub struct GuestRun {
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// The output that has the metric.
    pub text: String,
    /// The output that explains a failure.
    pub explanation: String,
    /// Whether it is a server that has never been ready.
    pub never_started: bool,
    /// What a server left, which was ended and removed in the guest.
    pub remains: Remains,
    /// Simulated seconds that the metric is about; the reason if there are none.
    pub simulated: Result<f64, NoSeconds>,
}

impl Guest {
    /// Reads the figures that the lab has written.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn new(execution: Execution, figures: &Path) -> Result<Self, RunError> {
        let seconds = execution.finished.wall.as_secs_f64();
        let simulated = match fs::read(figures) {
            Ok(text) => simulated_seconds(&text)
                .map_err(|e| io_error("the lab's figures are damaged", e.into()))?
                .ok_or(NoSeconds::NotBegun),
            Err(_) if execution.finished.timed_out => Err(NoSeconds::TimedOut),
            Err(_) => Err(NoSeconds::NoFigures(end_of_output(&tail(&execution.text)))),
        };
        Ok(Self { execution, simulated, seconds })
    }

    /// It, as one of several that ran at the same time.
    pub fn beside(self, guests: f64) -> Self {
        Self { seconds: self.seconds / guests, ..self }
    }

    /// Its run as one of a program.
    pub fn run_of_program(self) -> GuestRun {
        let text = self.execution.text.clone();
        let failure = match self.execution.failure() {
            Some(NOT_APPLIED) => Some(Failure::NotApplied(
                message(&text).unwrap_or("the plan cannot be applied in the guest").to_owned(),
            )),
            failure => failure,
        };
        GuestRun {
            failure,
            explanation: text.clone(),
            text,
            never_started: false,
            remains: Remains::default(),
            simulated: self.simulated,
        }
    }

    /// Its run as one of a server. The time is that of the load.
    pub fn run_of_server(self, clock_rate: f64) -> GuestRun {
        let output = self.execution.text.clone();
        let Some((text, server)) = GuestServer::split(&output) else {
            // Such as a command of --ready that the guest does not have.
            let failure = match (self.execution.failure(), message(&output)) {
                (Some(Failure::Timeout), _) => Failure::Timeout,
                (_, message) => {
                    let cause = message.unwrap_or("the guest has ended before");
                    Failure::NotApplied(format!("the server could not be run: {cause}"))
                }
            };
            return GuestRun {
                failure: Some(failure),
                text: String::new(),
                explanation: output,
                never_started: true,
                remains: Remains::default(),
                simulated: self.simulated,
            };
        };
        let explanation = match server.explanation.is_empty() {
            true => text.to_owned(),
            false => server.explanation,
        };
        // The lab marks the begin of a program only.
        let simulated = match self.simulated {
            Ok(_) | Err(NoSeconds::NotBegun) => Ok(server.seconds / clock_rate),
            Err(none) => Err(none),
        };
        GuestRun {
            failure: server.failure,
            text: text.to_owned(),
            explanation,
            never_started: server.never_started,
            remains: server.remains,
            simulated,
        }
    }
}

/// Why a guest has no simulated seconds of the program.
pub enum NoSeconds {
    /// The program never began.
    NotBegun,
    /// The time limit ended the guest.
    TimedOut,
    /// The lab ended without figures. This is the end of its output.
    NoFigures(String),
}

/// The simulated seconds of the program in the figures of `lab run --json`.
fn simulated_seconds(text: &[u8]) -> serde_json::Result<Option<f64>> {
    let figures: Figures = serde_json::from_slice(text)?;
    let program = figures.regions.into_iter().find(|region| region.name == PROGRAM);
    Ok(program.map(|region| region.simulated_seconds))
}

/// The error message at the end of a program's output.
fn message(text: &str) -> Option<&str> {
    text.lines().rev().find_map(|line| line.strip_prefix("numapilot: error: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_the_programs() {
        let text = br#"{"regions": [{"name": "all", "simulated_seconds": 3.0, "x": 1},
            {"name": "program", "simulated_seconds": 2.5}]}"#;
        assert_eq!(simulated_seconds(text).unwrap(), Some(2.5));
        assert_eq!(simulated_seconds(br#"{"regions": []}"#).unwrap(), None);
        assert!(simulated_seconds(b"{").is_err());
    }

    #[test]
    fn the_reason_is_the_error_message() {
        let text = "x\nnumapilot: error: node 9 does not exist\n";
        assert_eq!(message(text), Some("node 9 does not exist"));
        assert_eq!(message(""), None);
    }
}

//! The papers' tables and figures as experiments: each is a TOML file and a row of the scorecard.
//!
//! ```text
//!  studies/*.toml --Experiment--> cells (factors x levels) --Batch--> trials.jsonl
//!                                                                          |
//!                         paper's value, band, order --Experiment::judge <-+--> verdicts
//! ```
//!
//! A cell is a shell command. The cells run in rounds, in random order within each round, and their
//! numbers come from the JSON that they print. A trial is identified by its command and its round,
//! so experiments that share a command share its trials.

mod bootstrap;
mod catalogue;
mod cells;
mod definition;
mod host;
mod journal;
mod judge;
mod output_parser;
mod quantity;
mod run;
mod schedule;
mod trial;
mod trial_queue;

pub use bootstrap::{Estimate, interval};
pub use catalogue::{named, names};
pub use cells::{Cell, cells};
pub use definition::{
    Claim, DefinitionError, Experiment, HOST, Kind, Level, Metric, PaperValue, Scale, ScaleName,
};
pub use host::{Host, measure as measure_host};
pub use journal::{Journal, JournalError, Past, Record};
pub use judge::{ClaimResult, Judged, Point};
pub use quantity::{At, Quantity, describe};
pub use run::{Batch, Finished, Running, Watcher};
pub use schedule::{Ahead, Schedule};
pub use trial::{Outcome, Trial};

#[cfg(test)]
mod tests {
    use super::Experiment;

    /// Two cells of one factor: `slow` prints twice the seconds of `fast`.
    pub const TINY: &str = r#"
id = "T1"
title = "Slow against fast"
paper = "none"
place = "Table 1"
says = "slow takes twice as long"
differs = "all of it"
machine = "host"
command = "echo '{\"seconds\": {kind}}' # {size}"
picture = "seconds"

[factors]
kind = [["fast", "1.0"], ["slow", "2.0"]]

[scale.smoke]
repetitions = 3
values = { size = "10" }

[metrics.seconds]
field = "seconds"
unit = "s"

[[claims]]
text = "slow over fast"
of = { metric = "seconds", at = { kind = "slow" }, over = { kind = "fast" } }
paper = 2.0
band = [1.5, 2.5]
above = 1.0

[[claims]]
text = "slow, then fast"
order = [{ metric = "seconds", at = { kind = "slow" } }, { metric = "seconds", at = { kind = "fast" } }]

[[claims]]
text = "both"
"#;

    pub fn tiny() -> Experiment {
        Experiment::parse("tiny", TINY).unwrap()
    }

    /// An experiment on an emulated machine; its commands end with the identifier.
    pub fn lab(id: &str, more: &str) -> Experiment {
        let text = TINY.replace("T1", id).replace("{size}", &format!("{{size}} {id}"));
        let text = text.replace("machine = \"host\"", &format!("machine = \"machine-a\"\n{more}"));
        Experiment::parse(id, &text).unwrap()
    }
}

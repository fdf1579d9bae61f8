//! Results on disk: lines of JSON. Each is synced to disk before the next trial starts.

use std::path::{Path, PathBuf};

use numapilot_topology::bounded;
use numapilot_tune::lines::{Lines, LinesError, whole_lines};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::definition::{Experiment, ScaleName};
use super::host::Host;
use super::trial::Trial;

/// Why results cannot be stored or read.
#[derive(Debug, Error)]
pub enum JournalError {
    /// Results cannot be stored or read.
    #[error("{0}; choose another place")]
    Lines(LinesError),
    /// Results cannot be read for a report.
    #[error("{0}; run `numapilot study run` first, or name its file")]
    Unreadable(LinesError),
    /// The file has results already.
    #[error("{} has results already; give --resume to add to them, or another --output", .0.display())]
    Exists(PathBuf),
    /// A line that this version of numapilot does not understand.
    #[error("{}, line {line}, is not a line of results; remove it, or give another file", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line number, counted from 1.
        line: usize,
        /// The parser's error.
        source: serde_json::Error,
    },
}

impl From<LinesError> for JournalError {
    fn from(error: LinesError) -> Self {
        Self::Lines(error)
    }
}

/// The user's umask decides who may read results.
const MODE: u32 = 0o666;
/// Maximum size of a results file: enough for a hundred thousand trials.
const LONGEST: u64 = 256 << 20;

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
    /// The machine on which the following trials run.
    Host(Host),
    /// An experiment; the last one with its identifier and scale counts.
    Experiment {
        /// The scale.
        scale: ScaleName,
        /// The definition, as in its file.
        definition: Box<Experiment>,
    },
    /// A trial.
    Trial(Trial),
}

/// The contents of a results file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    /// The machines, in the order of use.
    pub hosts: Vec<Host>,
    /// The experiments with their scales, in the order of their start.
    pub experiments: Vec<(ScaleName, Experiment)>,
    /// The trials, in order.
    pub trials: Vec<Trial>,
}

impl Past {
    /// Reads results from a file.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn read(path: &Path) -> Result<Self, JournalError> {
        let text = bounded::read_bytes(path, LONGEST)
            .map_err(LinesError::io("read", path))
            .map_err(JournalError::Unreadable)?;
        Self::parse(path, &text).map(|(past, _)| past)
    }

    /// Parses the lines; also returns the length up to the end of the last complete line.
    fn parse(path: &Path, text: &[u8]) -> Result<(Self, usize), JournalError> {
        let mut past = Self::default();
        let (lines, bytes) = whole_lines(text);
        for (line, text) in lines {
            let record = serde_json::from_slice(text).map_err(|source| JournalError::Damaged {
                path: path.to_owned(),
                line,
                source,
            })?;
            past.add(record);
        }
        Ok((past, bytes))
    }

    /// Appends the contents of another file.
    pub fn append(&mut self, other: Self) {
        other.records().into_iter().for_each(|record| self.add(record));
    }

    /// The records with these contents.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        let hosts = self.hosts.iter().cloned().map(Record::Host);
        let experiments = self.experiments.iter().map(|(scale, experiment)| Record::Experiment {
            scale: *scale,
            definition: Box::new(experiment.clone()),
        });
        let trials = self.trials.iter().cloned().map(Record::Trial);
        hosts.chain(experiments).chain(trials).collect()
    }

    /// Adds a record.
    pub fn add(&mut self, record: Record) {
        match record {
            Record::Host(host) => self.hosts.push(host),
            Record::Trial(trial) => self.trials.push(trial),
            Record::Experiment { scale, definition } => {
                let mut known = self.experiments.iter_mut();
                match known.find(|(s, e)| (*s, &e.id) == (scale, &definition.id)) {
                    Some((_, experiment)) => *experiment = *definition,
                    None => self.experiments.push((scale, *definition)),
                }
            }
        }
    }
}

/// The open results file.
#[derive(Debug)]
pub struct Journal {
    lines: Lines,
}

impl Journal {
    /// Opens a results file. Without `resume` it must have no results yet.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(path: &Path, resume: bool) -> Result<(Self, Past), JournalError> {
        let mut lines = Lines::open(path, MODE)?;
        let text = lines.text()?;
        if !text.is_empty() && !resume {
            return Err(JournalError::Exists(path.to_owned()));
        }
        let (past, bytes) = Past::parse(path, &text)?;
        lines.keep(bytes)?;
        Ok((Self { lines }, past))
    }

    /// Appends a line and syncs it to disk.
    ///
    /// # Errors
    /// [`JournalError::Lines`], for example when the disk is full.
    pub fn append(&mut self, record: &Record) -> Result<(), JournalError> {
        Ok(self.lines.append(record)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::experiment::Outcome;

    fn trial(round: u32) -> Record {
        let outcome = Outcome::Failed("exit status 1".to_owned());
        Record::Trial(Trial { command: "false".to_owned(), round, seconds: 0.5, outcome })
    }

    /// Its reader can continue it or make another report of it.
    #[test]
    fn the_published_results_can_be_read() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/results/index.jsonl");
        let past = Past::read(&path).unwrap();
        assert!(past.experiments.len() >= 37 && past.trials.len() >= 1000);
    }

    #[test]
    fn a_line_that_was_cut_short_is_dropped_and_all_others_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/trials.jsonl");
        let (mut journal, past) = Journal::open(&path, false).unwrap();
        assert_eq!(past, Past::default());
        journal.append(&trial(0)).unwrap();
        assert!(matches!(
            Journal::open(&path, true),
            Err(JournalError::Lines(LinesError::InUse(_)))
        ));
        drop(journal);
        let mut text = fs::read_to_string(&path).unwrap();
        let whole = text.len();
        text += "{\"trial\": {\"comm";
        fs::write(&path, &text).unwrap();
        assert!(matches!(Journal::open(&path, false), Err(JournalError::Exists(_))));
        let (mut journal, past) = Journal::open(&path, true).unwrap();
        assert_eq!(past.trials.len(), 1);
        assert_eq!(fs::metadata(&path).unwrap().len(), whole as u64);
        journal.append(&trial(1)).unwrap();
        assert_eq!(Past::read(&path).unwrap().trials[1].round, 1);
        fs::write(&path, "{\"trial\": 3}\n").unwrap();
        assert!(Past::read(&path).unwrap_err().to_string().contains("line 1"));
    }
}

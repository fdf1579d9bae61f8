//! Results on disk: lines of JSON, each forced to the disk before the next trial starts.

use std::path::{Path, PathBuf};

use numapilot_topology::bounded;
use numapilot_tune::lines::{Lines, LinesError, whole_lines};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::definition::{Experiment, ScaleName};
use super::host::Host;
use super::trial::Trial;

/// Why results cannot be kept or read.
#[derive(Debug, Error)]
pub enum JournalError {
    /// They cannot be kept or read.
    #[error("{0}; choose another place")]
    Lines(LinesError),
    /// They cannot be read for a report.
    #[error("{0}; run `numapilot study run` first, or name its file")]
    Unreadable(LinesError),
    /// There are results already.
    #[error("{} has results already; give --resume to add to them, or another --output", .0.display())]
    Exists(PathBuf),
    /// A line that no numapilot of this version wrote.
    #[error("{}, line {line}, is no line of results; remove it, or give another file", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

impl From<LinesError> for JournalError {
    fn from(error: LinesError) -> Self {
        Self::Lines(error)
    }
}

/// Results are for everybody that the user's umask lets read.
const MODE: u32 = 0o666;
/// Bytes that a file of results may have: a hundred thousand trials.
const LONGEST: u64 = 256 << 20;

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
    /// Where what follows was run.
    Host(Host),
    /// What is run; the last one of its id and scale counts.
    Experiment {
        /// How much of it.
        scale: ScaleName,
        /// As its file says.
        definition: Box<Experiment>,
    },
    /// A trial.
    Trial(Trial),
}

/// What results there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    /// Machines, in the order used.
    pub hosts: Vec<Host>,
    /// Experiments with their scales, in the order begun.
    pub experiments: Vec<(ScaleName, Experiment)>,
    /// Trials, in the order made.
    pub trials: Vec<Trial>,
}

impl Past {
    /// Reads results.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn read(path: &Path) -> Result<Self, JournalError> {
        let text = bounded::read_bytes(path, LONGEST)
            .map_err(LinesError::io("read", path))
            .map_err(JournalError::Unreadable)?;
        Self::parse(path, &text).map(|(past, _)| past)
    }

    /// The past, and the bytes up to the end of the last whole line.
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

    /// Adds what another file has.
    pub fn append(&mut self, other: Self) {
        other.records().into_iter().for_each(|record| self.add(record));
    }

    /// The lines that say this.
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

    /// Adds what a line says.
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

/// The open file.
#[derive(Debug)]
pub struct Journal {
    lines: Lines,
}

impl Journal {
    /// Opens a file that has no results, or with `resume` may have some.
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

    /// Appends a line and forces it to the disk.
    ///
    /// # Errors
    /// [`JournalError::Lines`]: the disk is full, for example.
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

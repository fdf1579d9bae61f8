//! The search on disk: one line of JSON for the parameters of the search, and one for each run.
//! Each is flushed to disk before the next run starts.

mod earlier;

use std::fs::File;
use std::path::{Path, PathBuf};

use numapilot_place::Plan;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::decide::Prior;
use crate::evidence::Trial;
pub use crate::journal::earlier::{EarlierSearch, earlier_search};
use crate::lines::{Lines, LinesError, whole_lines};
use crate::run::Written;
use crate::space::{Factor, Level};

/// Name of the file in the state directory.
const FILE: &str = "trials.jsonl";
/// The previous search, if it was not resumed.
const EARLIER: &str = "trials.earlier.jsonl";
/// Names of the files that hold searches, in a state directory.
pub const FILES: [&str; 2] = [FILE, EARLIER];
/// Version of the format.
const VERSION: u32 = 1;
/// The file is private to the user.
const MODE: u32 = 0o600;

/// Why the state on disk cannot be used.
#[derive(Debug, Error)]
pub enum JournalError {
    /// It cannot be written or read.
    #[error("{0}; choose another place with --state DIR")]
    Lines(LinesError),
    /// `--resume` was given, but there is nothing to resume.
    #[error("nothing to resume in {}; leave out --resume to start", .0.display())]
    Nothing(PathBuf),
    /// It belongs to another search.
    #[error(
        "{} belongs to another search: {difference}; repeat the command and options of that \
         search, or leave out --resume to start a new search", path.display()
    )]
    Other {
        /// The file.
        path: PathBuf,
        /// What differs.
        difference: String,
    },
    /// The program has changed since the search began.
    #[error(
        "the program has changed since the search in {} began, so the runs of that search do not \
         count: it was {then}, and is {now}; start a new search without --resume", path.display()
    )]
    Program {
        /// The file.
        path: PathBuf,
        /// The program's file then.
        then: String,
        /// The program's file now.
        now: String,
    },
    /// A line is not valid for this version.
    #[error("{}, line {line}, is damaged; leave out --resume to start a new search", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
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

/// Key of the entry that shows whether the program's file has changed.
pub const PROGRAM: &str = "program";
/// Key of the entry with the words of the command.
pub const COMMAND: &str = "command";
/// Key of the entry with the levels of the space.
pub const FACTORS: &str = "factors";
/// Key of the entry with the plans that the user added.
pub const PLANS: &str = "plans";
/// Key of the entry with the direction of the metric.
pub const GOAL: &str = "goal";
/// Key of the entry with the hash of this host's topology; absent on an emulated machine.
pub const TOPOLOGY: &str = "topology";
/// Key of the entry with the emulated machine: its name, the options of its guests, and its
/// description.
pub const MACHINE: &str = "machine";

/// The parameters of a search. Two searches are the same if these are equal.
pub type Fingerprint = serde_json::Map<String, Value>;

#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    search: Fingerprint,
}

/// One line after the header.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Entry {
    Trial(Trial),
    /// The default's answer to `--check`.
    Answer(String),
    /// The format of the metric's numbers.
    Written(Written),
    /// What was expected before the first run.
    Prior(Prior),
}

/// The open file.
#[derive(Debug)]
pub struct Journal {
    lines: Lines,
}

/// The results of an earlier part of the search.
#[derive(Debug, Default)]
pub struct Past {
    /// Its trials.
    pub trials: Vec<Trial>,
    /// The default's answer.
    pub answer: Option<String>,
    /// The format of the metric's numbers.
    pub written: Written,
    /// What was expected before the first run.
    pub prior: Option<Prior>,
}

impl Journal {
    /// Opens the journal in `directory`, which is created if necessary. The journal is empty, or
    /// with `resume` continues the existing one.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(
        directory: &Path,
        search: &Fingerprint,
        resume: bool,
    ) -> Result<(Self, Past), JournalError> {
        let path = directory.join(FILE);
        if resume && !path.exists() {
            return Err(JournalError::Nothing(path));
        }
        let mut lines = Lines::open(&path, MODE)?;
        let text = lines.text()?;
        if resume {
            let (past, bytes) = read(&text, &path, search)?;
            // Drops a line that was cut short.
            lines.keep(bytes)?;
            return Ok((Self { lines }, past));
        }
        // A header alone, from a search that could not begin, must not replace results.
        if text.iter().filter(|&&byte| byte == b'\n').count() <= 1 {
            lines.keep(0)?;
        } else {
            // Keep the old file: a forgotten flag must not discard hours of measurements.
            std::fs::rename(&path, directory.join(EARLIER))
                .map_err(LinesError::io("set aside", &path))?;
            lines = Lines::open(&path, MODE)?;
        }
        lines.append(&Header { version: VERSION, search: search.clone() })?;
        if let Ok(handle) = File::open(directory) {
            // The rename must survive a crash too; not every file system supports this.
            let _ = handle.sync_all();
        }
        Ok((Self { lines }, Past::default()))
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.lines.path()
    }

    /// Appends a trial and flushes it to disk.
    ///
    /// # Errors
    /// [`JournalError::Lines`], for example if the disk is full.
    pub fn append(&mut self, trial: &Trial) -> Result<(), JournalError> {
        Ok(self.lines.append(&Entry::Trial(trial.clone()))?)
    }

    /// Appends the default's answer to `--check`.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn append_answer(&mut self, answer: &str) -> Result<(), JournalError> {
        Ok(self.lines.append(&Entry::Answer(answer.to_owned()))?)
    }

    /// Appends the format of the metric's numbers.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn append_written(&mut self, written: &Written) -> Result<(), JournalError> {
        Ok(self.lines.append(&Entry::Written(written.clone()))?)
    }

    /// Appends what is expected before the first run, so that a resumed search expects the same.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn append_prior(&mut self, prior: &Prior) -> Result<(), JournalError> {
        Ok(self.lines.append(&Entry::Prior(prior.clone()))?)
    }
}

/// The past trials, and the length up to the end of the last whole line.
fn read(text: &[u8], path: &Path, search: &Fingerprint) -> Result<(Past, usize), JournalError> {
    let mut past = Past::default();
    let (lines, bytes) = whole_lines(text);
    for (line, text) in lines {
        let damaged = |source| JournalError::Damaged { path: path.to_owned(), line, source };
        if line == 1 {
            let header: Header = serde_json::from_slice(text).map_err(damaged)?;
            compare(path, &header, search)?;
        } else {
            match serde_json::from_slice(text).map_err(damaged)? {
                Entry::Trial(trial) => past.trials.push(trial),
                Entry::Answer(answer) => past.answer = Some(answer),
                Entry::Written(written) => past.written = written,
                Entry::Prior(prior) => past.prior = Some(prior),
            }
        }
    }
    match bytes {
        0 => Err(JournalError::Nothing(path.to_owned())),
        _ => Ok((past, bytes)),
    }
}

fn compare(path: &Path, header: &Header, search: &Fingerprint) -> Result<(), JournalError> {
    let other = |difference| JournalError::Other { path: path.to_owned(), difference };
    if header.version != VERSION {
        return Err(other(format!("version {} of the file, not {VERSION}", header.version)));
    }
    let null = Value::Null;
    for key in header.search.keys().chain(search.keys()) {
        let (then, now) =
            (header.search.get(key).unwrap_or(&null), search.get(key).unwrap_or(&null));
        if then != now && key == PROGRAM {
            let (then, now) = (in_words(key, then), in_words(key, now));
            return Err(JournalError::Program { path: path.to_owned(), then, now });
        }
        if then != now {
            let (were, are) = match key.ends_with('s') {
                true => ("were", "are"),
                false => ("was", "is"),
            };
            let (then, now) = (in_words(key, then), in_words(key, now));
            return Err(other(format!("its {key} {were} {then} and {are} now {now}")));
        }
    }
    Ok(())
}

/// Formats a field of a fingerprint for people.
fn in_words(key: &str, value: &Value) -> String {
    let joined = |parts: Vec<String>, sign: &str| match parts.is_empty() {
        true => "none".to_owned(),
        false => parts.join(sign),
    };
    match key {
        FACTORS => {
            if let Ok(factors) = Vec::<Factor>::deserialize(value) {
                let levels = |factor: &Factor| {
                    factor.levels.iter().map(Level::name).collect::<Vec<_>>().join(",")
                };
                let factor = |f: &Factor| format!("{}={}", f.name.name(), levels(f));
                return joined(factors.iter().map(factor).collect(), " ");
            }
        }
        PLANS => {
            if let Ok(plans) = Vec::<Plan>::deserialize(value) {
                return joined(plans.iter().map(Plan::to_string).collect(), "; ");
            }
        }
        COMMAND => {
            if let Ok(words) = Vec::<String>::deserialize(value) {
                return format!("'{}'", words.join(" "));
            }
        }
        _ => {}
    }
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => format!("'{text}'"),
        Value::Array(parts) => joined(parts.iter().map(|part| in_words("", part)).collect(), ", "),
        Value::Object(fields) => {
            let field = |(name, value): (&String, _)| format!("{name} {}", in_words("", value));
            joined(fields.iter().map(field).collect(), ", ")
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests;

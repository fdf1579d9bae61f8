//! The search on disk: one line of JSON for the parameters of the search, and one for each run.
//! Each is flushed to disk before the next run starts.

use std::fs::File;
use std::path::{Path, PathBuf};

use numapilot_place::Plan;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::evidence::Trial;
use crate::lines::{Lines, LinesError, whole_lines};
use crate::run::Written;
use crate::space::{Factor, Level};

/// Name of the file in the state directory.
const FILE: &str = "trials.jsonl";
/// The previous search, if it was not resumed.
const EARLIER: &str = "trials.earlier.jsonl";
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
        "factors" => {
            if let Ok(factors) = Vec::<Factor>::deserialize(value) {
                let levels = |factor: &Factor| {
                    factor.levels.iter().map(Level::name).collect::<Vec<_>>().join(",")
                };
                let factor = |f: &Factor| format!("{}={}", f.name.name(), levels(f));
                return joined(factors.iter().map(factor).collect(), " ");
            }
        }
        "plans" => {
            if let Ok(plans) = Vec::<Plan>::deserialize(value) {
                return joined(plans.iter().map(Plan::to_string).collect(), "; ");
            }
        }
        "command" => {
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
mod tests {
    use super::*;
    use crate::evidence::{Failure, Order, Outcome, Phase, Remains};
    use crate::shape::Candidate;

    fn search(command: &str) -> Fingerprint {
        [("command".to_owned(), command.into())].into_iter().collect()
    }

    fn trials() -> Vec<Trial> {
        let failures = [Failure::Timeout, Failure::Exit(3), Failure::OverLimit("x\n\"y".into())];
        let outcomes = failures.map(Outcome::Failed).into_iter().chain([Outcome::Value(0.1 + 0.2)]);
        (0..)
            .zip(outcomes)
            .map(|(block, outcome)| Trial {
                peak_rss_bytes: Some(1),
                remains: Remains {
                    output: "the end".into(),
                    ended: vec!["sh (1)".into()],
                    ..Remains::default()
                },
                ..Trial::new(
                    Order { phase: Phase::Race, block, candidate: Candidate(7) },
                    1.0 / 3.0,
                    outcome,
                )
            })
            .collect()
    }

    #[test]
    fn what_was_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, past) = Journal::open(folder.path(), &search("a"), false).unwrap();
        assert!(past.trials.is_empty());
        trials().iter().for_each(|t| journal.append(t).unwrap());
        journal.append_answer("42").unwrap();
        drop(journal);
        let (_, past) = Journal::open(folder.path(), &search("a"), true).unwrap();
        assert_eq!(past.trials, trials());
        assert_eq!(past.answer.as_deref(), Some("42"));
    }

    #[test]
    fn a_line_cut_short_loses_that_line_only() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(folder.path(), &search("a"), false).unwrap();
        trials().iter().for_each(|t| journal.append(t).unwrap());
        drop(journal);
        let path = folder.path().join(FILE);
        let text = std::fs::read(&path).unwrap();
        let header = 1 + text.iter().position(|&b| b == b'\n').unwrap();
        for length in header..text.len() {
            std::fs::write(&path, &text[..length]).unwrap();
            let (mut journal, past) = Journal::open(folder.path(), &search("a"), true).unwrap();
            let whole = text[..length].iter().filter(|&&b| b == b'\n').count() - 1;
            assert_eq!(past.trials, trials()[..whole]);
            journal.append(&trials()[0]).unwrap();
            drop(journal);
            let (_, past) = Journal::open(folder.path(), &search("a"), true).unwrap();
            assert_eq!(past.trials.len(), whole + 1);
        }
    }

    #[test]
    fn another_search_is_refused_and_an_earlier_one_kept() {
        let folder = tempfile::tempdir().unwrap();
        let open = |command, resume| Journal::open(folder.path(), &search(command), resume);
        assert!(matches!(open("a", true), Err(JournalError::Nothing(_))));
        let (mut journal, _) = open("a", false).unwrap();
        journal.append(&trials()[0]).unwrap();
        assert!(matches!(open("a", true), Err(JournalError::Lines(LinesError::InUse(_)))));
        drop(journal);
        let error = open("b", true).unwrap_err().to_string();
        assert!(error.contains("its command was 'a' and is now 'b'"), "{error}");
        drop(open("b", false).unwrap());
        // A search without a trial does not replace the one that is kept.
        drop(open("c", false).unwrap());
        let lines =
            |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap().lines().count();
        assert_eq!((lines(EARLIER), lines(FILE)), (2, 1));
    }

    #[test]
    fn what_differs_is_reported_in_words() {
        let factors = serde_json::json!([{"name": "allocator",
            "levels": [{"allocator": "inherit"}, {"allocator": "jemalloc"}]}]);
        assert_eq!(in_words("factors", &factors), "allocator=inherit,jemalloc");
        assert_eq!(in_words("factors", &serde_json::json!([])), "none");
        assert_eq!(in_words("command", &serde_json::json!(["ls", "-l"])), "'ls -l'");
        assert_eq!(in_words("stdin", &serde_json::json!({"bytes": 3})), "bytes 3");
        assert_eq!(in_words("check", &Value::Null), "none");
    }

    #[test]
    fn a_program_that_has_changed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let open = |bytes: u64, resume| {
            let mut search = search("a");
            search.insert(PROGRAM.to_owned(), serde_json::json!({"bytes": bytes}));
            Journal::open(folder.path(), &search, resume)
        };
        drop(open(7, false).unwrap());
        drop(open(7, true).unwrap());
        let error = open(8, true).unwrap_err().to_string();
        for part in ["the program has changed", "7", "8", "start a new search without --resume"] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
    }

    #[test]
    fn damage_is_named() {
        let folder = tempfile::tempdir().unwrap();
        drop(Journal::open(folder.path(), &search("a"), false).unwrap());
        let path = folder.path().join(FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}{{\n")).unwrap();
        let error = Journal::open(folder.path(), &search("a"), true).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}

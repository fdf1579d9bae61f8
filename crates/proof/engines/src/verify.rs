//! Checks answers against the specification's answer if there is one, against those of other
//! engines at the same scale factor, and against the first answer of this run.
//!
//! The answers of every engine are kept beside the databases, so that the second engine is compared
//! with the first.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Answer, Cache, Dataset, Digest, EngineError, Rounding, System};

/// Why a query failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The engine's message.
    Refused(String),
    /// The difference from another answer.
    Wrong(String),
}

/// The answers of one engine to the queries of a data set.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    engine: String,
    #[serde(default)]
    rounding: Rounding,
    answers: BTreeMap<u32, Answer>,
    /// The digest of each answer. Answers that agree share the digest of the first.
    #[serde(default)]
    digests: BTreeMap<u32, Digest>,
}

impl Stored {
    fn digest(&self, number: u32) -> Option<Digest> {
        let digest = self.digests.get(&number).copied();
        digest.or_else(|| Some(self.answers.get(&number)?.digest()))
    }
}

/// The results of the comparisons of a first answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The sources of answers that agree: `reference`, `PostgreSQL 15.18`.
    pub agrees_with: Vec<String>,
}

/// Compares answers.
#[derive(Debug)]
pub struct Verifier {
    dataset: Dataset,
    directory: PathBuf,
    slug: String,
    others: Vec<Stored>,
    /// The first answers of this run.
    ours: Stored,
}

impl Verifier {
    /// A verifier for one run of one engine.
    ///
    /// # Errors
    /// When the directory of answers cannot be read.
    pub fn new(cache: &Cache, dataset: Dataset, system: &dyn System) -> Result<Self, EngineError> {
        let directory = cache.answers(&dataset)?;
        let mut others = Vec::new();
        let entries = fs::read_dir(&directory).map_err(EngineError::file("read", &directory))?;
        for entry in entries {
            let path = entry.map_err(EngineError::file("read", &directory))?.path();
            if path.extension().is_some_and(|end| end == "json") {
                others.push(read(&path)?);
            }
        }
        let (engine, rounding) = (system.title(), system.rounding());
        let ours = Stored { engine, rounding, ..Stored::default() };
        Ok(Self { dataset, directory, slug: system.slug(), others, ours })
    }

    /// Checks an answer. The first answer to a query is compared with all others, and further ones
    /// with the first.
    ///
    /// # Errors
    /// Which answer it differs from, and where.
    pub fn check(&mut self, number: u32, answer: Answer) -> Result<Verdict, String> {
        if let Some(first) = self.ours.answers.get(&number) {
            let difference = answer.differs_from(first, Rounding::None);
            return match difference {
                None => Ok(Verdict::default()),
                Some(difference) => Err(format!("differs from its first answer: {difference}")),
            };
        }
        let mut verdict = Verdict::default();
        let mut digest = None;
        if let Some(reference) = self.dataset.reference(number) {
            let ours = answer.without(reference.left_out);
            if let Some(difference) = ours.differs_from(&reference.answer, Rounding::Printed) {
                return Err(format!("differs from the reference answer: {difference}"));
            }
            verdict.agrees_with.push("reference".to_owned());
        }
        for other in &self.others {
            let Some(theirs) = other.answers.get(&number) else { continue };
            let rounding = self.ours.rounding.max(other.rounding);
            if let Some(difference) = answer.differs_from(theirs, rounding) {
                let (engine, directory) = (&other.engine, self.directory.display());
                return Err(format!(
                    "differs from {engine}'s answer: {difference} (kept in {directory})"
                ));
            }
            // An earlier run of the same engine is checked as well, but does not confirm the
            // answer.
            if other.engine != self.ours.engine {
                verdict.agrees_with.push(other.engine.clone());
            }
            digest = digest.or_else(|| other.digest(number));
        }
        self.ours.digests.insert(number, digest.unwrap_or_else(|| answer.digest()));
        self.ours.answers.insert(number, answer);
        Ok(verdict)
    }

    /// Checks the answer of a query, if there is one.
    ///
    /// # Errors
    /// Why the query does not count.
    pub fn judge(&mut self, number: u32, answer: Result<Answer, String>) -> Result<(), Failure> {
        let answer = answer.map_err(Failure::Refused)?;
        self.check(number, answer).map(drop).map_err(Failure::Wrong)
    }

    /// One digest for the right answers to these queries, the same for every engine. Returns `None`
    /// unless all were answered.
    #[must_use]
    pub fn digest(&self, queries: impl Iterator<Item = u32>) -> Option<Digest> {
        let sum = queries.into_iter().try_fold(0u64, |sum, number| {
            let digest = self.ours.digests.get(&number)?;
            Some(sum.wrapping_mul(31).wrapping_add(digest.0 ^ u64::from(number)))
        });
        sum.map(Digest)
    }

    /// Saves the right answers, to be compared with those of other engines.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn save(self) -> Result<(), EngineError> {
        let Self { directory, slug, ours, .. } = self;
        if ours.answers.is_empty() {
            return Ok(());
        }
        let path = directory.join(format!("{slug}.json"));
        // Another bench may have added answers meanwhile.
        let mut stored = read(&path).unwrap_or_default();
        stored.answers.extend(ours.answers);
        stored.digests.extend(ours.digests);
        let stored = Stored { engine: ours.engine, rounding: ours.rounding, ..stored };
        write(&directory, &path, &stored).map_err(EngineError::file("write", &path))
    }
}

fn read(path: &Path) -> Result<Stored, EngineError> {
    let text = fs::read(path).map_err(EngineError::file("read", path))?;
    let bad = |e: serde_json::Error| {
        std::io::Error::new(std::io::ErrorKind::InvalidData, format!("{e}; remove the file"))
    };
    serde_json::from_slice(&text).map_err(bad).map_err(EngineError::file("parse", path))
}

fn write(directory: &Path, path: &Path, stored: &Stored) -> std::io::Result<()> {
    // Remove what a killed bench left behind while it wrote.
    numapilot_place::remove_stale_in(directory);
    let prefix = numapilot_place::name_prefix("answers")?;
    let mut file = tempfile::Builder::new().prefix(&prefix).tempfile_in(directory)?;
    serde_json::to_writer(&mut file, stored)?;
    file.flush()?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Benchmark;

    fn verifier(directory: &Path, slug: &str, scale: &str) -> Verifier {
        let scale = scale.parse().unwrap();
        let path = directory.join(format!("{slug}.json"));
        let others = fs::read_dir(directory).unwrap().flatten();
        let others = others.map(|e| e.path()).filter(|other| *other != path);
        Verifier {
            dataset: Dataset::open(Benchmark::TpcH, scale).unwrap(),
            directory: directory.to_owned(),
            slug: slug.to_owned(),
            others: others.map(|path| read(&path).unwrap()).collect(),
            ours: Stored { engine: slug.to_uppercase(), ..Stored::default() },
        }
    }

    fn answer(text: &str) -> Answer {
        Answer { rows: vec![vec![Some(text.to_owned())]] }
    }

    #[test]
    fn engines_are_compared_with_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let mut one = verifier(directory.path(), "one", "0.01");
        assert_eq!(one.check(6, answer("12.5")).unwrap(), Verdict::default());
        assert!(
            one.check(6, answer("12.6")).unwrap_err().contains("differs from its first answer")
        );
        let digest = one.digest([6].into_iter());
        assert!(digest.is_some() && one.digest([6, 7].into_iter()).is_none());
        one.save().unwrap();
        let mut two = verifier(directory.path(), "two", "0.01");
        let error = two.check(6, answer("12.6")).unwrap_err();
        assert!(
            error.contains("differs from ONE's answer: row 1, column 1: 12.6 instead of 12.5"),
            "{error}"
        );
        assert_eq!(two.check(6, answer("12.50")).unwrap().agrees_with, ["ONE"]);
        assert_eq!(two.digest([6].into_iter()), digest);
        // An engine that cuts numbers off has a different text and the same digest.
        let mut three = verifier(directory.path(), "three", "0.01");
        three.ours.rounding = Rounding::CutOff;
        assert_eq!(three.check(6, answer("12.4999")).unwrap().agrees_with, ["ONE"]);
        assert_eq!(three.digest([6].into_iter()), digest);
    }

    #[test]
    fn the_reference_answer_counts_where_there_is_one() {
        let directory = tempfile::tempdir().unwrap();
        let mut one = verifier(directory.path(), "one", "1");
        assert!(
            one.check(6, answer("1")).unwrap_err().contains("differs from the reference answer")
        );
        let right = one.check(6, answer("123141078.2283")).unwrap();
        assert_eq!(right.agrees_with, ["reference"]);
    }

    #[test]
    fn a_damaged_file_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.json");
        fs::write(&path, "{").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("x.json") && error.contains("remove"), "{error}");
    }
}

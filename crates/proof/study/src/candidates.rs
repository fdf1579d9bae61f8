//! The allocators under comparison: installed ones, those in a directory, and single libraries.

use std::io;
use std::path::{Path, PathBuf};

use numapilot_place::AllocatorChoice;
use numapilot_place::allocators::{self, FindError, Found, GLIBC};
use thiserror::Error;

/// An allocator under comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Name in tables.
    pub name: String,
    /// The plan's choice for this allocator.
    pub choice: AllocatorChoice,
    /// Path of the library; `None` for the C library.
    pub path: Option<PathBuf>,
    /// Version, if the file name has it.
    pub version: Option<String>,
}

/// Why the candidates cannot be determined.
#[derive(Debug, Error)]
pub enum CandidateError {
    /// A name or path that does not exist.
    #[error(transparent)]
    Find(#[from] FindError),
    /// A directory that cannot be read.
    #[error("--peers {} cannot be read; give a directory of libraries", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A directory without an allocator.
    #[error("--peers {} has no library that exports malloc; build one as lib*.so", .0.display())]
    Empty(PathBuf),
    /// Two libraries have the same name.
    #[error("two allocators are called '{0}'; give one of them another name with NAME=PATH")]
    Twice(String),
}

impl Candidate {
    /// The C library's malloc.
    fn glibc() -> Self {
        let choice = AllocatorChoice::Named(GLIBC.to_owned());
        Self { name: GLIBC.to_owned(), choice, path: None, version: None }
    }

    fn library(name: String, found: Found) -> Self {
        let path = found.path.to_string_lossy().into_owned();
        let choice = AllocatorChoice::Path(path);
        Self { name, choice, version: found.version, path: Some(found.path) }
    }
}

/// The name of a library: from the table, or else the file name without `lib` and `.so`.
fn name(found: &Found) -> String {
    if let Some(known) = found.known {
        return known.name.to_owned();
    }
    let file = found.path.file_name().unwrap_or_default().to_string_lossy();
    let stem = file.split(".so").next().unwrap_or_default();
    stem.strip_prefix("lib").unwrap_or(stem).to_owned()
}

/// All allocators that are found: glibc, those in the directories, and installed ones whose names
/// do not occur in the directories.
///
/// # Errors
/// [`CandidateError`].
pub fn all(peers: &[PathBuf]) -> Result<Vec<Candidate>, CandidateError> {
    let mut all = vec![Candidate::glibc()];
    for directory in peers {
        let found = in_directory(directory)?;
        all.extend(found.into_iter().map(|found| Candidate::library(name(&found), found)));
    }
    for found in allocators::installed() {
        let name = name(&found);
        if all.iter().all(|other| other.name != name) {
            all.push(Candidate::library(name, found));
        }
    }
    unique(all)
}

/// The requested allocators: names, paths, and `NAME=PATH`.
///
/// # Errors
/// [`CandidateError`].
pub fn chosen(names: &[String], peers: &[PathBuf]) -> Result<Vec<Candidate>, CandidateError> {
    let all = all(peers)?;
    let one = |text: &String| -> Result<Candidate, CandidateError> {
        if let Some(known) = all.iter().find(|c| c.name.eq_ignore_ascii_case(text)) {
            return Ok(known.clone());
        }
        let (given, choice) = match text.split_once('=') {
            Some((given, path)) => (Some(given), AllocatorChoice::Path(path.to_owned())),
            None => (None, AllocatorChoice::from(text.clone())),
        };
        let found = allocators::find(&choice)?;
        let candidate = found.map(|found| {
            let name = given.map_or_else(|| name(&found), str::to_owned);
            Candidate::library(name, found)
        });
        Ok(candidate.unwrap_or_else(Candidate::glibc))
    };
    unique(names.iter().map(one).collect::<Result<_, _>>()?)
}

fn in_directory(directory: &Path) -> Result<Vec<Found>, CandidateError> {
    let found = allocators::in_directory(directory)
        .map_err(|source| CandidateError::Directory { path: directory.to_owned(), source })?;
    if found.is_empty() { Err(CandidateError::Empty(directory.to_owned())) } else { Ok(found) }
}

fn unique(all: Vec<Candidate>) -> Result<Vec<Candidate>, CandidateError> {
    for (i, candidate) in all.iter().enumerate() {
        if all[..i].iter().any(|other| other.name == candidate.name) {
            return Err(CandidateError::Twice(candidate.name.clone()));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glibc_is_always_there() {
        let all = all(&[]).unwrap();
        assert_eq!(all[0].name, "glibc");
        let chosen = chosen(&["GLIBC".to_owned()], &[]).unwrap();
        assert_eq!(chosen, [Candidate::glibc()]);
    }

    #[test]
    fn what_is_not_there_is_named() {
        let error = |names: &[&str], peers: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let peers: Vec<PathBuf> = peers.iter().map(PathBuf::from).collect();
            chosen(&names, &peers).unwrap_err().to_string()
        };
        assert!(error(&["nomalloc"], &[]).contains("unknown allocator 'nomalloc'"));
        assert!(error(&["x=/nonexistent.so"], &[]).contains("/nonexistent.so"));
        assert!(error(&[], &["/nonexistent"]).contains("--peers /nonexistent cannot be read"));
        assert!(error(&["glibc", "glibc"], &[]).contains("NAME=PATH"));
        let empty = tempfile::tempdir().unwrap();
        let path = empty.path().to_str().unwrap();
        assert!(error(&[], &[path]).contains("has no library that exports malloc"));
    }
}

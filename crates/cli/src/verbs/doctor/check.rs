//! What a check says: state, what was found, and where it is not all well the cause and
//! the remedy.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// How well a capability works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should.
    Works,
    /// In part, or not for everything.
    Limited,
    /// Not at all.
    Missing,
}

/// One capability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name; scripts may rely on it.
    pub name: String,
    /// How well it works.
    pub state: State,
    /// What was found, in the terms of the kernel.
    pub found: String,
    /// Why it does not work, or not fully.
    pub cause: Option<String>,
    /// What to do about it.
    pub remedy: Option<String>,
    /// Whether `run` and `tune` need it.
    pub essential: bool,
}

impl Check {
    /// It works.
    pub fn works(name: &str, found: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            state: State::Works,
            found: found.into(),
            cause: None,
            remedy: None,
            essential: false,
        }
    }

    /// It works in part.
    pub fn limited(
        name: &str,
        found: impl Into<String>,
        cause: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            state: State::Limited,
            cause: Some(cause.into()),
            remedy: Some(remedy.into()),
            ..Self::works(name, found)
        }
    }

    /// It does not work.
    pub fn missing(
        name: &str,
        found: impl Into<String>,
        cause: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { state: State::Missing, ..Self::limited(name, found, cause, remedy) }
    }

    /// Marks what `run` and `tune` need.
    pub fn essential(self) -> Self {
        Self { essential: true, ..self }
    }
}

/// The files of `/proc` and `/sys`, or of a recorded machine in tests.
pub struct Files {
    root: PathBuf,
}

impl Files {
    /// Files below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The path of a file; `path` without leading slash.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// Trimmed text of a file; `None` when it cannot be read.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    /// A file that holds one number.
    pub fn number<T: std::str::FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// Whether this process could write the file; nothing is written.
    pub fn writable(&self, path: impl AsRef<Path>) -> bool {
        fs::OpenOptions::new().write(true).open(self.path(path)).is_ok()
    }

    /// Names in a directory, sorted; empty when it cannot be read.
    pub fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path(path))
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// A field of `/proc/self/status`.
    pub fn status(&self, field: &str) -> Option<String> {
        self.text("proc/self/status")?
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
            .map(|value| value.trim().to_owned())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A machine recorded as (path, content).
    pub fn recorded(files: &[(&str, &str)]) -> (tempfile::TempDir, Files) {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let files = Files::new(dir.path());
        (dir, files)
    }

    #[test]
    fn a_status_field_is_the_whole_name() {
        let (_dir, files) =
            recorded(&[("proc/self/status", "Cpus_allowed:\tf\nCpus_allowed_list:\t0-3\n")]);
        assert_eq!(files.status("Cpus_allowed").unwrap(), "f");
        assert_eq!(files.status("Cpus_allowed_list").unwrap(), "0-3");
        assert_eq!(files.status("Cpus"), None);
    }
}

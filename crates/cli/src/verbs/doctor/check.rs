//! The result of a check: the state, what was found, and if something is wrong, the cause and the
//! remedy.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// How well a capability works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It works.
    Works,
    /// It works in part, or not for everything.
    Limited,
    /// It does not work.
    Missing,
}

/// One capability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name; scripts may rely on it.
    pub name: String,
    /// How well it works.
    pub state: State,
    /// The finding, in the kernel's terms.
    pub found: String,
    /// Why it does not work, or not fully.
    pub cause: Option<String>,
    /// The remedy.
    pub remedy: Option<String>,
    /// Whether `run` and `tune` need it.
    pub essential: bool,
}

impl Check {
    /// A capability that works.
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

    /// A capability that works in part.
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

    /// A capability that does not work.
    pub fn missing(
        name: &str,
        found: impl Into<String>,
        cause: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { state: State::Missing, ..Self::limited(name, found, cause, remedy) }
    }

    /// Marks a capability that `run` and `tune` need.
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

    /// The full path of a file; `path` has no leading slash.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// The trimmed text of a file; `None` if it cannot be read.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    /// The number in a file.
    pub fn number<T: std::str::FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// Whether this process could write the file; nothing is written.
    pub fn writable(&self, path: impl AsRef<Path>) -> bool {
        fs::OpenOptions::new().write(true).open(self.path(path)).is_ok()
    }

    /// The sorted names in a directory; empty if it cannot be read.
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

    /// A recorded machine, as pairs of path and content.
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

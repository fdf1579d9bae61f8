//! The kernel files of a machine in one text file, to send to someone or to keep as a test.
//!
//! ```text
//!  # two-socket Xeon, recorded on Linux 6.12            comment
//!  sys/devices/system/cpu/online = 0-3                  a file and its text
//!  sys/devices/system/cpu/cpu[0-3]/cache/index0/size = 32K      the same text in four files
//!  sys/devices/system/cpu/cpu7/node1/                   a directory (in /sys: a link)
//!  proc/self/status =                                   text of several lines
//!  | Cpus_allowed_list: 0-3
//!  | Mems_allowed_list: 0
//! ```
//!
//! A recording holds only the files that [`crate::read`] uses. [`Recording::machine`] reads the
//! machine from memory; [`Recording::unpack`] writes the files as the kernel shows them.

mod notation;
mod record;
mod synthesis;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use thiserror::Error;

/// The files of one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Comment lines, without `#`.
    comment: String,
    /// Text by relative path, without the final newline. A path that ends in `/` is a directory.
    entries: BTreeMap<String, String>,
}

/// Why a text is not a recording.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordingError {
    /// Neither a comment, an entry nor a continuation.
    #[error("line {line}: '{found}' is neither 'PATH = TEXT', 'PATH/', '| TEXT' nor '# COMMENT'")]
    Malformed {
        /// Counted from 1.
        line: usize,
        /// Its beginning.
        found: String,
    },
    /// A path that leaves the directory of the recording, or that occurs twice.
    #[error("line {line}: path '{path}' {reason}")]
    BadPath {
        /// Counted from 1.
        line: usize,
        /// The path.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// More files than any machine has.
    #[error("more than {limit} files: this is not the recording of a machine")]
    TooLarge {
        /// Most files that a recording may have.
        limit: usize,
    },
    /// A short text that expands to more than any machine shows.
    #[error(
        "more than {limit} bytes, after expansion of sets such as cpu[0-3]: this is not the \
         recording of a machine"
    )]
    TooLong {
        /// Most bytes that the paths and texts of all files may have together.
        limit: usize,
    },
}

impl Recording {
    /// The files: relative path and text, without the final newline.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        let entries = self.entries.iter().filter(|(path, _)| !path.ends_with('/'));
        entries.map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text of a file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.entries.get(path).map(String::as_str)
    }

    /// Whether the directory exists, as an entry or because an entry lies in it.
    pub(crate) fn has_directory(&self, path: &str) -> bool {
        self.below(path).next().is_some()
    }

    /// Names in a directory, sorted.
    pub(crate) fn names(&self, directory: &str) -> Vec<String> {
        let mut names: Vec<&str> = Vec::new();
        for rest in self.below(directory) {
            let name = rest.split('/').next().unwrap_or(rest);
            // Thousands of files begin with the same name, one after the other.
            if !name.is_empty() && names.last() != Some(&name) {
                names.push(name);
            }
        }
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(str::to_owned).collect()
    }

    /// The part after `directory/` of all paths that begin with it.
    fn below(&self, directory: &str) -> impl Iterator<Item = &str> {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let entries = self.entries.range(prefix.clone()..);
        entries.map_while(move |(path, _)| path.strip_prefix(&prefix))
    }

    /// Puts a comment of one or more lines at the top of the recording.
    #[must_use]
    pub fn with_comment(mut self, comment: &str) -> Self {
        comment.trim_end().clone_into(&mut self.comment);
        self
    }

    /// Writes the files below `directory`.
    ///
    /// # Errors
    /// Errors of the file system. Files written before the error remain.
    pub fn unpack(&self, directory: &Path) -> io::Result<()> {
        // Entries of one directory follow each other.
        let mut made = PathBuf::new();
        for (path, text) in &self.entries {
            let target = directory.join(path);
            let parent = if path.ends_with('/') { Some(target.as_path()) } else { target.parent() };
            if let Some(parent) = parent.filter(|parent| *parent != made) {
                fs::create_dir_all(parent)?;
                made = parent.to_owned();
            }
            if !path.ends_with('/') {
                fs::write(target, format!("{text}\n"))?;
            }
        }
        Ok(())
    }
}

//! Lines of JSON on disk, by one writer at a time. Each line is flushed to disk before the next is
//! written.
//!
//! A process that is killed loses only the line in progress. A line that was cut short by a crash
//! is the last one and has no newline; it is dropped on reading.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use thiserror::Error;

/// Why lines cannot be written or read. The caller knows the remedy.
#[derive(Debug, Error)]
pub enum LinesError {
    /// A file operation failed. The message includes the cause.
    #[error("cannot {what} {}: {cause}", path.display())]
    Io {
        /// The action that failed.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        cause: io::Error,
    },
    /// Another process writes to it.
    #[error("{} is in use by another numapilot until that ends", .0.display())]
    InUse(PathBuf),
}

impl LinesError {
    /// Returns a function that adds an action and a file to an I/O error.
    pub fn io(what: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        move |cause| Self::Io { what, path: path.to_owned(), cause }
    }
}

/// A file that is open and locked.
#[derive(Debug)]
pub struct Lines {
    file: File,
    path: PathBuf,
}

impl Lines {
    /// Opens a file. If necessary, the file is created with this mode, and so is its directory.
    ///
    /// # Errors
    /// [`LinesError`].
    pub fn open(path: &Path, mode: u32) -> Result<Self, LinesError> {
        let io = |what| LinesError::io(what, path);
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent).map_err(io("make the directory of"))?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(mode);
        let file = options.open(path).map_err(io("open"))?;
        if !file.metadata().map_err(io("read"))?.is_file() {
            return Err(io("keep results in")(io::Error::other("it is not a regular file")));
        }
        lock(&file, path)?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the whole file.
    ///
    /// # Errors
    /// [`LinesError::Io`].
    pub fn text(&mut self) -> Result<Vec<u8>, LinesError> {
        let mut text = Vec::new();
        let read = self.file.rewind().and_then(|()| self.file.read_to_end(&mut text));
        read.map_err(LinesError::io("read", &self.path)).map(|_| text)
    }

    /// Truncates the file to `bytes`; lines are then appended after them.
    ///
    /// # Errors
    /// [`LinesError::Io`].
    pub fn keep(&mut self, bytes: usize) -> Result<(), LinesError> {
        let kept = self.file.set_len(bytes as u64);
        let at_end = kept.and_then(|()| self.file.seek(io::SeekFrom::End(0)));
        at_end.map_err(LinesError::io("write", &self.path)).map(|_| ())
    }

    /// Appends a line and flushes it to disk.
    ///
    /// # Errors
    /// [`LinesError::Io`], for example if the disk is full.
    pub fn append(&mut self, line: &impl Serialize) -> Result<(), LinesError> {
        let text = serde_json::to_string(line).map_err(io::Error::from);
        text.and_then(|mut text| {
            text.push('\n');
            self.file.write_all(text.as_bytes())?;
            self.file.sync_data()
        })
        .map_err(LinesError::io("write results to", &self.path))
    }
}

/// The whole lines of a text with their numbers, and the length up to the end of the last one.
pub fn whole_lines(text: &[u8]) -> (impl Iterator<Item = (usize, &[u8])>, usize) {
    let bytes = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let lines = text[..bytes].split(|byte| *byte == b'\n');
    ((1..).zip(lines).filter(|(_, line)| !line.is_empty()), bytes)
}

fn lock(file: &File, path: &Path) -> Result<(), LinesError> {
    // A process that is being started shares the lock until its exec, so try several times.
    for _ in 0..20 {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(20)),
            // The file system has no locks: the user has to avoid two writers.
            _ => return Ok(()),
        }
    }
    Err(LinesError::InUse(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_an_error() {
        let Ok(file) = OpenOptions::new().write(true).open("/dev/full") else {
            println!("skipped: no /dev/full here");
            return;
        };
        let mut lines = Lines { file, path: "/dev/full".into() };
        assert!(lines.append(&1).unwrap_err().to_string().contains("/dev/full"));
        let error = Lines::open(Path::new("/dev/full"), 0o600).unwrap_err();
        assert!(matches!(error, LinesError::Io { what: "keep results in", .. }), "{error}");
    }

    #[test]
    fn a_line_without_its_end_is_not_whole() {
        let all = |text: &'static str| {
            let (lines, bytes) = whole_lines(text.as_bytes());
            (lines.map(|(number, _)| number).collect::<Vec<_>>(), bytes)
        };
        assert_eq!(all("a\n\nb\nc"), (vec![1, 3], 5));
        assert_eq!(all("a"), (vec![], 0));
    }

    #[test]
    fn one_writes_at_a_time_and_what_is_cut_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/lines");
        let mut lines = Lines::open(&path, 0o600).unwrap();
        lines.append(&1).unwrap();
        lines.append(&2).unwrap();
        assert!(matches!(Lines::open(&path, 0o600), Err(LinesError::InUse(_))));
        lines.keep(2).unwrap();
        lines.append(&3).unwrap();
        assert_eq!(lines.text().unwrap(), b"1\n3\n");
    }
}

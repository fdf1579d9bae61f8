//! A figure that a run of numapilot shows to others while it runs, such as how much it has moved.
//!
//! It is in a [shared file](crate::shared_file) of the user. A reader accepts only the file of the
//! user to whom the process belongs, so nobody can write figures for others.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use tempfile::NamedTempFile;

use crate::scratch::{files_of, shared_memory};

/// A sum, which is removed when this is dropped.
#[derive(Debug)]
pub struct Tally(NamedTempFile);

impl Tally {
    /// Begins at zero. `kind` is a part of the name of the file without a hyphen.
    ///
    /// # Errors
    /// As [`shared_memory`].
    pub fn begin(kind: &str) -> io::Result<Self> {
        shared_memory(kind, size_of::<u64>()).map(Self)
    }

    /// Replaces the value.
    ///
    /// # Errors
    /// Those of writing; there is room for it.
    pub fn set(&self, value: u64) -> io::Result<()> {
        self.0.as_file().write_all_at(&value.to_ne_bytes(), 0)
    }

    /// The value that the living process `pid` shows as this kind. `None` if it shows none, or may
    /// not be read.
    #[must_use]
    pub fn of(kind: &str, pid: u32) -> Option<u64> {
        let user = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
        files_of(kind, pid).find_map(|path| read(&path, user))
    }
}

/// Others may write into the directory: a link could lead anywhere, and a FIFO would wait.
fn read(path: &Path, user: u32) -> Option<u64> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let about = file.metadata().ok()?;
    if !about.is_file() || about.uid() != user {
        return None;
    }
    let mut bytes = [0; size_of::<u64>()];
    file.read_exact_at(&mut bytes, 0).ok()?;
    Some(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_figure_is_seen_while_its_process_shows_it() {
        let own = std::process::id();
        let tally = Tally::begin("tallytest").unwrap();
        assert_eq!(Tally::of("tallytest", own), Some(0));
        tally.set(1 << 40).unwrap();
        assert_eq!(Tally::of("tallytest", own), Some(1 << 40));
        assert_eq!(Tally::of("other", own), None);
        assert_eq!(Tally::of("tallytest", std::os::unix::process::parent_id()), None);
        drop(tally);
        assert_eq!(Tally::of("tallytest", own), None);
    }

    #[test]
    fn files_of_others_and_links_are_not_read() {
        let tally = Tally::begin("tallylink").unwrap();
        let path = tally.0.path();
        let user = path.metadata().unwrap().uid();
        assert_eq!(read(path, user), Some(0));
        assert_eq!(read(path, user + 1), None);
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink(path, &link).unwrap();
        assert_eq!(read(&link, user), None);
        fs::write(folder.path().join("short"), "1").unwrap();
        assert_eq!(read(&folder.path().join("short"), user), None);
    }
}

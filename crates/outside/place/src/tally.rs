//! A sum that a run of numapilot shows to others while it runs, such as how much it has moved.
//!
//! It is in a [shared file](crate::shared_file) of the user, with the processes that it is about:
//! numbers of 64 bits, first the sum, then the ID and the start time of each process.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use numapilot_sys::process::start_time;
use numapilot_topology::bounded;
use tempfile::NamedTempFile;

use crate::regular_file;
use crate::scratch::{files_of, shared_file};

/// Longest file that is read: one of 65,535 processes.
const LONGEST: u64 = 1 << 20;

/// An ID and a start time, which no other process has.
pub type Identity = (u32, u64);

/// A sum, which is removed when this is dropped.
#[derive(Debug)]
pub struct Tally(NamedTempFile);

/// The sum of another run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The run.
    pub run: Identity,
    /// The user to whom the file belongs.
    pub user: u32,
    /// The sum.
    pub value: u64,
    /// The processes that it is about. Their descendants are not listed.
    pub targets: BTreeSet<Identity>,
}

impl Tally {
    /// Begins at zero, for these processes. `kind` is a part of the name of the file without a hyphen.
    ///
    /// # Errors
    /// As [`shared_file`].
    pub fn begin(kind: &str, targets: impl IntoIterator<Item = i32>) -> io::Result<Self> {
        let mut bytes = 0_u64.to_ne_bytes().to_vec();
        for pid in targets.into_iter().map(i32::unsigned_abs) {
            // One that has ended needs no mention.
            if let Ok(start) = start_time(pid) {
                bytes
                    .extend([u64::from(pid), start].iter().flat_map(|number| number.to_ne_bytes()));
            }
        }
        let mut file = shared_file(kind)?;
        file.write_all(&bytes)?;
        Ok(Self(file))
    }

    /// Replaces the sum.
    ///
    /// # Errors
    /// Those of writing; there is room for it.
    pub fn set(&self, value: u64) -> io::Result<()> {
        self.0.as_file().write_all_at(&value.to_ne_bytes(), 0)
    }

    /// The sums of this kind of all living processes, except those that may not be read. Any user can
    /// write such a file: whoever reads it must compare its user with that of the processes.
    #[must_use]
    pub fn shown(kind: &str) -> Vec<Shown> {
        files_of(kind).filter_map(|(path, run)| read(&path, run)).collect()
    }
}

fn read(path: &Path, run: Identity) -> Option<Shown> {
    let file = regular_file::open(path).ok()?;
    let user = file.metadata().ok()?.uid();
    let bytes = bounded::read_bytes_of(file, LONGEST).ok()?;
    let (numbers, _) = bytes.as_chunks();
    let mut numbers = numbers.iter().map(|number| u64::from_ne_bytes(*number));
    let value = numbers.next()?;
    let mut targets = BTreeSet::new();
    while let (Some(pid), Some(start)) = (numbers.next(), numbers.next()) {
        targets.insert((u32::try_from(pid).ok()?, start));
    }
    Some(Shown { run, user, value, targets })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_sum_is_seen_while_its_process_shows_it() {
        let own = std::process::id();
        let identity = (own, start_time(own).unwrap());
        let tally = Tally::begin("tallytest", [own.cast_signed(), i32::MAX]).unwrap();
        tally.set(1 << 40).unwrap();
        let user = rustix::process::geteuid().as_raw();
        let targets = BTreeSet::from([identity]);
        let shown = Shown { run: identity, user, value: 1 << 40, targets };
        assert_eq!(Tally::shown("tallytest"), [shown]);
        assert_eq!(Tally::shown("tallyother"), []);
        drop(tally);
        assert_eq!(Tally::shown("tallytest"), []);
    }

    #[test]
    fn links_and_short_files_are_not_read() {
        let tally = Tally::begin("tallylink", []).unwrap();
        let (path, run) = (tally.0.path(), (1, 1));
        assert_eq!(read(path, run).map(|shown| shown.value), Some(0));
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink(path, &link).unwrap();
        assert_eq!(read(&link, run), None);
        fs::write(folder.path().join("short"), "1").unwrap();
        assert_eq!(read(&folder.path().join("short"), run), None);
    }
}

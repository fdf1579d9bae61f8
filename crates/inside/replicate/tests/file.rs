//! Copies of files, and what happens to them when a program writes.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use numapilot_replicate::{Error, FileCopies};

fn open(path: &Path) -> Result<FileCopies, Error> {
    FileCopies::open(&CString::new(path.as_os_str().as_bytes()).unwrap())
}

/// A file in its own directory; `None` where the file system gives no leases.
fn leased(contents: &[u8]) -> Option<(tempfile::TempDir, std::path::PathBuf, FileCopies)> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("table");
    fs::write(&path, contents).unwrap();
    match open(&path) {
        Ok(copies) => Some((directory, path, copies)),
        Err(why @ Error::NoLease { .. }) => {
            println!("skipped: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

#[test]
fn copies_are_what_the_file_is() {
    let contents: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
    let Some((_directory, path, copies)) = leased(&contents) else { return };
    let mut reader = copies.reader().unwrap();
    assert_eq!(reader.read(), Some(&contents[..]));
    // A program that only reads does not end the lease.
    assert_eq!(fs::read(&path).unwrap(), contents);
    assert!(copies.is_current());
    assert_eq!(reader.read(), Some(&contents[..]));
}

#[test]
fn a_writer_waits_until_the_copies_are_gone() {
    let Some((_directory, path, copies)) = leased(b"before") else { return };
    let mut reader = copies.reader().unwrap();
    assert_eq!(reader.read(), Some(&b"before"[..]));
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    assert!(!copies.is_current(), "the file is open for writing, but the copies are current");
    assert_eq!(reader.read(), None);
    // A file that is being written cannot be copied.
    assert_eq!(open(&path).unwrap_err(), Error::Written);
    file.write_all(b"after").unwrap();
    drop(file);
    let again = open(&path).unwrap();
    assert_eq!(again.reader().unwrap().read(), Some(&b"aftere"[..]));
}

#[test]
fn a_file_cut_short_has_no_copies_either() {
    let Some((_directory, path, copies)) = leased(b"before") else { return };
    File::create(&path).unwrap();
    assert_eq!(copies.reader().unwrap().read(), None);
}

#[test]
fn the_lease_ends_with_the_copies() {
    let Some((_directory, path, copies)) = leased(b"before") else { return };
    let twice = open(&path).unwrap();
    drop(copies);
    drop(twice);
    let begun = Instant::now();
    drop(OpenOptions::new().write(true).open(&path).unwrap());
    // A lease holder that does not respond has 45 seconds.
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn what_is_no_file_is_refused() {
    assert_eq!(open(Path::new("/nonexistent")).unwrap_err(), Error::File { errno: libc::ENOENT });
    assert_eq!(open(Path::new("/")).unwrap_err(), Error::NotAFile);
    assert_eq!(open(Path::new("/dev/null")).unwrap_err(), Error::NotAFile);
    let directory = tempfile::tempdir().unwrap();
    let pipe = CString::new(directory.path().join("pipe").as_os_str().as_bytes()).unwrap();
    // SAFETY: the path is a C string.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    // The pipe has no writer; opening it must not wait.
    assert_eq!(FileCopies::open(&pipe).unwrap_err(), Error::NotAFile);
}

#[test]
fn an_empty_file_is_a_file() {
    let Some((_directory, _, copies)) = leased(b"") else { return };
    assert_eq!(copies.reader().unwrap().read(), Some(&b""[..]));
}

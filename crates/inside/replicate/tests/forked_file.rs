//! Copies of files in a forked child. This is a separate program: the child inherits every file
//! that another test has open for writing, and those files could not be copied while it lives.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use numapilot_replicate::{Error, FileCopies};

#[test]
fn a_forked_child_is_not_notified_and_knows_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("table");
    fs::write(&path, b"before").unwrap();
    let copies = match FileCopies::open(&CString::new(path.as_os_str().as_bytes()).unwrap()) {
        Ok(copies) => copies,
        Err(why @ Error::NoLease { .. }) => return println!("skipped: {why}"),
        Err(why) => panic!("{why}"),
    };
    // SAFETY: the child only reads, drops and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let stale = copies.reader().is_ok_and(|mut reader| reader.read().is_none());
        drop(copies);
        // SAFETY: does not return.
        unsafe { libc::_exit(if stale { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: the status outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!(copies.reader().unwrap().read(), Some(&b"before"[..]));
}

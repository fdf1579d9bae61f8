//! Result files: written whole or not at all, also when the disk is full.
//!
//! A regular file is written beside its place and renamed. What is no regular file (a
//! device, a pipe) is written as it is: renaming over `/dev/null` would replace it.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tempfile::NamedTempFile;

/// What happens to a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It is replaced.
    Replace,
    /// It stays, and that is an error.
    Keep,
}

/// Fails when [`put`] would: before hours of measuring instead of after.
///
/// # Errors
/// The file may not be replaced, or its directory cannot be written.
pub fn check(path: &Path, existing: Existing) -> anyhow::Result<()> {
    if path.is_dir() {
        bail!("{} is a directory; give the name of a file", path.display());
    }
    if path.exists() && existing == Existing::Keep {
        bail!("{} exists; give --force to overwrite it, or another name", path.display());
    }
    if !is_special(path) {
        drop(beside(&target(path))?);
    }
    Ok(())
}

/// Writes a text to a file that others may read.
///
/// # Errors
/// As [`check`], and when the disk is full; an older file is as it was then.
pub fn put(path: &Path, text: &str, existing: Existing) -> anyhow::Result<()> {
    check(path, existing)?;
    let what = || format!("cannot write {}", path.display());
    if is_special(path) {
        return std::fs::write(path, text).with_context(what);
    }
    let target = target(path);
    let mut file = beside(&target)?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).with_context(what)?;
    // A temporary file is the owner's alone.
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(readable).with_context(what)?;
    match existing {
        Existing::Replace => file.persist(target),
        Existing::Keep => file.persist_noclobber(target),
    }
    .map(drop)
    .with_context(what)
}

fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|about| !about.is_file())
}

/// What a link leads to: the link itself stays.
fn target(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// A file in the same directory, to be renamed.
fn beside(path: &Path) -> anyhow::Result<NamedTempFile> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    NamedTempFile::new_in(parent)
        .with_context(|| format!("cannot write {}; choose another place", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_replaced_only_when_asked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        put(&path, "one", Existing::Keep).unwrap();
        let error = put(&path, "two", Existing::Keep).unwrap_err().to_string();
        assert!(error.contains("--force"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        put(&path, "two", Existing::Replace).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "something was left over");
    }

    #[test]
    fn a_link_keeps_leading_where_it_led() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, "one").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        put(&link, "two", Existing::Replace).unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "two");
    }

    #[test]
    fn a_device_stays_a_device() {
        put(Path::new("/dev/null"), "x", Existing::Replace).unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
        assert!(put(Path::new("/dev/full"), "x", Existing::Replace).is_err());
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        assert!(check(Path::new("/"), Existing::Replace).is_err());
        assert!(check(Path::new("/nonexistent/x"), Existing::Replace).is_err());
    }
}

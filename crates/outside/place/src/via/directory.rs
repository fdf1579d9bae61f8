//! The directory in which the far ends of one run attest.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::attestation::{Attestation, read};
use super::judge::Missing;
use crate::remove_stale_in;

/// Why a directory for attestations could not be made.
#[derive(Debug, Error)]
#[error(
    "cannot make {} for what the other side attests: {cause}; give --attest DIR, a directory that \
     you can write, on a file system that both sides of the launcher see", path.display()
)]
pub struct DirectoryError {
    path: PathBuf,
    cause: io::Error,
}

/// The directory of one run, so what other runs attest does not count. It is removed when this is
/// dropped, unless it is kept for the user.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    is_kept: bool,
}

impl RunDirectory {
    /// Makes a directory for this user (0700) below `base`, and `base` if it is missing. `mark` is
    /// the [mark](crate::guard::run_mark) of the run.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub(super) fn make(base: &Path, mark: &str, is_kept: bool) -> Result<Self, DirectoryError> {
        // Numapilot removes what has the mark of a dead process as its whole name, as after a kill.
        let name = if is_kept { format!("attest-{mark}") } else { mark.to_owned() };
        let path = base.join(name);
        let made = fs::create_dir_all(base).and_then(|()| {
            if !is_kept {
                remove_stale_in(base);
            }
            DirBuilder::new().mode(0o700).create(&path)
        });
        match made {
            Ok(()) => Ok(Self { path, is_kept }),
            Err(cause) => Err(DirectoryError { path, cause }),
        }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the far ends attest.
    ///
    /// # Errors
    /// [`Missing::Other`] if it cannot be read.
    pub fn attested(&self) -> Result<Vec<Attestation>, Missing> {
        read(&self.path).map_err(|error| Missing::Other(error.to_string()))
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        if !self.is_kept {
            // What cannot be removed is small, and no other run reads it.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::guard::run_mark;

    #[test]
    fn a_run_has_a_directory_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("missing/base");
        let make = |number, is_kept| {
            RunDirectory::make(&base, &run_mark(number).unwrap(), is_kept).unwrap()
        };
        let (one, two, kept) = (make(1, false), make(2, false), make(1, true));
        let mode = fs::metadata(one.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::write(one.path().join("attest-1-x.json"), "{").unwrap();
        assert_eq!(two.attested(), Ok(Vec::new()));
        let error = one.attested().unwrap_err().to_string();
        assert!(error.contains("attest-1-x.json"), "{error}");
        let left = kept.path().to_owned();
        drop((one, two, kept));
        let names: Vec<_> = fs::read_dir(&base).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(names, [left]);
    }

    #[test]
    fn what_a_killed_run_left_is_removed_and_what_is_kept_is_not() {
        let base = tempfile::tempdir().unwrap();
        let mark = run_mark(1).unwrap();
        // The same process with another start time: the last field of its identity.
        let (identity, number) = mark.rsplit_once('-').unwrap();
        let dead = format!("{identity}1-{number}");
        let killed = base.path().join(&dead);
        let kept = base.path().join(format!("attest-{dead}"));
        fs::create_dir(&killed).unwrap();
        fs::create_dir(&kept).unwrap();
        RunDirectory::make(base.path(), &mark, false).unwrap();
        assert!(!killed.exists() && kept.exists());
    }

    #[test]
    fn an_error_names_path_cause_and_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = RunDirectory::make(&file, "mark", false).unwrap_err().to_string();
        let path = file.join("mark").display().to_string();
        for part in [path.as_str(), "File exists", "give --attest DIR"] {
            assert!(error.contains(part), "{error}");
        }
    }
}

//! Where a journal's files are: a directory of this user alone, with a lock.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::JournalError;
use super::entry::{COMPLETE, UNFINISHED};

/// A directory for what has to be put back.
#[derive(Clone, Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// `/run/NAME` for root, `$XDG_RUNTIME_DIR/NAME` for others: both are empty after a boot.
    ///
    /// # Errors
    /// [`JournalError::NoDirectory`] when neither is there.
    pub fn system(name: &str) -> Result<Self, JournalError> {
        let parent = if rustix::process::geteuid().is_root() {
            PathBuf::from("/run")
        } else {
            std::env::var_os("XDG_RUNTIME_DIR")
                .map(PathBuf::from)
                .filter(|d| d.is_absolute())
                .ok_or_else(|| JournalError::NoDirectory {
                    cause: "XDG_RUNTIME_DIR is not set".to_owned(),
                })?
        };
        Ok(Self(parent.join(name)))
    }

    /// A directory of one's own.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes it. It is ours alone: another user's entries would tell root what to write.
    ///
    /// # Errors
    /// [`JournalError::NoDirectory`] where it cannot be made or is not ours alone.
    pub fn make(&self) -> Result<(), JournalError> {
        match DirBuilder::new().mode(0o700).create(&self.0) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => {
                let cause = format!("{}: {e}", self.0.display());
                return Err(JournalError::NoDirectory { cause });
            }
        }
        let found = fs::symlink_metadata(&self.0).map_err(|e| file_error(&self.0, e))?;
        let ours = rustix::process::geteuid().as_raw();
        if !found.is_dir() || found.uid() != ours || found.mode() & 0o077 != 0 {
            return Err(JournalError::NoDirectory {
                cause: format!(
                    "{} is not a directory that belongs to this user alone (mode 0700)",
                    self.0.display()
                ),
            });
        }
        Ok(())
    }

    /// Removes what processes that were killed while they wrote have left: files that are not
    /// complete. To be called with the [lock](Directory::lock), and when the entries of the dead
    /// are gone; an entry that is there may be being written anew by its owner.
    pub fn remove_unfinished(&self) {
        for file in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let path = file.path();
            let is_unfinished = path.extension().is_some_and(|suffix| suffix == UNFINISHED);
            if is_unfinished && !path.with_extension(COMPLETE).exists() {
                // Nothing depends on it: the next time will do.
                let _ = fs::remove_file(&path);
            }
        }
    }

    /// Waits until nobody else has the lock; it is given back when the file is dropped.
    ///
    /// # Errors
    /// [`JournalError::File`].
    pub fn lock(&self) -> Result<File, JournalError> {
        let file = File::open(&self.0).map_err(|e| file_error(&self.0, e))?;
        file.lock().map_err(|e| file_error(&self.0, e))?;
        Ok(file)
    }
}

pub(super) fn file_error(path: &Path, source: io::Error) -> JournalError {
    JournalError::File { path: path.to_owned(), source }
}

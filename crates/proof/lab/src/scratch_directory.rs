//! Scratch directories: the guest's files are put together in one, and packages are unpacked in
//! one.
//!
//! They are the one thing of a lab that has a name. Each is locked as long as it is used:
//! one that is not, its maker was killed, and the next lab removes it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::{LabError, cache_directory};

/// Directory below the cache.
const DIRECTORY: &str = "scratch";

/// A directory that vanishes with this value.
#[derive(Debug)]
pub struct ScratchDirectory {
    path: PathBuf,
    /// Holds the lock.
    _lock: File,
}

impl ScratchDirectory {
    /// Makes one, and removes what killed labs have left.
    pub fn new() -> Result<Self, LabError> {
        let parent = cache_directory()?.join(DIRECTORY);
        fs::create_dir_all(&parent).map_err(LabError::at("make", &parent))?;
        // Between making a directory and locking it nobody may sweep.
        let all = File::open(&parent).map_err(LabError::at("open", &parent))?;
        flock(&all, FlockOperation::LockExclusive).map_err(LabError::at("lock", &parent))?;
        sweep(&parent)?;
        let path = tempfile::Builder::new()
            .prefix("scratch-")
            .tempdir_in(&parent)
            .map_err(LabError::at("make a directory in", &parent))?
            .keep();
        let lock = File::open(&path).map_err(LabError::at("open", &path))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(LabError::at("lock", &path))?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next lab.
        let _ = remove(&self.path);
    }
}

/// Removes the directories that nobody has locked.
fn sweep(parent: &Path) -> Result<(), LabError> {
    for entry in fs::read_dir(parent).map_err(LabError::at("read", parent))? {
        let path = entry.map_err(LabError::at("read", parent))?.path();
        let Ok(directory) = File::open(&path) else { continue };
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            // What a killed lab had started may still be writing there: then the next one does.
            Ok(()) => drop(remove(&path)),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(LabError::at("lock", &path)(error)),
        }
    }
    Ok(())
}

/// Removes a tree, also one with directories that may not be written.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unlocked_is_swept() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join("scratch-left");
        let used = parent.path().join("scratch-used");
        for path in [&left, &used] {
            fs::create_dir_all(path.join("a/b")).unwrap();
        }
        let lock = File::open(&used).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        sweep(parent.path()).unwrap();
        assert!(!left.exists() && used.exists());
        drop(lock);
        sweep(parent.path()).unwrap();
        assert!(!used.exists());
    }
}

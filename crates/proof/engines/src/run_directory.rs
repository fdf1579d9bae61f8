//! The directory where one bench works, in the cache.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::files::{give_directory, make_directory, remove_tree};
use crate::{Cache, EngineError};

/// The directories of benches are in this one of the cache,
const RUNS: &str = "runs";
/// and begin with this.
const RUN: &str = "run-";

/// The directory of one bench: 0700, gone with this value unless it is kept.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    keep: bool,
    _lock: File,
}

impl RunDirectory {
    /// Makes one, and removes what killed benches have left.
    ///
    /// # Errors
    /// What failed.
    pub fn new(cache: &Cache, keep: bool) -> Result<Self, EngineError> {
        let parent = cache.root().join(RUNS);
        make_directory(&parent, 0o755)?;
        let all = File::open(&parent).map_err(EngineError::file("open", &parent))?;
        // Between making a directory and locking it nobody may sweep.
        flock(&all, FlockOperation::LockExclusive)
            .map_err(|e| EngineError::file("lock", &parent)(e.into()))?;
        sweep(&parent)?;
        let path = tempfile::Builder::new()
            .prefix(RUN)
            .tempdir_in(&parent)
            .map_err(EngineError::file("make a directory in", &parent))?
            .keep();
        let lock = File::open(&path).map_err(EngineError::file("open", &path))?;
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(|e| EngineError::file("lock", &path)(e.into()))?;
        Ok(Self { path, keep, _lock: lock })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a path is that of a run, by its name: the directory may be gone.
    pub(crate) fn is_run(path: &Path) -> bool {
        let name = path.file_name().is_some_and(|name| name.as_bytes().starts_with(RUN.as_bytes()));
        name && path.parent().and_then(Path::file_name).is_some_and(|parent| parent == RUNS)
    }

    /// Gives it to the user that a server runs as.
    pub(crate) fn give_to(&self, owner: Option<(u32, u32)>) -> Result<(), EngineError> {
        give_directory(&self.path, owner)
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        if !self.keep {
            // What cannot be removed now is removed by the next bench.
            let _ = remove_tree(&self.path);
        }
    }
}

/// Says in a directory that its bench wanted it kept.
const KEEP: &str = "kept";

impl RunDirectory {
    /// Leaves it where it is when the bench ends, for instance for the server's messages.
    ///
    /// # Errors
    /// When that cannot be noted.
    pub fn mark(&self) -> Result<(), EngineError> {
        if self.keep {
            let note = self.path.join(KEEP);
            File::create(&note).map_err(EngineError::file("make", &note))?;
        }
        Ok(())
    }
}

/// Removes the directories that nobody has locked and nobody wanted kept.
fn sweep(parent: &Path) -> Result<(), EngineError> {
    for entry in fs::read_dir(parent).map_err(EngineError::file("read", parent))? {
        let path = entry.map_err(EngineError::file("read", parent))?.path();
        let Ok(directory) = File::open(&path) else { continue };
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if path.join(KEEP).exists() => {}
            // What cannot be removed now is removed by the next bench.
            Ok(()) => drop(remove_tree(&path)),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(EngineError::file("lock", &path)(error.into())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_directory_vanishes_unless_it_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(directory.path())).unwrap();
        let run = RunDirectory::new(&cache, false).unwrap();
        let kept = RunDirectory::new(&cache, true).unwrap();
        kept.mark().unwrap();
        let (gone, stays) = (run.path().to_owned(), kept.path().to_owned());
        drop((run, kept));
        // As if the bench had been killed.
        let left = cache.root().join("runs/run-left");
        fs::create_dir(&left).unwrap();
        let other = RunDirectory::new(&cache, false).unwrap();
        assert!(!gone.exists() && !left.exists());
        assert!(stays.exists() && other.path().exists());
    }
}

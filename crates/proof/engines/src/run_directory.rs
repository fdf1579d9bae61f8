//! The directory where one bench works, in the cache.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use numapilot_place::LockedDirectory;

use crate::files::give_directory;
use crate::{Cache, EngineError};

/// The subdirectory of the cache with the directories of benches.
const RUNS: &str = "runs";
/// The start of their names.
const RUN: &str = "run-";

/// The directory of one bench: 0700, removed when this value is dropped unless it is kept.
#[derive(Debug)]
pub struct RunDirectory(LockedDirectory);

impl RunDirectory {
    /// Makes a directory, and removes those of killed benches. With `keep`, it stays after the
    /// bench, for example for the server's messages.
    ///
    /// # Errors
    /// [`EngineError::File`].
    pub fn new(cache: &Cache, keep: bool) -> Result<Self, EngineError> {
        let mut directory = LockedDirectory::new(&cache.root().join(RUNS), RUN)?;
        if keep {
            directory.keep()?;
        }
        Ok(Self(directory))
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Whether a path is that of a run, by its name: the directory may be gone.
    pub(crate) fn is_run(path: &Path) -> bool {
        let name = path.file_name().is_some_and(|name| name.as_bytes().starts_with(RUN.as_bytes()));
        name && path.parent().and_then(Path::file_name).is_some_and(|parent| parent == RUNS)
    }

    /// Makes the user that a server runs as the directory's owner.
    pub(crate) fn give_to(&self, owner: Option<(u32, u32)>) -> Result<(), EngineError> {
        give_directory(self.path(), owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_directory_is_removed_unless_it_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(directory.path())).unwrap();
        let paths = [false, true].map(|keep| {
            let run = RunDirectory::new(&cache, keep).unwrap();
            assert!(RunDirectory::is_run(run.path()));
            run.path().to_owned()
        });
        assert_eq!(paths.map(|path| path.exists()), [false, true]);
    }
}

//! Databases in the cache, loaded when they are first requested.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use numapilot_place::remove_tree;
use rustix::fs::{FlockOperation, flock, statvfs};

use crate::cache::{LOADING, LOCK};
use crate::files::{lock, make_directory, with_suffix};
use crate::{Cache, Dataset, EngineError, RunDirectory, Step, System};

/// A loaded database, which is locked for as long as this value lives.
#[derive(Debug)]
pub struct Database {
    /// Its directory.
    pub path: PathBuf,
    _lock: File,
}

impl Cache {
    /// The directory of the answers to a data set's queries.
    pub(crate) fn answers(&self, dataset: &Dataset) -> Result<PathBuf, EngineError> {
        let path = self.root().join(dataset.name()).join("answers");
        make_directory(&path, 0o755)?;
        Ok(path)
    }

    /// The data set in this system. Loads it first if necessary, and reports progress through
    /// `say`. `stop` ends waiting for another bench.
    ///
    /// # Errors
    /// Too little space, an error while loading, or [`EngineError::Interrupted`].
    pub fn database(
        &self,
        system: &dyn System,
        dataset: &Dataset,
        run: &RunDirectory,
        say: &mut dyn FnMut(Step),
        stop: &AtomicBool,
    ) -> Result<Database, EngineError> {
        let parent = self.root().join(dataset.name());
        make_directory(&parent, 0o755)?;
        let path = parent.join(system.slug());
        let lock = lock(&with_suffix(&path, LOCK), say, stop)?;
        if !path.exists() {
            let loading = with_suffix(&path, &format!(".{LOADING}"));
            // This bench holds the lock, so the bench that was loading was killed.
            remove_tree(&loading).map_err(EngineError::file("remove", &loading))?;
            let needed_bytes = system.stored_bytes(dataset);
            self.check_room(&path, needed_bytes)?;
            say(Step::Notice(format!(
                "loading {} into {}: about {} MiB in {}",
                dataset.name(),
                system.title(),
                needed_bytes.div_ceil(1 << 20),
                path.display()
            )));
            make_directory(&loading, 0o700)?;
            let loaded = system.load(dataset, &loading, run, say, stop).and_then(|()| {
                let is_synced = File::open(&loading).and_then(|directory| directory.sync_all());
                is_synced.map_err(EngineError::file("sync", &loading))?;
                fs::rename(&loading, &path).map_err(EngineError::file("rename", &loading))
            });
            if let Err(error) = loaded {
                // Report the error rather than a failure to remove; the next bench tries to remove
                // again.
                let _ = remove_tree(&loading);
                return Err(error);
            }
        }
        if system.shares_databases() {
            flock(&lock, FlockOperation::LockShared)
                .map_err(|e| EngineError::file("lock", &path)(e.into()))?;
        }
        Ok(Database { path, _lock: lock })
    }

    fn check_room(&self, path: &Path, needed_bytes: u64) -> Result<(), EngineError> {
        let room = statvfs(self.root())
            .map_err(|e| EngineError::file("inspect the file system of", self.root())(e.into()))?;
        let free_bytes = room.f_bavail.saturating_mul(room.f_frsize);
        if free_bytes >= needed_bytes {
            return Ok(());
        }
        let database = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Err(EngineError::NoRoom {
            database,
            path: self.root().to_owned(),
            free_bytes,
            needed_bytes,
        })
    }
}

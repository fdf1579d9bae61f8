//! Databases in the cache, loaded when they are first asked for.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use numapilot_place::remove_tree;
use rustix::fs::{FlockOperation, flock, statvfs};

use crate::cache::{LOADING, LOCK};
use crate::files::{lock, make_directory, with_suffix};
use crate::{Cache, Dataset, EngineError, RunDirectory, Step, System};

/// A loaded database, locked as long as this value lives.
#[derive(Debug)]
pub struct Database {
    /// Its directory.
    pub path: PathBuf,
    _lock: File,
}

impl Cache {
    /// Where the answers to a data set's queries are.
    pub(crate) fn answers(&self, dataset: &Dataset) -> Result<PathBuf, EngineError> {
        let path = self.root().join(dataset.name()).join("answers");
        make_directory(&path, 0o755)?;
        Ok(path)
    }

    /// The data set in this system, loaded if it is not there yet. `say` is told what is being
    /// done; `stop` ends waiting for another bench.
    ///
    /// # Errors
    /// Too little room, what loading says, or [`EngineError::Interrupted`].
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
            // We hold the lock: whoever was loading has been killed.
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
                // The error matters more than what could not be removed; the next bench tries.
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
            .map_err(|e| EngineError::file("look at the file system of", self.root())(e.into()))?;
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

//! Where databases are kept between benches, and where a bench works.
//!
//! ```text
//!  CACHE/tpch-sf1/postgresql-15/     a loaded database; appears by a rename when it is whole
//!  CACHE/tpch-sf1/postgresql-15.lock held while it is loaded or used
//!  CACHE/tpch-sf1/answers/           what each engine answered
//!  CACHE/runs/run-XXXXXX/            sockets, messages, spill files of one bench
//! ```
//!
//! A run directory is locked as long as it is used: one that is not, its bench was killed, and
//! the next one removes it. A database that was being loaded then is removed likewise: it has
//! `.loading` at the end of its name, and nobody has locked it.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock, statvfs};
use rustix::io::Errno;

use crate::{Dataset, EngineError, Step, System};

/// The directories of benches are in this one of the cache,
const RUNS: &str = "runs";
/// and begin with this.
const RUN: &str = "run-";

/// At the end of the name of a database's lock.
const LOCK: &str = ".lock";
/// Extension of a database that is being loaded.
const LOADING: &str = "loading";

/// Between two looks at a lock that another bench holds.
const PATIENCE: Duration = Duration::from_millis(100);
/// For programs that a killed bench had started to end.
const ENDING: Duration = Duration::from_secs(10);
/// For root, because a server's unprivileged user cannot enter root's home.
const SYSTEM_CACHE: &str = "/var/cache";

/// The directory of databases.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

/// A loaded database, locked as long as this value lives.
#[derive(Debug)]
pub struct Database {
    /// Its directory.
    pub path: PathBuf,
    _lock: File,
}

impl Cache {
    /// `directory`, or `$XDG_CACHE_HOME/numapilot/engines`, by default
    /// `~/.cache/numapilot/engines`; for root `/var/cache/numapilot/engines`.
    ///
    /// # Errors
    /// [`EngineError::NoCache`], or why it cannot be made.
    pub fn open(directory: Option<&Path>) -> Result<Self, EngineError> {
        let root = match directory {
            Some(directory) => {
                std::path::absolute(directory).map_err(EngineError::file("resolve", directory))?
            }
            None => usual_root().ok_or(EngineError::NoCache)?,
        };
        make_directory(&root, 0o755)?;
        let cache = Self { root };
        cache.remove_half_loaded();
        Ok(cache)
    }

    /// Where it is.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the answers to a data set's queries are.
    pub(crate) fn answers(&self, dataset: &Dataset) -> Result<PathBuf, EngineError> {
        let path = self.root.join(dataset.name()).join("answers");
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
        let parent = self.root.join(dataset.name());
        make_directory(&parent, 0o755)?;
        let path = parent.join(system.slug());
        let lock = lock(&added(&path, LOCK), say, stop)?;
        if !path.exists() {
            let loading = added(&path, &format!(".{LOADING}"));
            // We hold the lock: whoever was loading has been killed.
            remove(&loading).map_err(EngineError::file("remove", &loading))?;
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
                let _ = remove(&loading);
                return Err(error);
            }
        }
        if system.shares_databases() {
            flock(&lock, FlockOperation::LockShared)
                .map_err(|e| EngineError::file("lock", &path)(e.into()))?;
        }
        Ok(Database { path, _lock: lock })
    }

    /// Removes databases whose loading was killed. What cannot be removed now is removed by the
    /// next bench.
    fn remove_half_loaded(&self) {
        let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
        for entry in entries(&self.root).flat_map(|dataset| entries(&dataset.path())) {
            let path = entry.path();
            if path.extension().is_none_or(|end| end != LOADING) {
                continue;
            }
            let locked = File::open(added(&path.with_extension(""), LOCK)).and_then(|file| {
                flock(&file, FlockOperation::NonBlockingLockExclusive)?;
                Ok(file)
            });
            if let Ok(_lock) = locked {
                let _ = remove(&path);
            }
        }
    }

    fn check_room(&self, path: &Path, needed_bytes: u64) -> Result<(), EngineError> {
        let room = statvfs(&self.root)
            .map_err(|e| EngineError::file("look at the file system of", &self.root)(e.into()))?;
        let free_bytes = room.f_bavail.saturating_mul(room.f_frsize);
        if free_bytes >= needed_bytes {
            return Ok(());
        }
        let database = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Err(EngineError::NoRoom { database, path: self.root.clone(), free_bytes, needed_bytes })
    }
}

fn usual_root() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let parent = absolute("XDG_CACHE_HOME").or_else(|| {
        if rustix::process::geteuid().is_root() {
            return Some(PathBuf::from(SYSTEM_CACHE));
        }
        Some(absolute("HOME")?.join(".cache"))
    })?;
    Some(parent.join("numapilot/engines"))
}

/// Locks a file for this bench alone, waiting for another one.
fn lock(path: &Path, say: &mut dyn FnMut(Step), stop: &AtomicBool) -> Result<File, EngineError> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .map_err(EngineError::file("open", path))?;
    let mut waits = false;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) if stop.load(Ordering::Relaxed) => {
                return Err(EngineError::Interrupted);
            }
            Err(Errno::WOULDBLOCK) => {
                if !waits {
                    say(Step::Notice(format!(
                        "waiting for another bench that uses {}",
                        path.display()
                    )));
                    waits = true;
                }
                thread::sleep(PATIENCE);
            }
            Err(error) => return Err(EngineError::file("lock", path)(error.into())),
        }
    }
}

/// A path with more at the end of its name.
fn added(path: &Path, end: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(end);
    path.into()
}

fn make_directory(path: &Path, mode: u32) -> Result<(), EngineError> {
    let made = DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(EngineError::file("make", path))
}

/// Removes a tree, if it is there. What a killed bench had started may be writing there while it
/// ends: then this waits for it.
fn remove(path: &Path) -> io::Result<()> {
    let deadline = Instant::now() + ENDING;
    loop {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error)
                if error.kind() == io::ErrorKind::DirectoryNotEmpty
                    && Instant::now() < deadline =>
            {
                thread::sleep(PATIENCE);
            }
            result => return result,
        }
    }
}

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
        let parent = cache.root.join(RUNS);
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
    pub(crate) fn is_one(path: &Path) -> bool {
        let name = path.file_name().is_some_and(|name| name.as_bytes().starts_with(RUN.as_bytes()));
        name && path.parent().and_then(Path::file_name).is_some_and(|parent| parent == RUNS)
    }

    /// Gives it to the user that a server runs as.
    pub(crate) fn give(&self, owner: Option<(u32, u32)>) -> Result<(), EngineError> {
        give(&self.path, owner)
    }
}

/// Makes `owner` (user and group) own a directory.
pub(crate) fn give(path: &Path, owner: Option<(u32, u32)>) -> Result<(), EngineError> {
    let Some((user, group)) = owner else { return Ok(()) };
    chown(path, Some(user), Some(group)).map_err(EngineError::file("give away", path))
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        if !self.keep {
            // What cannot be removed now is removed by the next bench.
            let _ = remove(&self.path);
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
            Ok(()) => drop(remove(&path)),
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

    #[test]
    fn what_is_half_loaded_goes_unless_it_is_being_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join("tpch-sf1").join(name);
        let [left, used] = ["a-1.5", "b-2"].map(|name| path(&format!("{name}.loading")));
        for path in [&left, &used] {
            fs::create_dir_all(path.join("base")).unwrap();
        }
        fs::write(path("a-1.5.lock"), "").unwrap();
        let stop = AtomicBool::new(false);
        let held = lock(&path("b-2.lock"), &mut drop, &stop).unwrap();
        Cache::open(Some(directory.path())).unwrap();
        assert!(!left.exists() && used.exists());
        drop(held);
        Cache::open(Some(directory.path())).unwrap();
        assert!(!used.exists());
    }

    #[test]
    fn waiting_for_a_lock_is_said_and_can_be_ended() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.lock");
        let stop = AtomicBool::new(false);
        let mut said = Vec::new();
        let held = lock(&path, &mut |step| said.push(step), &stop).unwrap();
        assert!(said.is_empty());
        let mut say = |step| {
            stop.store(true, Ordering::Relaxed);
            said.push(step);
        };
        let error = lock(&path, &mut say, &stop).unwrap_err();
        assert!(matches!(error, EngineError::Interrupted));
        assert!(matches!(&said[0], Step::Notice(text) if text.contains("waiting")), "{said:?}");
        drop(held);
        lock(&path, &mut |_| {}, &stop).unwrap();
    }
}

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
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use numapilot_place::remove_tree;
use rustix::fs::{FlockOperation, flock};

use crate::EngineError;
use crate::files::{make_directory, with_suffix};

/// At the end of the name of a database's lock.
pub const LOCK: &str = ".lock";
/// Extension of a database that is being loaded.
pub const LOADING: &str = "loading";
/// For root, because a server's unprivileged user cannot enter root's home.
const SYSTEM_CACHE: &str = "/var/cache";

/// The directory of databases.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
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

    /// Removes databases whose loading was killed. What cannot be removed now is removed by the
    /// next bench.
    fn remove_half_loaded(&self) {
        let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
        for entry in entries(&self.root).flat_map(|dataset| entries(&dataset.path())) {
            let path = entry.path();
            if path.extension().is_none_or(|end| end != LOADING) {
                continue;
            }
            let locked = File::open(with_suffix(&path.with_extension(""), LOCK)).and_then(|file| {
                flock(&file, FlockOperation::NonBlockingLockExclusive)?;
                Ok(file)
            });
            if let Ok(_lock) = locked {
                let _ = remove_tree(&path);
            }
        }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::files::lock;

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
}

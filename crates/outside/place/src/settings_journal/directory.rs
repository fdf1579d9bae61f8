//! The directory of a journal: only this user can access it, and it has a lock.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::SettingsJournalError;
use super::entry::{COMPLETE, UNFINISHED, boot};

/// Time limit for the lock, which other processes hold for milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(1);

/// A directory for journal entries.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    /// Whether missing parent directories are created.
    makes_parents: bool,
}

impl Directory {
    /// `/run/NAME` for root. For other users it is below `$XDG_RUNTIME_DIR`, else below
    /// `/run/user/UID`, else in a directory of this boot below their home directory. So it is
    /// always empty after a boot.
    ///
    /// # Errors
    /// [`SettingsJournalError::NoDirectory`] if none of them exists.
    pub fn system(name: &str) -> Result<Self, SettingsJournalError> {
        let uid = rustix::process::geteuid();
        if uid.is_root() {
            return Ok(Self::at(Path::new("/run").join(name)));
        }
        let no_boot = |e| file_error(Path::new("/proc/sys/kernel/random/boot_id"), e);
        let variable = |name| std::env::var_os(name).map(PathBuf::from);
        let places = Places {
            uid: uid.as_raw(),
            runtime: variable("XDG_RUNTIME_DIR").filter(|path| path.is_absolute()),
            run_user: PathBuf::from(format!("/run/user/{}", uid.as_raw())),
            home: variable("HOME").filter(|path| path.is_absolute()),
            boot: boot().map_err(no_boot)?,
        };
        places.directory(name)
    }

    /// A directory at this path.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path, makes_parents: false }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates it. No other user may write into it, because entries of another user would make root
    /// write settings.
    ///
    /// # Errors
    /// [`SettingsJournalError::NoDirectory`] if it cannot be created or other users can access it.
    pub fn make(&self) -> Result<(), SettingsJournalError> {
        if let (true, Some(parent)) = (self.makes_parents, self.path.parent()) {
            DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(|e| {
                SettingsJournalError::NoDirectory { cause: format!("{}: {e}", parent.display()) }
            })?;
        }
        match DirBuilder::new().mode(0o700).create(&self.path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => {
                let cause = format!("{}: {e}", self.path.display());
                return Err(SettingsJournalError::NoDirectory { cause });
            }
        }
        let found = fs::symlink_metadata(&self.path).map_err(|e| file_error(&self.path, e))?;
        let ours = rustix::process::geteuid().as_raw();
        if !found.is_dir() || found.uid() != ours || found.mode() & 0o077 != 0 {
            return Err(SettingsJournalError::NoDirectory {
                cause: format!(
                    "{} is not a directory that belongs to this user alone (mode 0700)",
                    self.path.display()
                ),
            });
        }
        Ok(())
    }

    /// Removes the incomplete files of processes that were killed while they wrote. The caller must
    /// hold the [lock](Directory::lock) and have settled the entries of dead processes. The owner
    /// of a remaining entry may be rewriting it.
    pub fn remove_unfinished(&self) {
        for file in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = file.path();
            let is_unfinished = path.extension().is_some_and(|suffix| suffix == UNFINISHED);
            if is_unfinished && !path.with_extension(COMPLETE).exists() {
                // An error is ignored: the next call tries again.
                let _ = fs::remove_file(&path);
            }
        }
    }

    /// Waits for the lock. It is released when the file is dropped.
    ///
    /// # Errors
    /// [`SettingsJournalError::File`], also if another process holds the lock for a minute.
    pub fn lock(&self) -> Result<File, SettingsJournalError> {
        self.lock_within(PATIENCE).map_err(|e| file_error(&self.path, e))
    }

    fn lock_within(&self, limit: Duration) -> io::Result<File> {
        let file = File::open(&self.path)?;
        let deadline = Instant::now() + limit;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => sleep(PAUSE),
                Err(TryLockError::WouldBlock) => {
                    let text = format!(
                        "another process has held its lock for {} seconds; find it with lslocks, and \
                         continue or end it",
                        limit.as_secs()
                    );
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

/// The places for a user's directories.
struct Places {
    uid: u32,
    /// `$XDG_RUNTIME_DIR`.
    runtime: Option<PathBuf>,
    /// The directory that systemd and others create for a session.
    run_user: PathBuf,
    home: Option<PathBuf>,
    boot: String,
}

impl Places {
    /// Chooses a place in which other users cannot have created the directory.
    fn directory(&self, name: &str) -> Result<Directory, SettingsJournalError> {
        if let Some(runtime) = &self.runtime {
            return Ok(Directory::at(runtime.join(name)));
        }
        if self.is_own(&self.run_user) {
            return Ok(Directory::at(self.run_user.join(name)));
        }
        match self.home.as_ref().filter(|home| self.is_own(home)) {
            Some(home) => {
                // Hosts may share a home directory, and each has its own boot id.
                let path = home.join(".local/state/numapilot/run").join(&self.boot).join(name);
                Ok(Directory { path, makes_parents: true })
            }
            None => Err(SettingsJournalError::NoDirectory {
                cause: "XDG_RUNTIME_DIR is not set, and this user has neither a directory in \
                        /run/user nor a home directory"
                    .to_owned(),
            }),
        }
    }

    /// Whether it is a directory of this user into which no other user can write.
    fn is_own(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|found| {
            found.is_dir() && found.uid() == self.uid && found.mode() & 0o022 == 0
        })
    }
}

pub(super) fn file_error(path: &Path, source: io::Error) -> SettingsJournalError {
    SettingsJournalError::File { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn without_a_runtime_directory_it_is_one_of_the_users_own() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, mode| {
            let path = folder.path().join(name);
            fs::create_dir_all(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let mut places = Places {
            uid: rustix::process::geteuid().as_raw(),
            runtime: Some(make("runtime", 0o700)),
            run_user: make("user", 0o700),
            home: Some(make("home", 0o755)),
            boot: "b".to_owned(),
        };
        let path = |places: &Places| places.directory("x").map(|d| d.path().to_owned());
        assert_eq!(path(&places).unwrap(), folder.path().join("runtime/x"));
        places.runtime = None;
        assert_eq!(path(&places).unwrap(), folder.path().join("user/x"));
        // Another user may have created the directory in a place that all users can write.
        make("user", 0o777);
        let home = places.directory("x").unwrap();
        let state = folder.path().join("home/.local/state/numapilot/run/b");
        assert_eq!(home.path(), state.join("x"));
        home.make().unwrap();
        home.make().unwrap();
        assert_eq!(fs::metadata(state).unwrap().mode() & 0o777, 0o700);
        places.uid += 1;
        make("user", 0o700);
        let error = path(&places).unwrap_err().to_string();
        assert!(error.contains("set XDG_RUNTIME_DIR"), "{error}");
    }

    #[test]
    fn a_lock_that_is_held_too_long_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::at(folder.path().to_owned());
        let held = directory.lock().unwrap();
        let error = directory.lock_within(Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("end it"), "{error}");
        drop(held);
        directory.lock().unwrap();
    }
}

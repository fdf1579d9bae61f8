//! Working directories that are locked while they are used. A directory without a lock was left by
//! a process that was killed; the next process that makes one removes it.
//!
//! Unlike [scratch directories](crate::scratch_directory), they are in a directory of the caller's
//! choice, and programs that a killed process had started may still write there.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// The file in a directory that is kept.
const KEPT: &str = "kept";
/// The time limit for programs of a killed process to end.
const ENDING: Duration = Duration::from_secs(10);
/// The interval at which removal is tried while they end.
const PAUSE: Duration = Duration::from_millis(100);

/// Why a directory cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {}: {cause}", path.display())]
pub struct DirectoryError {
    /// The operation.
    pub doing: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// The system's error.
    pub cause: io::Error,
}

fn at<E: Into<io::Error>>(
    doing: &'static str,
    path: &Path,
) -> impl FnOnce(E) -> DirectoryError + use<E> {
    let path = path.to_owned();
    move |cause| DirectoryError { doing, path, cause: cause.into() }
}

/// A directory for this user alone (0700), which is removed when it is dropped.
#[derive(Debug)]
pub struct LockedDirectory {
    path: PathBuf,
    is_kept: bool,
    _lock: File,
}

impl LockedDirectory {
    /// Makes a directory in `parent` whose name starts with `prefix`, and removes the unlocked ones
    /// with this prefix. `parent` is made if it is missing.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn new(parent: &Path, prefix: &str) -> Result<Self, DirectoryError> {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(parent);
        made.map_err(at("make", parent))?;
        // No other process may remove the directory between its making and its locking.
        let all = File::open(parent).map_err(at("open", parent))?;
        flock(&all, FlockOperation::LockExclusive).map_err(at("lock", parent))?;
        remove_unlocked(parent, prefix)?;
        let made = tempfile::Builder::new()
            .prefix(prefix)
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(parent);
        let path = made.map_err(at("make a directory in", parent))?.keep();
        let lock = File::open(&path).map_err(at("open", &path))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(at("lock", &path))?;
        Ok(Self { path, is_kept: false, _lock: lock })
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the directory: neither this process nor a later one removes it.
    ///
    /// # Errors
    /// [`DirectoryError`] when that cannot be noted in the directory.
    pub fn keep(&mut self) -> Result<(), DirectoryError> {
        let note = self.path.join(KEPT);
        File::create(&note).map_err(at("make", &note))?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for LockedDirectory {
    fn drop(&mut self) {
        if !self.is_kept {
            // The next process removes what cannot be removed now.
            let _ = remove_tree(&self.path);
        }
    }
}

/// Removes the directories with this prefix that are neither locked nor kept.
fn remove_unlocked(parent: &Path, prefix: &str) -> Result<(), DirectoryError> {
    for entry in fs::read_dir(parent).map_err(at("read", parent))? {
        let entry = entry.map_err(at("read", parent))?;
        if !entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()) {
            continue;
        }
        let path = entry.path();
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(&path);
        let Ok(directory) = opened else { continue };
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if path.join(KEPT).exists() => {}
            // The next process removes what cannot be removed now.
            Ok(()) => drop(remove_tree(&path)),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(at("lock", &path)(error)),
        }
    }
    Ok(())
}

/// Removes a tree, if it exists. Programs of a killed process may still write there while they end;
/// this waits up to ten seconds for them.
///
/// # Errors
/// Those of the file system.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let deadline = Instant::now() + ENDING;
    loop {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error)
                if error.kind() == io::ErrorKind::DirectoryNotEmpty
                    && Instant::now() < deadline =>
            {
                thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_directory_is_removed_at_its_end_unless_it_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path().join("cache/runs");
        let run = LockedDirectory::new(&parent, "run-").unwrap();
        assert_eq!(fs::metadata(run.path()).unwrap().mode() & 0o777, 0o700);
        let mut kept = LockedDirectory::new(&parent, "run-").unwrap();
        kept.keep().unwrap();
        fs::create_dir_all(run.path().join("a/b")).unwrap();
        let (gone, stays) = (run.path().to_owned(), kept.path().to_owned());
        drop((run, kept));
        assert!(!gone.exists());
        let other = LockedDirectory::new(&parent, "run-").unwrap();
        assert!(stays.exists() && other.path().exists());
    }

    #[test]
    fn directories_of_killed_processes_are_removed_and_all_others_stay() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(name);
        let [left, used, other] = ["run-left", "run-used", "other-left"].map(path);
        for path in [&left, &used, &other] {
            fs::create_dir_all(path.join("a/b")).unwrap();
        }
        let link = path("run-link");
        symlink(&other, &link).unwrap();
        let lock = File::open(&used).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let first = LockedDirectory::new(parent.path(), "run-").unwrap();
        assert!(!left.exists() && used.exists());
        drop(lock);
        let second = LockedDirectory::new(parent.path(), "run-").unwrap();
        assert!(!used.exists());
        assert!(first.path().exists() && second.path().exists(), "both are in use");
        assert!(other.join("a/b").exists() && link.is_symlink(), "no link is followed or removed");
    }

    /// Another process that is between making a directory and locking it holds this lock.
    #[test]
    fn no_directory_is_made_or_removed_while_the_parent_is_locked() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run-being-made");
        fs::create_dir(&path).unwrap();
        let lock = File::open(parent.path()).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let (sender, made) = mpsc::channel();
        thread::scope(|scope| {
            let parent = parent.path();
            scope.spawn(move || sender.send(LockedDirectory::new(parent, "run-")));
            assert!(made.recv_timeout(PAUSE).is_err());
            assert!(path.exists());
            drop(lock);
            assert!(made.recv().unwrap().is_ok());
            assert!(!path.exists());
        });
    }
}

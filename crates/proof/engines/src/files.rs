//! Creates and locks files and directories of the cache.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::{EngineError, Step};

/// Interval of the checks for a lock that another bench holds.
const PATIENCE: Duration = Duration::from_millis(100);
/// Locks a file for this bench alone, waiting for another one.
pub fn lock(
    path: &Path,
    say: &mut dyn FnMut(Step),
    stop: &AtomicBool,
) -> Result<File, EngineError> {
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

/// A path with `end` appended to its name.
pub fn with_suffix(path: &Path, end: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(end);
    path.into()
}

/// Creates a directory and its parents.
pub fn make_directory(path: &Path, mode: u32) -> Result<(), EngineError> {
    let made = DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(EngineError::file("make", path))
}

/// Makes `owner` (user and group) own a directory.
pub fn give_directory(path: &Path, owner: Option<(u32, u32)>) -> Result<(), EngineError> {
    let Some((user, group)) = owner else { return Ok(()) };
    chown(path, Some(user), Some(group)).map_err(EngineError::file("give away", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_lock_is_reported_and_can_be_ended() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.lock");
        let stop = AtomicBool::new(false);
        let mut steps = Vec::new();
        let held = lock(&path, &mut |step| steps.push(step), &stop).unwrap();
        assert!(steps.is_empty());
        let mut say = |step| {
            stop.store(true, Ordering::Relaxed);
            steps.push(step);
        };
        let error = lock(&path, &mut say, &stop).unwrap_err();
        assert!(matches!(error, EngineError::Interrupted));
        assert!(matches!(&steps[0], Step::Notice(text) if text.contains("waiting")), "{steps:?}");
        drop(held);
        lock(&path, &mut |_| {}, &stop).unwrap();
    }
}

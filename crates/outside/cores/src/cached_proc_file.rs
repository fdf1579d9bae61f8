//! Kernel files that are read at every tick. They are opened once and stay open.
//!
//! Sources: proc(5); Documentation/filesystems/seq_file.rst (a read at offset 0 returns the current
//! text). A file of a process or a group is tied to it: once that is gone, reading fails, even if
//! its name has been given to another.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// More bytes than any of these files has.
const MOST_BYTES: usize = 4096;

/// A file that stays open.
#[derive(Debug)]
pub struct CachedProcFile(File);

impl CachedProcFile {
    /// Opens the file.
    ///
    /// # Errors
    /// The errors of the file system.
    pub fn open(path: &Path) -> io::Result<Self> {
        File::open(path).map(Self)
    }

    /// Reads the current text.
    ///
    /// # Errors
    /// Fails if the process or group is gone.
    pub fn read(&self) -> io::Result<String> {
        let mut buffer = [0; MOST_BYTES];
        let length = self.0.read_at(&mut buffer, 0)?;
        Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
    }
}

/// A set of files of which only changes matter.
#[derive(Debug, Default)]
pub struct Watch {
    files: Vec<(Option<CachedProcFile>, Option<String>)>,
}

impl Watch {
    /// A new set. The first call of [`Watch::has_changed`] reports a change.
    #[must_use]
    pub fn of(paths: &[PathBuf]) -> Self {
        Self { files: paths.iter().map(|path| (CachedProcFile::open(path).ok(), None)).collect() }
    }

    /// Whether the text of any file differs from the last call, or can no longer be read.
    pub fn has_changed(&mut self) -> bool {
        let mut changed = false;
        for (file, before) in &mut self.files {
            let now = file.as_ref().and_then(|file| file.read().ok());
            changed |= now.is_none() || now != *before;
            *before = now;
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_change_is_seen_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cpuset.cpus");
        fs::write(&path, "0-3\n").unwrap();
        let mut watch = Watch::of(&[path.clone(), "/proc/self/cgroup".into()]);
        assert!(watch.has_changed() && !watch.has_changed());
        fs::write(&path, "0-2\n").unwrap();
        assert!(watch.has_changed() && !watch.has_changed());
    }

    #[test]
    fn what_is_gone_has_changed_at_every_look() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let mut watch = Watch::of(&[format!("/proc/{}/cgroup", child.id()).into()]);
        assert!(watch.has_changed() && !watch.has_changed());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(watch.has_changed() && watch.has_changed());
        let mut missing = Watch::of(&["/nonexistent".into()]);
        assert!(missing.has_changed() && missing.has_changed());
    }
}

//! One run's record of what it changed: a file of its own, complete before the change.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use numapilot_sys::process;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Setting;

/// Extension of an entry's file.
pub(super) const COMPLETE: &str = "json";
/// Extension of a file that is being written.
pub(super) const UNFINISHED: &str = "new";

/// What one run changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// Who.
    pub owner: Owner,
    /// What it runs, for people.
    pub command: String,
    /// What it changed.
    pub changes: Vec<Changed>,
    /// What it changes again and again, so that no other run may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reserved: Vec<Setting>,
}

/// One changed setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Changed {
    /// Which.
    pub setting: Setting,
    /// Value before the first of the overlapping runs that hold it.
    pub original: String,
    /// Value while they run.
    pub held: String,
}

/// A process, whatever its number is given to later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// Its number.
    pub pid: u32,
    /// Start in clock ticks since boot.
    pub start_time: u64,
    /// Which boot: a new one has put back every setting.
    pub boot: String,
    /// PID namespace in which the number means something.
    pub namespace: String,
}

/// Whether an owner still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It does.
    Alive,
    /// It does not.
    Dead,
    /// The machine was started again since.
    OtherBoot,
    /// Its PID namespace is not ours.
    Unknown,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// Those of reading `/proc`.
    pub fn this() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    /// Another process.
    ///
    /// # Errors
    /// `NotFound` where there is none with this number.
    pub fn of(pid: u32) -> io::Result<Self> {
        Ok(Self {
            pid,
            start_time: process::start_time(pid)?,
            boot: boot()?,
            namespace: namespace()?,
        })
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// Those of reading `/proc`.
    pub fn state(&self) -> io::Result<State> {
        if self.boot != boot()? {
            return Ok(State::OtherBoot);
        }
        if self.namespace != namespace()? {
            return Ok(State::Unknown);
        }
        match process::start_time(self.pid) {
            Ok(time) if time == self.start_time => Ok(State::Alive),
            Ok(_) => Ok(State::Dead),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(State::Dead),
            // ESRCH: it ended between the open and the read.
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Ok(State::Dead),
            Err(e) => Err(e),
        }
    }
}

fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn namespace() -> io::Result<String> {
    Ok(fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned())
}

impl Entry {
    /// A file name no other run has.
    pub fn new_path(&self, directory: &Path) -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        directory.join(format!("{}-{}-{n}.{COMPLETE}", self.owner.pid, self.owner.start_time))
    }
}

/// Writes a file so that it is there completely or not at all, for its owner alone.
///
/// # Errors
/// Those of the file system; the file is as it was then.
pub fn save(value: &impl Serialize, path: &Path) -> io::Result<()> {
    let temporary = path.with_extension(UNFINISHED);
    let result = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&temporary)?;
        file.write_all(&serde_json::to_vec_pretty(value)?)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
    })();
    if result.is_err() {
        // A full disk leaves half a file; the error that matters is the first.
        let _ = fs::remove_file(&temporary);
    }
    result
}

/// Reads what [`save`] has written.
///
/// # Errors
/// Those of the file system; `InvalidData` for anything else.
pub fn load<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

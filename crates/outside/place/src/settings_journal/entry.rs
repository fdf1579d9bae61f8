//! The record of one run's changes: a separate file, which is complete before the change.

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
/// The first PID namespace of a machine (`PROC_PID_INIT_INO` in include/linux/proc_ns.h).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// The changes of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// The process.
    pub owner: Owner,
    /// The command, for the user.
    pub command: String,
    /// The changed settings.
    pub changes: Vec<Changed>,
    /// The settings that it changes repeatedly, so no other run may change them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reserved: Vec<Setting>,
}

/// One changed setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Changed {
    /// The setting.
    pub setting: Setting,
    /// Value before the first of the overlapping runs that changed it.
    pub original: String,
    /// Value while they run.
    pub held: String,
}

/// A process, which stays identified when its id is reused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// Its id.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start_time: u64,
    /// Id of the boot. A reboot restores every setting.
    pub boot: String,
    /// PID namespace of the id.
    pub namespace: String,
}

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Alive,
    /// It has ended.
    Dead,
    /// It belongs to an earlier boot.
    OtherBoot,
    /// It belongs to another PID namespace, where it runs, or where its state is unknown.
    Unknown,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// Those of reading `/proc`.
    pub fn this() -> io::Result<Self> {
        // In a /proc of another namespace its id may belong to another process.
        let own = procfs::process::Process::myself().and_then(|process| process.stat());
        Ok(Self {
            pid: std::process::id(),
            start_time: own.map_err(io::Error::other)?.starttime,
            boot: boot()?,
            namespace: namespace()?,
        })
    }

    /// Another process.
    ///
    /// # Errors
    /// `NotFound` if there is no process with this id.
    pub fn of(pid: u32) -> io::Result<Self> {
        Ok(Self {
            pid,
            start_time: process::start_time(pid)?,
            boot: boot()?,
            namespace: namespace()?,
        })
    }

    /// Its state.
    ///
    /// # Errors
    /// Those of reading `/proc`.
    pub fn state(&self) -> io::Result<State> {
        if self.boot != boot()? {
            return Ok(State::OtherBoot);
        }
        let own = namespace()?;
        if self.namespace != own {
            return Ok(self.state_from_outside(&own));
        }
        match process::start_time(self.pid) {
            Ok(time) if time == self.start_time => Ok(State::Alive),
            Ok(_) => Ok(State::Dead),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(State::Dead),
            // ESRCH: it ended between open and read.
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Ok(State::Dead),
            Err(e) => Err(e),
        }
    }
}

impl Owner {
    /// Its state, as seen from another PID namespace. The first namespace shows the processes of
    /// all others, so a process that is missing there has ended. In other namespaces, and for a
    /// user from whom processes may be hidden (`hidepid`), the state is unknown.
    fn state_from_outside(&self, own: &str) -> State {
        let Ok(all) = procfs::process::all_processes() else { return State::Unknown };
        if all.flatten().any(|process| self.is(&process)) {
            return State::Unknown;
        }
        let sees_all = own == FIRST_NAMESPACE
            && rustix::process::geteuid().is_root()
            && crate::check_proc().is_ok();
        if sees_all { State::Dead } else { State::Unknown }
    }

    /// Whether `process` of an inner namespace is the owner, by its id there and its start time.
    fn is(&self, process: &procfs::process::Process) -> bool {
        let Ok(status) = process.status() else { return false };
        let number = status.nspid.filter(|all| all.len() > 1).and_then(|all| all.last().copied());
        number == i32::try_from(self.pid).ok()
            && process.stat().is_ok_and(|stat| stat.starttime == self.start_time)
    }
}

pub(super) fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn namespace() -> io::Result<String> {
    Ok(fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned())
}

impl Entry {
    /// A unique file name.
    pub fn new_path(&self, directory: &Path) -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        directory.join(format!("{}-{}-{n}.{COMPLETE}", self.owner.pid, self.owner.start_time))
    }
}

/// Writes a file atomically. Only its owner can access it.
///
/// # Errors
/// Those of the file system. The file is then unchanged.
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
        // A full disk leaves half a file. The first error is the relevant one.
        let _ = fs::remove_file(&temporary);
    }
    result
}

/// Reads a file that [`save`] has written.
///
/// # Errors
/// Those of the file system; `InvalidData` for any other content.
pub fn load<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// If a container is killed, the guards of its runs are killed too.
    #[test]
    fn a_process_of_another_namespace_is_seen_from_the_first() {
        if namespace().unwrap() != FIRST_NAMESPACE {
            println!("skipped: this is not the first PID namespace");
            return;
        }
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "cat"]);
        let Ok(mut outer) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
            println!("skipped: no unshare");
            return;
        };
        // The echo shows that it runs. Without the privilege there is no echo.
        outer.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        if io::Read::read_exact(outer.stdout.as_mut().unwrap(), &mut [0]).is_err() {
            outer.wait().unwrap();
            println!("skipped: unshare may not create a PID namespace");
            return;
        }
        let children = format!("/proc/{0}/task/{0}/children", outer.id());
        let inner: u32 = fs::read_to_string(children).unwrap().trim().parse().unwrap();
        let owner = Owner {
            pid: 1,
            start_time: process::start_time(inner).unwrap(),
            boot: boot().unwrap(),
            namespace: fs::read_link(format!("/proc/{inner}/ns/pid"))
                .unwrap()
                .to_string_lossy()
                .into_owned(),
        };
        // Not `Alive`, because its id belongs to another process here.
        assert_eq!(owner.state().unwrap(), State::Unknown);
        let earlier = Owner { start_time: owner.start_time - 1, ..owner.clone() };
        assert_eq!(earlier.state().unwrap(), State::Dead);
        outer.kill().unwrap();
        outer.wait().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while owner.state().unwrap() != State::Dead {
            assert!(
                std::time::Instant::now() < deadline,
                "a process of the killed namespace counts as alive"
            );
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

//! A started program: signals, the end with its resource usage, and a time limit that
//! ends all of its processes.

use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use numapilot_sys::process::Usage;
use numapilot_sys::process::{self, PidFd};
use numapilot_sys::spawn::{self, SpawnError};

use crate::guard::{self, GroupNote};
use crate::settings_journal::{Held, Outcome};
use crate::{PlaceError, threads};

/// Between SIGTERM and SIGKILL when a time limit is over.
const GRACE: Duration = Duration::from_secs(2);

/// A program that was started. Dropped before its end was waited for, it is killed, with
/// its process group if it has one of its own, so that nothing is left behind. When this process
/// ends without dropping it, the kernel tells the leader of such a group, and the
/// [guard](crate::guard) ends the rest.
#[derive(Debug)]
pub struct Running {
    pid: i32,
    fd: PidFd,
    own_group: bool,
    /// Kept until what is ended with the program has ended.
    group: Option<Arc<GroupNote>>,
    started: Instant,
    ended: bool,
    held: Option<Held>,
    threads: Option<threads::Session>,
}

/// A program that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its exit status or the signal that ended it.
    pub status: ExitStatus,
    /// Whether the time limit ended it.
    pub timed_out: bool,
    /// From before the fork to the end.
    pub wall: Duration,
    /// Resources of the program and of the descendants it waited for.
    pub usage: Usage,
    /// What became of the machine-wide settings that were changed for it.
    pub settings: Vec<Outcome>,
    /// What became of its threads, when the plan placed them.
    pub threads: Option<threads::Outcome>,
}

impl Running {
    /// `note` is what the child notes its group in, if it leads one.
    pub(crate) fn start(
        command: &mut Command,
        own_group: bool,
        note: Option<GroupNote>,
        held: Option<Held>,
        mut threads: Option<threads::Session>,
        start_error: impl FnOnce(SpawnError) -> PlaceError,
    ) -> Result<Self, PlaceError> {
        if own_group {
            // Before the program runs: what it starts meanwhile would outlive this process. Without
            // a guard the leader still gets the kernel's signal, and the next start ends the rest.
            let _ = guard::start();
        }
        let started = Instant::now();
        let mut child = spawn::spawn(command).map_err(start_error)?;
        let pid = child.id().cast_signed();
        match PidFd::open(pid) {
            Ok(fd) => {
                if let Some(session) = &mut threads {
                    // No thread to be had: what the library places is placed all the same.
                    let _ = session.watch(pid);
                }
                let group = note.map(Arc::new);
                Ok(Self { pid, fd, own_group, group, started, ended: false, held, threads })
            }
            Err(error) => {
                // Without a pidfd (kernel before 5.3, a filter of system calls) it could not be
                // watched: do not leave it behind. Neither call can help if it fails.
                let _ = child.kill();
                let _ = child.wait();
                let cause = format!(
                    "pidfd_open: {error}; it takes Linux 5.3 and a filter of system calls \
                     (seccomp) that lets it pass"
                );
                Err(PlaceError::Watch { pid, source: std::io::Error::new(error.kind(), cause) })
            }
        }
    }

    /// Its process number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether it leads a process group of its own.
    #[must_use]
    pub fn has_own_group(&self) -> bool {
        self.own_group
    }

    /// What has the guard end the rest of its group, should this process be killed: for those who
    /// keep it longer than the program itself lives. `None` without a group of its own.
    #[must_use]
    pub fn group_note(&self) -> Option<Arc<GroupNote>> {
        self.group.clone()
    }

    /// Sends a signal to the program, or to all of its group if it has its own.
    ///
    /// # Errors
    /// [`PlaceError::Watch`] when it has ended or may not be signalled.
    pub fn signal(&self, signal: i32) -> Result<(), PlaceError> {
        let result = if self.own_group {
            process::signal_group(self.pid, signal)
        } else {
            self.fd.signal(signal)
        };
        result.map_err(|source| PlaceError::Watch { pid: self.pid, source })
    }

    /// Waits for the end, at most `limit`: after that the program (and its group, if it
    /// has its own) gets SIGTERM and, two seconds later, SIGKILL.
    ///
    /// # Errors
    /// [`PlaceError::Watch`] when it cannot be waited for.
    pub fn wait(mut self, limit: Option<Duration>) -> Result<Finished, PlaceError> {
        let in_time = self.ended_within(limit)?;
        if !in_time {
            // It may end by itself between the two calls: then there is nobody to signal.
            let _ = self.signal(libc::SIGTERM);
            if !self.ended_within(Some(GRACE))? {
                let _ = self.signal(libc::SIGKILL);
            }
        }
        let (status, usage) = process::wait(self.pid).map_err(|source| self.watch(source))?;
        let wall = self.started.elapsed();
        self.ended = true;
        if !in_time && self.own_group {
            // Those that outlived their leader.
            let _ = process::signal_group(self.pid, libc::SIGKILL);
        }
        let settings = self.held.take().map(Held::release).unwrap_or_default();
        let threads = self.threads.take().map(threads::Session::finish);
        Ok(Finished { status, timed_out: !in_time, wall, usage, settings, threads })
    }

    /// Waits until the program has ended, at most `limit`; whether it has. Its status is
    /// left for [`Running::wait`].
    ///
    /// # Errors
    /// [`PlaceError::Watch`] when it cannot be watched.
    pub fn ended_within(&self, limit: Option<Duration>) -> Result<bool, PlaceError> {
        self.fd.ended_within(limit).map_err(|source| self.watch(source))
    }

    fn watch(&self, source: std::io::Error) -> PlaceError {
        PlaceError::Watch { pid: self.pid, source }
    }
}

/// Readable when the program has ended.
impl AsFd for Running {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            // It may have ended already; nothing to do about an error either way.
            let _ = self.signal(libc::SIGKILL);
            let _ = process::wait(self.pid);
        }
    }
}

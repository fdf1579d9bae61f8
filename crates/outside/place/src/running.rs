//! A running program: signals, its end and resource usage, and a time limit that ends all of its
//! processes.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use numapilot_sys::process::Usage;
use numapilot_sys::process::{self, PidFd};
use numapilot_sys::spawn::{self, SpawnError};

use crate::daemons::{self, Beside};
use crate::guard::{self, GroupNote};
use crate::settings_journal::{Held, Outcome};
use crate::{PlaceError, threads};

/// Time between SIGTERM and SIGKILL after a time limit.
const GRACE: Duration = Duration::from_secs(2);

/// A program that was started. If this is dropped before the program was waited for, the program is
/// killed, with its process group if it leads one. If this process ends without dropping it, the
/// kernel signals the leader of such a group, and the [guard](crate::guard) ends the rest.
#[derive(Debug)]
pub struct Running {
    pid: i32,
    fd: PidFd,
    own_group: bool,
    /// Kept until the processes of the group have ended.
    group: Option<Arc<GroupNote>>,
    started: Instant,
    ended: bool,
    held: Option<Held>,
    threads: Option<threads::Session>,
    daemons: daemons::Session,
}

/// A program that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its exit status or the signal that ended it.
    pub status: ExitStatus,
    /// Whether the time limit ended it.
    pub timed_out: bool,
    /// Time from before the fork to the end.
    pub wall: Duration,
    /// Resource usage of the program and the descendants that it waited for.
    pub usage: Usage,
    /// The outcome for each machine-wide setting that was changed for it.
    pub settings: Vec<Outcome>,
    /// The outcome of thread placement, if the plan placed its threads.
    pub threads: Option<threads::Outcome>,
    /// Whether each daemon of the plan ran beside it until the end.
    pub daemons: Vec<daemons::Outcome>,
}

impl Running {
    /// Starts the program. `note` is the file into which the child writes its group, if it leads
    /// one.
    pub(crate) fn start(
        command: &mut Command,
        own_group: bool,
        note: Option<GroupNote>,
        held: Option<Held>,
        mut threads: Option<threads::Session>,
        start_error: impl FnOnce(SpawnError) -> PlaceError,
    ) -> Result<Self, PlaceError> {
        if own_group {
            // Before the program runs, because its children would outlive this process. Without a
            // guard the leader still gets the kernel's signal, and the next start ends the rest.
            let _ = guard::start();
        }
        let started = Instant::now();
        let mut child = spawn::spawn(command).map_err(start_error)?;
        let pid = child.id().cast_signed();
        match PidFd::open(pid) {
            Ok(fd) => {
                if let Some(session) = &mut threads {
                    // If no thread can be created, the library still places threads.
                    let _ = session.watch(pid);
                }
                let group = note.map(Arc::new);
                let daemons = daemons::Session::default();
                Ok(Self {
                    pid,
                    fd,
                    own_group,
                    group,
                    started,
                    ended: false,
                    held,
                    threads,
                    daemons,
                })
            }
            Err(error) => {
                // Without a pidfd (Linux before 5.3, or a seccomp filter) it cannot be watched, so
                // it is not left running. If one of these calls fails, nothing more can be done.
                let _ = child.kill();
                let _ = child.wait();
                let cause = format!(
                    "pidfd_open: {error}; it requires Linux 5.3, and a seccomp filter must allow \
                     it"
                );
                Err(PlaceError::Watch { pid, source: std::io::Error::new(error.kind(), cause) })
            }
        }
    }

    /// Starts these daemons for it.
    pub(crate) fn beside(mut self, daemons: Option<&Beside>) -> Self {
        self.daemons = daemons.map(|daemons| daemons.start(self.pid)).unwrap_or_default();
        self
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The occupancy table of its processes, if its threads are placed.
    pub(crate) fn occupancy(&self) -> Option<&Path> {
        self.threads.as_ref()?.occupancy()
    }

    /// Whether it leads its own process group.
    #[must_use]
    pub fn has_own_group(&self) -> bool {
        self.own_group
    }

    /// Time since its start, from which [`Finished::wall`] counts as well.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// The note with which the guard ends the rest of its group if this process is killed. A caller
    /// may keep it longer than the program lives. `None` without its own group.
    #[must_use]
    pub fn group_note(&self) -> Option<Arc<GroupNote>> {
        self.group.clone()
    }

    /// Sends a signal to the program, or to its whole group if it leads one.
    ///
    /// # Errors
    /// [`PlaceError::Watch`] if it has ended or may not be signalled.
    pub fn signal(&self, signal: i32) -> Result<(), PlaceError> {
        let result = if self.own_group {
            process::signal_group(self.pid, signal)
        } else {
            self.fd.signal(signal)
        };
        result.map_err(|source| PlaceError::Watch { pid: self.pid, source })
    }

    /// Waits for the end. After `limit`, the program (with its group, if it leads one) gets SIGTERM
    /// and, two seconds later, SIGKILL.
    ///
    /// # Errors
    /// [`PlaceError::Watch`] if it cannot be waited for.
    pub fn wait(mut self, limit: Option<Duration>) -> Result<Finished, PlaceError> {
        let in_time = self.ended_within(limit)?;
        if !in_time {
            // It may end by itself between the two calls.
            let _ = self.signal(libc::SIGTERM);
            if !self.ended_within(Some(GRACE))? {
                let _ = self.signal(libc::SIGKILL);
            }
        }
        let (status, usage) = process::wait(self.pid).map_err(|source| self.watch(source))?;
        let wall = self.started.elapsed();
        let daemons = std::mem::take(&mut self.daemons).finish();
        self.ended = true;
        if !in_time && self.own_group {
            // Ends the processes that have outlived their leader.
            let _ = process::signal_group(self.pid, libc::SIGKILL);
        }
        let settings = self.held.take().map(Held::release).unwrap_or_default();
        let threads = self.threads.take().map(threads::Session::finish);
        Ok(Finished { status, timed_out: !in_time, wall, usage, settings, threads, daemons })
    }

    /// Waits until the program has ended, at most for `limit`. Returns whether it has. It is not
    /// reaped, so [`Running::wait`] can be called afterwards.
    ///
    /// # Errors
    /// [`PlaceError::Watch`] if it cannot be watched.
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
            // An error is ignored: it may have ended already.
            let _ = self.signal(libc::SIGKILL);
            let _ = process::wait(self.pid);
        }
    }
}

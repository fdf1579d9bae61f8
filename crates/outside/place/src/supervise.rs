//! Waiting for programs, and passing signals on to them.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use numapilot_sys::signals::{Arrived, SignalFd, catchable, stop_self};
use procfs::process::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{Finished, PlaceError, Running};

/// Signals that the terminal sends to the whole foreground group (termios(3), signal(7)).
const TERMINAL: [i32; 8] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGCONT,
    libc::SIGWINCH,
];
/// Signals whose default action stops a process.
const STOP: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
/// Signals whose default action has no effect on a running process (signal(7)).
const HARMLESS: [i32; 3] = [libc::SIGCONT, libc::SIGURG, libc::SIGWINCH];

/// Receives this process's signals for the programs that it runs. Create it before the first
/// program is started, or signals are lost.
#[derive(Debug)]
pub struct Supervisor(SignalFd);

impl Supervisor {
    /// From now on, keeps signals for the programs: all that can be caught except `SIGCHLD`, which
    /// concerns only this process.
    ///
    /// # Errors
    /// [`PlaceError::Signals`].
    pub fn new() -> Result<Self, PlaceError> {
        let mut signals = catchable();
        signals.retain(|signal| *signal != libc::SIGCHLD);
        SignalFd::open(&signals).map(Self).map_err(PlaceError::Signals)
    }

    /// Waits until all programs have ended. The results are in the order of `programs`.
    ///
    /// # Errors
    /// [`PlaceError`] if one cannot be watched. The others are then ended.
    pub fn wait(&self, programs: Vec<Running>) -> Result<Vec<Finished>, PlaceError> {
        let mut running: Vec<Option<Running>> = programs.into_iter().map(Some).collect();
        let mut finished: Vec<Option<Finished>> = running.iter().map(|_| None).collect();
        while running.iter().any(Option::is_some) {
            let programs: Vec<&Running> = running.iter().flatten().collect();
            for arrived in self.receive(&programs, None)? {
                pass_on(arrived, &programs)?;
            }
            for (slot, end) in running.iter_mut().zip(&mut finished) {
                let ended = match slot {
                    Some(program) => program.ended_within(Some(Duration::ZERO))?,
                    None => false,
                };
                if ended && let Some(program) = slot.take() {
                    *end = Some(program.wait(None)?);
                }
            }
        }
        Ok(finished.into_iter().flatten().collect())
    }

    /// Waits at most `limit` for the end of one program. Returns whether it has ended. It is not
    /// reaped, so [`Running::wait`] can be called afterwards.
    ///
    /// # Errors
    /// [`PlaceError`] if it cannot be watched.
    pub fn ended_within(&self, program: &Running, limit: Duration) -> Result<bool, PlaceError> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            for arrived in self.receive(&[program], Some(left))? {
                pass_on(arrived, &[program])?;
            }
            let ended = program.ended_within(Some(Duration::ZERO))?;
            if ended || Instant::now() >= deadline {
                return Ok(ended);
            }
        }
    }

    /// Waits at most `limit` for a signal that would end this process. Returns whether there was
    /// one. It is for callers that watch a program which they have not started.
    ///
    /// # Errors
    /// [`PlaceError::Signals`].
    pub fn asked_to_end(&self, limit: Duration) -> Result<bool, PlaceError> {
        let mut asked = false;
        for arrived in self.receive(&[], Some(limit))? {
            let spares = [STOP, HARMLESS].concat().contains(&arrived.signal);
            asked |= !spares && !arrived.from_self && !arrived.ignored;
            pass_on(arrived, &[])?;
        }
        Ok(asked)
    }

    /// Waits at most `limit` for a signal or the end of a program. Returns the signals.
    fn receive(
        &self,
        programs: &[&Running],
        limit: Option<Duration>,
    ) -> Result<Vec<Arrived>, PlaceError> {
        let mut fds: Vec<PollFd<'_>> = std::iter::once(self.0.as_fd())
            .chain(programs.iter().map(|p| p.as_fd()))
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        // A limit that is too long for the kernel's type counts as none.
        let limit = limit.and_then(|l| Timespec::try_from(l).ok());
        match poll(&mut fds, limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(PlaceError::Signals(error.into())),
        }
        std::iter::from_fn(|| self.0.next().transpose())
            .collect::<Result<_, _>>()
            .map_err(PlaceError::Signals)
    }
}

fn pass_on(arrived: Arrived, programs: &[&Running]) -> Result<(), PlaceError> {
    for program in programs {
        if is_for(arrived, program.has_own_group(), leads_session()) {
            // An error is ignored: the program may have just ended.
            let _ = program.signal(arrived.signal);
        }
    }
    if STOP.contains(&arrived.signal) && !arrived.ignored {
        // The shell waits until this process stops too.
        stop_self().map_err(PlaceError::Signals)?;
    }
    Ok(())
}

/// Whether to pass a signal that this process has received on to its program. One that this process
/// ignored is passed on too: the program has inherited that, and has a handler if it wants the
/// signal.
fn is_for(arrived: Arrived, own_group: bool, leads_session: bool) -> bool {
    if !arrived.from_kernel {
        return !arrived.from_self;
    }
    // Other signals from the kernel concern this process only, such as a timer or a limit.
    if !TERMINAL.contains(&arrived.signal) {
        return false;
    }
    // A program in our group also gets the signals that the terminal sends to the foreground group.
    // When a terminal hangs up, only the leader of the session gets HUP, then CONT
    // (`tty_signal_session_leader` in drivers/tty/tty_jobctrl.c).
    own_group || leads_session && [libc::SIGHUP, libc::SIGCONT].contains(&arrived.signal)
}

/// Reads `/proc` and does not call getsid(2): if the leader is in another PID namespace, the
/// session has id 0, which rustix does not accept.
fn leads_session() -> bool {
    let stat = Process::myself().and_then(|process| process.stat());
    stat.is_ok_and(|stat| stat.session == stat.pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_go_to_those_who_do_not_have_them_already() {
        let is_for = |signal, from_kernel, own_group, leads| {
            is_for(
                Arrived { signal, from_kernel, from_self: false, ignored: false },
                own_group,
                leads,
            )
        };
        for signal in [libc::SIGHUP, libc::SIGPWR, libc::SIGSEGV, libc::SIGRTMIN() + 3] {
            assert!(is_for(signal, false, false, false), "{signal} of a process");
        }
        assert!(!is_for(libc::SIGINT, true, false, false), "the group has it");
        assert!(is_for(libc::SIGINT, true, true, false));
        assert!(!is_for(libc::SIGHUP, true, false, false), "the group has it");
        assert!(is_for(libc::SIGHUP, true, false, true), "the leader alone has it");
        assert!(!is_for(libc::SIGINT, true, false, true));
        assert!(!is_for(libc::SIGXCPU, true, true, true), "our own limit");
        let (signal, ignored) = (libc::SIGPIPE, false);
        let broken_pipe = Arrived { signal, from_kernel: false, from_self: true, ignored };
        assert!(!super::is_for(broken_pipe, true, true));
        let (signal, ignored) = (libc::SIGHUP, true);
        let under_nohup = Arrived { signal, from_kernel: false, from_self: false, ignored };
        assert!(super::is_for(under_nohup, false, false));
    }
}

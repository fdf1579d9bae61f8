//! Staying with programs until they end: signals are passed on to them.

use std::os::fd::AsFd;

use numapilot_sys::signals::{Arrived, SignalFd, stop_self};
use rustix::event::{PollFd, PollFlags, poll};

use crate::{Finished, PlaceError, Running};

/// What is passed on. Others keep their effect on this process.
const SIGNALS: [i32; 10] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGALRM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGCONT,
    libc::SIGTSTP,
];

/// Receives this process's signals for the programs it runs. Made before the first of
/// them is started, so that no signal is lost between.
#[derive(Debug)]
pub struct Supervisor(SignalFd);

impl Supervisor {
    /// From now on signals are kept for the programs.
    ///
    /// # Errors
    /// [`PlaceError::Signals`].
    pub fn new() -> Result<Self, PlaceError> {
        SignalFd::open(&SIGNALS).map(Self).map_err(PlaceError::Signals)
    }

    /// Waits until all programs have ended; their ends are in the order of `programs`.
    ///
    /// # Errors
    /// [`PlaceError`] when one cannot be watched; the others are then ended.
    pub fn wait(&self, programs: Vec<Running>) -> Result<Vec<Finished>, PlaceError> {
        let mut running: Vec<Option<Running>> = programs.into_iter().map(Some).collect();
        let mut finished: Vec<Option<Finished>> = running.iter().map(|_| None).collect();
        while running.iter().any(Option::is_some) {
            let mut fds: Vec<PollFd<'_>> = std::iter::once(self.0.as_fd())
                .chain(running.iter().flatten().map(AsFd::as_fd))
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            match poll(&mut fds, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(PlaceError::Signals(error.into())),
            }
            while let Some(arrived) = self.0.next().map_err(PlaceError::Signals)? {
                pass_on(arrived, running.iter().flatten())?;
            }
            for (slot, end) in running.iter_mut().zip(&mut finished) {
                let ended = match slot {
                    Some(program) => program.ended_within(Some(std::time::Duration::ZERO))?,
                    None => false,
                };
                if ended && let Some(program) = slot.take() {
                    *end = Some(program.wait(None)?);
                }
            }
        }
        Ok(finished.into_iter().flatten().collect())
    }
}

fn pass_on<'a>(
    arrived: Arrived,
    programs: impl Iterator<Item = &'a Running>,
) -> Result<(), PlaceError> {
    for program in programs {
        // What the terminal sends goes to the whole foreground group: a program in ours
        // has it already.
        if !arrived.from_kernel || program.has_own_group() {
            // It may have ended a moment ago: then the signal has nobody to go to.
            let _ = program.signal(arrived.signal);
        }
    }
    if arrived.signal == libc::SIGTSTP {
        // The shell waits for this process to stop, too.
        stop_self().map_err(PlaceError::Signals)?;
    }
    Ok(())
}

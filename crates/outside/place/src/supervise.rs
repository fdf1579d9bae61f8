//! Staying with programs until they end: signals are passed on to them.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use numapilot_sys::signals::{Arrived, SignalFd, stop_self};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

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

    /// Waits at most `limit` for the end of one program; whether it has ended. Its status
    /// is left for [`Running::wait`].
    ///
    /// # Errors
    /// [`PlaceError`] when it cannot be watched.
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

    /// Waits at most `limit` for a signal that asks this process to end, for those who
    /// watch what they have not started; whether there was one.
    ///
    /// # Errors
    /// [`PlaceError::Signals`].
    pub fn asked_to_end(&self, limit: Duration) -> Result<bool, PlaceError> {
        const END: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];
        let mut asked = false;
        for arrived in self.receive(&[], Some(limit))? {
            asked |= END.contains(&arrived.signal);
            pass_on(arrived, &[])?;
        }
        Ok(asked)
    }

    /// Waits for a signal or the end of a program, at most `limit`; the signals.
    fn receive(
        &self,
        programs: &[&Running],
        limit: Option<Duration>,
    ) -> Result<Vec<Arrived>, PlaceError> {
        let mut fds: Vec<PollFd<'_>> = std::iter::once(self.0.as_fd())
            .chain(programs.iter().map(|p| p.as_fd()))
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        // A limit too long for the kernel's type is as good as none.
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

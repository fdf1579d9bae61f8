//! Signals received as data, so that a supervisor passes them on instead of dying of them.
//!
//! Source: signalfd(2), sigprocmask(2). What is blocked stays blocked over fork and exec,
//! so [`crate::spawn::spawn`] unblocks everything in the new process.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::check;

/// A signal that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub signal: i32,
    /// Whether the kernel sent it (the terminal's Ctrl-C), as opposed to a process. The
    /// terminal sends to the whole foreground group, a process usually to one process.
    pub from_kernel: bool,
    /// Whether this process sent it to itself, as a write to a closed pipe does.
    pub from_self: bool,
}

/// Every signal of this kernel that a process can receive as data: all but `SIGKILL` and
/// `SIGSTOP`, which cannot be caught, and those between `SIGSYS` and `SIGRTMIN`, which the C
/// library keeps for itself (signal(7)).
#[must_use]
pub fn catchable() -> Vec<i32> {
    (1..=libc::SIGSYS)
        .filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal))
        .chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
        .collect()
}

/// Receives signals instead of letting them act; while it lives they are blocked in the
/// thread that opened it.
#[derive(Debug)]
pub struct SignalFd {
    fd: OwnedFd,
    before: libc::sigset_t,
}

impl SignalFd {
    /// Blocks and receives `signals`, except those this process ignores: a program under
    /// nohup must not get SIGHUP back. `SIGPIPE` is received all the same: it is Rust's runtime
    /// that ignores it, and a write to a closed pipe goes on to fail with `EPIPE`.
    ///
    /// Threads that exist already keep receiving; open it before the first is started.
    ///
    /// # Errors
    /// `EINVAL` for something that is no signal, `EMFILE` without descriptors left.
    pub fn open(signals: &[i32]) -> io::Result<Self> {
        let mut set = empty();
        for &signal in signals {
            if signal == libc::SIGPIPE {
                receive_broken_pipes()?;
            }
            if !is_ignored(signal)? {
                // SAFETY: set is initialised; an invalid number is refused.
                check(i64::from(unsafe { libc::sigaddset(&raw mut set, signal) }))?;
            }
        }
        let mut before = empty();
        // SAFETY: both sets are live and initialised.
        let status =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before) };
        if status != 0 {
            return Err(io::Error::from_raw_os_error(status));
        }
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: -1 asks for a new descriptor; the set is read only.
        let fd = check(i64::from(unsafe { libc::signalfd(-1, &raw const set, flags) }))?;
        let fd = i32::try_from(fd).map_err(io::Error::other)?;
        // SAFETY: the kernel has just given us this descriptor and nobody else knows it.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, before })
    }

    /// The next signal, or `None` when none is waiting.
    ///
    /// # Errors
    /// Those of read(2).
    pub fn next(&self) -> io::Result<Option<Arrived>> {
        // SAFETY: a zeroed signalfd_siginfo is a valid value of a struct of integers.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let bytes = size_of_val(&info);
        // SAFETY: the buffer is live and as long as stated.
        let read = check(unsafe {
            libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), bytes) as libc::c_long
        });
        match read {
            Ok(_) => Ok(Some(Arrived {
                signal: i32::try_from(info.ssi_signo).map_err(io::Error::other)?,
                // sigaction(2): SI_USER, SI_QUEUE and SI_TKILL are not positive.
                from_kernel: info.ssi_code > 0,
                from_self: info.ssi_code <= 0 && info.ssi_pid == std::process::id(),
            })),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for SignalFd {
    fn drop(&mut self) {
        // SAFETY: before is the mask the kernel gave us; restoring it cannot fail.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }
}

/// Blocks nothing in the calling thread any more; safe between fork and exec.
pub(crate) fn unblock_all() -> io::Result<()> {
    let none = empty();
    // SAFETY: the set is live and initialised, and the old one is not asked for.
    match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) }
    {
        0 => Ok(()),
        status => Err(io::Error::from_raw_os_error(status)),
    }
}

/// Gives every signal its default effect in the calling process and unblocks it; safe between
/// fork and exec.
pub(crate) fn reset_all() -> io::Result<()> {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: the default is an action like any other; those that have no other
        // (SIGKILL, SIGSTOP, the C library's own) are refused, which changes nothing.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    unblock_all()
}

/// Replaces the runtime's `SIG_IGN` for `SIGPIPE`, with which the signal would never arrive, by
/// a handler that does nothing.
fn receive_broken_pipes() -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: a zeroed sigaction is a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler touches nothing, so it may run at any point of any thread.
    check(i64::from(unsafe {
        libc::sigaction(libc::SIGPIPE, &raw const action, std::ptr::null_mut())
    }))
    .map(drop)
}

/// Stops this process until it gets SIGCONT.
///
/// # Errors
/// Those of kill(2).
pub fn stop_self() -> io::Result<()> {
    // SAFETY: both calls take and give integers.
    check(i64::from(unsafe { libc::kill(libc::getpid(), libc::SIGSTOP) })).map(drop)
}

fn empty() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set it is given.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

fn is_ignored(signal: i32) -> io::Result<bool> {
    // SAFETY: a zeroed sigaction is a valid value; the kernel overwrites it.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only asks for the present one.
    check(i64::from(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) }))?;
    Ok(action.sa_sigaction == libc::SIG_IGN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_becomes_data() {
        // The mask belongs to the thread and the test harness gives each test a thread;
        // the signal is sent to this thread, where it is blocked.
        let fd = SignalFd::open(&[libc::SIGUSR1]).unwrap();
        assert_eq!(fd.next().unwrap(), None);
        // SAFETY: pthread_kill to the calling thread.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR1) };
        let arrived = Arrived { signal: libc::SIGUSR1, from_kernel: false, from_self: true };
        assert_eq!(fd.next().unwrap(), Some(arrived));
    }

    #[test]
    fn every_signal_of_the_kernel_can_be_received() {
        // signal(7): 31 standard signals, and the real-time signals that the C library leaves.
        let all = catchable();
        assert_eq!(all.len(), 29 + (libc::SIGRTMAX() - libc::SIGRTMIN() + 1) as usize);
        assert!(
            [libc::SIGPIPE, libc::SIGPWR, libc::SIGRTMIN() + 3].iter().all(|s| all.contains(s))
        );
        SignalFd::open(&all).unwrap();
    }

    #[test]
    fn a_write_to_a_closed_pipe_fails_and_its_signal_is_our_own() {
        use std::io::Write;
        let fd = SignalFd::open(&[libc::SIGPIPE]).unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        assert_eq!(writer.write(b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let arrived = fd.next().unwrap().unwrap();
        assert!(arrived.signal == libc::SIGPIPE && arrived.from_self, "{arrived:?}");
    }

    #[test]
    fn no_signal_is_refused() {
        assert!(SignalFd::open(&[0]).is_err());
    }
}

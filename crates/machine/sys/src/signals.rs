//! Signals that are received as data, with which a supervisor can pass them on instead of being
//! ended by them.
//!
//! Source: signalfd(2), sigprocmask(2). Signals stay blocked over fork and exec, so
//! [`crate::spawn::spawn`] unblocks all of them in the new process.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::{Signal, getpid, kill_process};

use crate::check;

/// A signal that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub signal: i32,
    /// Whether the kernel sent it (for instance Ctrl-C in the terminal) and not a process. The
    /// terminal sends signals to the whole foreground group, a process usually to one process.
    pub from_kernel: bool,
    /// Whether this process caused it, for instance by a write to a closed pipe.
    pub from_self: bool,
    /// Whether this process ignored it before, as one under nohup ignores `SIGHUP`.
    pub ignored: bool,
}

/// All signals of this kernel that a process can receive as data: all but `SIGKILL` and `SIGSTOP`,
/// which cannot be caught, and those between `SIGSYS` and `SIGRTMIN`, which the C library reserves
/// (signal(7)).
#[must_use]
pub fn catchable() -> Vec<i32> {
    (1..=libc::SIGSYS)
        .filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal))
        .chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
        .collect()
}

/// Receives signals as data. While it lives, they are blocked in the thread that opened it.
#[derive(Debug)]
pub struct SignalFd {
    fd: OwnedFd,
    before: libc::sigset_t,
    /// The signals that this process ignored.
    ignored: Vec<i32>,
}

impl SignalFd {
    /// Blocks and receives `signals`, also those that this process ignores, because the kernel keeps
    /// a signal that is blocked. `SIGPIPE` does not count as ignored, because it is Rust's runtime
    /// that ignores it. A write to a closed pipe still fails with `EPIPE`.
    ///
    /// Threads that exist already still get the signals, so open it before the first thread is
    /// started.
    ///
    /// # Errors
    /// `EINVAL` for an invalid signal number, `EMFILE` without free descriptors.
    pub fn open(signals: &[i32]) -> io::Result<Self> {
        let mut set = empty();
        let mut ignored = Vec::new();
        for &signal in signals {
            if signal == libc::SIGPIPE {
                receive_broken_pipes()?;
            }
            if is_ignored(signal)? {
                ignored.push(signal);
            }
            // SAFETY: the set is initialised; an invalid number is refused.
            check(i64::from(unsafe { libc::sigaddset(&raw mut set, signal) }))?;
        }
        let mut before = empty();
        // SAFETY: both sets are live and initialised.
        let status =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before) };
        if status != 0 {
            return Err(io::Error::from_raw_os_error(status));
        }
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: -1 requests a new descriptor; the set is only read.
        let fd = check(i64::from(unsafe { libc::signalfd(-1, &raw const set, flags) }))?;
        let fd = i32::try_from(fd).map_err(io::Error::other)?;
        // SAFETY: the kernel has just returned this descriptor, which nothing else uses.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, before, ignored })
    }

    /// The next signal, or `None` if none is pending.
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
            Ok(_) => {
                let signal = i32::try_from(info.ssi_signo).map_err(io::Error::other)?;
                Ok(Some(Arrived {
                    signal,
                    // sigaction(2): SI_USER, SI_QUEUE and SI_TKILL are not positive.
                    from_kernel: info.ssi_code > 0,
                    from_self: info.ssi_code <= 0 && info.ssi_pid == std::process::id(),
                    ignored: self.ignored.contains(&signal),
                }))
            }
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
        // SAFETY: `before` is a mask from the kernel; restoring it cannot fail.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }
}

/// Unblocks all signals in the calling thread. Safe between fork and exec.
pub(crate) fn unblock_all() -> io::Result<()> {
    let none = empty();
    // SAFETY: the set is live and initialised, and the old one is not requested.
    match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) }
    {
        0 => Ok(()),
        status => Err(io::Error::from_raw_os_error(status)),
    }
}

/// Gives every signal its default effect in the calling process and unblocks it. Safe between fork
/// and exec.
pub(crate) fn reset_all() -> io::Result<()> {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: the default action is always valid. Signals whose action is fixed (SIGKILL,
        // SIGSTOP, those of the C library) are refused, which changes nothing.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    unblock_all()
}

/// Replaces the runtime's `SIG_IGN` for `SIGPIPE`, which would discard the signal, by a handler
/// that does nothing.
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

/// Stops this process until it receives SIGCONT.
///
/// # Errors
/// Those of kill(2).
pub fn stop_self() -> io::Result<()> {
    Ok(kill_process(getpid(), Signal::STOP)?)
}

fn empty() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set it is given.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// Whether this process ignores a signal, as one under nohup ignores `SIGHUP`.
///
/// # Errors
/// `EINVAL` for an invalid signal number.
pub fn is_ignored(signal: i32) -> io::Result<bool> {
    // SAFETY: a zeroed sigaction is a valid value; the kernel overwrites it.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only reads the present one.
    check(i64::from(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) }))?;
    Ok(action.sa_sigaction == libc::SIG_IGN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_becomes_data() {
        // The mask belongs to a thread, and each test has its own thread. The signal is sent to
        // this thread, where it is blocked.
        let fd = SignalFd::open(&[libc::SIGUSR1]).unwrap();
        assert_eq!(fd.next().unwrap(), None);
        // SAFETY: pthread_kill to the calling thread.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR1) };
        let signal = libc::SIGUSR1;
        let arrived = Arrived { signal, from_kernel: false, from_self: true, ignored: false };
        assert_eq!(fd.next().unwrap(), Some(arrived));
    }

    #[test]
    fn every_signal_of_the_kernel_can_be_received() {
        // signal(7): 31 standard signals, and the real-time signals that the C library does not
        // reserve.
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

//! Processes: waiting with resource usage and a time limit, signals that cannot reach another
//! process with the same id, and the start time, which distinguishes processes with the same id.
//!
//! Source: wait4(2), pidfd_open(2), pidfd_send_signal(2), process_madvise(2), proc_pid_stat(5).

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::check;

/// Resources that a process and the descendants it waited for have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Largest resident set of any of these processes.
    pub peak_rss_bytes: u64,
    /// Page faults served without input/output.
    pub minor_faults: u64,
    /// Page faults that waited for input/output.
    pub major_faults: u64,
    /// Context switches because a thread waited.
    pub voluntary_switches: u64,
    /// Context switches because the time slice ended or another thread had priority.
    pub involuntary_switches: u64,
}

impl From<&libc::rusage> for Usage {
    fn from(raw: &libc::rusage) -> Self {
        let count = |n: libc::c_long| u64::try_from(n).unwrap_or(0);
        let time = |t: libc::timeval| {
            Duration::from_secs(count(t.tv_sec)) + Duration::from_micros(count(t.tv_usec))
        };
        Self {
            user: time(raw.ru_utime),
            system: time(raw.ru_stime),
            // getrusage(2): ru_maxrss is in kilobytes (of 1024).
            peak_rss_bytes: count(raw.ru_maxrss).saturating_mul(1024),
            minor_faults: count(raw.ru_minflt),
            major_faults: count(raw.ru_majflt),
            voluntary_switches: count(raw.ru_nvcsw),
            involuntary_switches: count(raw.ru_nivcsw),
        }
    }
}

/// Waits for child `pid` to end and reaps it.
///
/// # Errors
/// `ECHILD` if it is not a child of this process or has been reaped already.
pub fn wait(pid: i32) -> io::Result<(ExitStatus, Usage)> {
    wait4(pid, 0).map(|(_, status, usage)| (status, usage))
}

/// Reaps child `pid` if it has ended. Returns `None` if it has not, or if a debugger reaps it
/// first.
///
/// # Errors
/// As [`wait`].
pub fn reap(pid: i32) -> io::Result<Option<Usage>> {
    wait4(pid, libc::WNOHANG).map(|(found, _, usage)| (found != 0).then_some(usage))
}

fn wait4(pid: i32, options: i32) -> io::Result<(i64, ExitStatus, Usage)> {
    let mut status = 0;
    // SAFETY: a zeroed rusage is a valid value of a struct of integers.
    let mut raw: libc::rusage = unsafe { std::mem::zeroed() };
    let found = retry(|| {
        // SAFETY: both pointers are to live locals of the right types.
        check(i64::from(unsafe { libc::wait4(pid, &raw mut status, options, &raw mut raw) }))
    })?;
    Ok((found, ExitStatus::from_raw(status), Usage::from(&raw)))
}

/// Sends `signal` to every process of a group, also a real-time signal, which rustix does not
/// support.
///
/// # Errors
/// `ESRCH` if the group is empty, `EPERM` if none of its processes may be signalled.
pub fn signal_group(group: i32, signal: i32) -> io::Result<()> {
    // Groups 0 and 1 would mean this process's own group and all processes (kill(2): -1).
    if group <= 1 {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    // SAFETY: kill takes two integers.
    check(i64::from(unsafe { libc::kill(-group, signal) })).map(drop)
}

/// A handle of a process, which stays valid when its id is reused.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// Opens a process.
    ///
    /// # Errors
    /// `ESRCH` if there is no process with this id.
    pub fn open(pid: i32) -> io::Result<Self> {
        let pid = Some(pid).filter(|pid| *pid > 0).and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        Ok(Self(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Sends a signal, also a real-time signal, which rustix does not support. Signal 0 only checks
    /// whether that is allowed.
    ///
    /// # Errors
    /// `ESRCH` if the process has ended and was reaped, `EPERM` without permission.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        let fd = self.0.as_raw_fd();
        let info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: a null siginfo selects that of kill(2); the rest are integers.
        check(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, info, 0) }).map(drop)
    }

    /// Tells the kernel that these pages of the process are cold, so it reclaims them first when
    /// memory is short. A huge page with a cold part is split into base pages (`MADV_COLD` in
    /// mm/madvise.c), unless another process shares it.
    ///
    /// # Errors
    /// `EPERM` without `CAP_SYS_NICE`, `ENOSYS` before Linux 5.10, `ENOMEM` for unmapped addresses,
    /// `EINVAL` for locked memory, `ESRCH` if the process has ended. Pages before the one that
    /// failed are marked.
    pub fn cold(&self, pages: &[Range<usize>]) -> io::Result<()> {
        let part = |range: &Range<usize>| libc::iovec {
            iov_base: std::ptr::without_provenance_mut(range.start),
            iov_len: range.len(),
        };
        let parts: Vec<libc::iovec> = pages.iter().map(part).collect();
        let (fd, advice) = (self.0.as_raw_fd(), libc::MADV_COLD);
        // SAFETY: the array is live and has the stated length. Its addresses belong to another
        // process, and nothing is read or written there.
        check(unsafe {
            libc::syscall(libc::SYS_process_madvise, fd, parts.as_ptr(), parts.len(), advice, 0)
        })
        .map(drop)
    }

    /// Waits until the process has ended, at most for `limit`. Returns whether it has.
    ///
    /// # Errors
    /// Those of poll(2) except `EINTR`.
    pub fn ended_within(&self, limit: Option<Duration>) -> io::Result<bool> {
        let deadline = limit.and_then(|l| Instant::now().checked_add(l));
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            // A limit that is too long for the kernel's type counts as none.
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], timeout.as_ref()) {
                Ok(0) if left.is_some_and(|left| left.is_zero()) => return Ok(false),
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// Readable when the process has ended.
impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The start time of process `pid` in clock ticks since boot. Together with the id it identifies a
/// process.
///
/// # Errors
/// `NotFound` if there is no such process, or if it has ended and is not reaped yet.
pub fn start_time(pid: u32) -> io::Result<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat"))?;
    let stat = Stat::parse(&stat).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat has no start time"))
    })?;
    if stat.has_ended() {
        let text = format!("process {pid} has ended");
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    Ok(stat.start_time)
}

/// CPU time that all threads of process `pid` have used, including ended threads. It is exact to
/// the nanosecond; `/proc/PID/stat` has clock ticks of ten milliseconds.
///
/// # Errors
/// `ESRCH` if there is no such process.
pub fn cpu_time(pid: i32) -> io::Result<Duration> {
    let mut clock = 0;
    // SAFETY: the pointer is to a live local of the right type.
    match unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) } {
        0 => {}
        status => return Err(io::Error::from_raw_os_error(status)),
    }
    // SAFETY: a zeroed timespec is a valid value of a struct of integers.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live local of the right type.
    check(i64::from(unsafe { libc::clock_gettime(clock, &raw mut time) }))?;
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Ok(Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0)))
}

/// Some fields of `/proc/PID/stat` (proc_pid_stat(5)).
struct Stat<'a> {
    state: &'a str,
    threads: u64,
    start_time: u64,
}

impl<'a> Stat<'a> {
    /// Parses fields 3, 20 and 22. They are counted from the last `)`, because field 2 is the
    /// program's name in parentheses, which may contain any bytes.
    fn parse(stat: &'a [u8]) -> Option<Self> {
        let name_end = stat.iter().rposition(|b| *b == b')')?;
        let mut fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?.split_whitespace();
        let state = fields.next()?;
        let threads = fields.nth(16)?.parse().ok()?;
        Some(Self { state, threads, start_time: fields.nth(1)?.parse().ok()? })
    }

    /// An ended first thread stays visible until all other threads have ended and the parent has
    /// waited.
    fn has_ended(&self) -> bool {
        matches!(self.state, "Z" | "X") && self.threads <= 1
    }
}

fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn pid(child: &std::process::Child) -> i32 {
        i32::try_from(child.id()).unwrap()
    }

    #[test]
    #[allow(clippy::zombie_processes, reason = "wait is what is tested")]
    fn usage_and_status_of_a_child() {
        let child = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let (status, usage) = wait(pid(&child)).unwrap();
        assert_eq!(status.code(), Some(7));
        assert!(usage.peak_rss_bytes > 100 << 10, "{usage:?}");
        assert!(usage.minor_faults > 0);
        assert_eq!(wait(pid(&child)).unwrap_err().raw_os_error(), Some(libc::ECHILD));
    }

    #[test]
    #[allow(clippy::zombie_processes, reason = "wait is what is tested")]
    fn a_limit_ends_the_wait_and_a_signal_the_child() {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let fd = PidFd::open(pid(&child)).unwrap();
        assert!(!fd.ended_within(Some(Duration::from_millis(1))).unwrap());
        assert_eq!(reap(pid(&child)).unwrap(), None);
        fd.signal(libc::SIGKILL).unwrap();
        assert!(fd.ended_within(None).unwrap());
        assert!(reap(pid(&child)).is_ok_and(|usage| usage.is_some()));
        assert_eq!(fd.signal(0).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn who_has_ended_and_is_not_waited_for_is_gone() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        assert!(start_time(child.id()).is_ok());
        let fd = PidFd::open(pid(&child)).unwrap();
        fd.signal(libc::SIGKILL).unwrap();
        assert!(fd.ended_within(None).unwrap());
        assert_eq!(start_time(child.id()).unwrap_err().kind(), io::ErrorKind::NotFound);
        child.wait().unwrap();
    }

    #[test]
    fn start_time_survives_odd_names() {
        let parsed = |state: &str, threads: u64| {
            let tail =
                format!("{state} 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 {threads} 18 4242 23");
            let text = format!("9 (a) S 1 (b) {tail}");
            Stat::parse(text.as_bytes()).map(|stat| (stat.start_time, stat.has_ended()))
        };
        assert_eq!(parsed("S", 1), Some((4242, false)));
        assert_eq!(parsed("Z", 1), Some((4242, true)));
        assert_eq!(parsed("Z", 3), Some((4242, false)), "its other threads still run");
        assert!(Stat::parse(b"9 (x").is_none());
        assert_eq!(
            start_time(std::process::id()).unwrap(),
            start_time(std::process::id()).unwrap()
        );
        assert_eq!(start_time(0).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn cpu_time_grows_by_work() {
        let me = i32::try_from(std::process::id()).unwrap();
        let before = cpu_time(me).unwrap();
        let (mut sum, deadline) = (0u64, Instant::now() + Duration::from_secs(60));
        while cpu_time(me).unwrap() < before + Duration::from_millis(5) {
            sum = std::hint::black_box(sum + 1);
            assert!(Instant::now() < deadline, "CPU time does not grow");
        }
        assert!(sum > 0);
        // Above the largest id that the kernel assigns.
        assert!(cpu_time((1 << 22) + 1).is_err());
    }

    #[test]
    fn no_group_means_everybody() {
        for group in [-1, 0, 1] {
            assert!(signal_group(group, 0).is_err());
        }
    }
}

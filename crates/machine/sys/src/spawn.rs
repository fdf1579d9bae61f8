//! Settings that a child makes between fork and exec: process group, CPUs, memory policy, huge
//! pages. It can also write its own identity into a file, in which others find it even if the
//! parent is killed right after the fork.
//!
//! Source: set_mempolicy(2), sched_setaffinity(2), prctl(2), setpgid(2). All of them survive
//! `execve`, so an unmodified program gets them. The code between fork and exec only makes system
//! calls on memory that was prepared before the fork. It neither allocates nor locks, because
//! another thread of the parent may have held a lock during the fork.

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Resource, getppid, getrlimit, setpgid, setsid};
use thiserror::Error;

use crate::mempolicy::{self, Mode};
use crate::prctl::ThpSwitch;
use crate::process::PidFd;
use crate::{affinity, check, open_files, prctl, signals};

/// The settings that the child makes. The default is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Makes it the leader of a new process group, through which all of its descendants can be
    /// signalled.
    pub new_group: bool,
    /// CPUs on which it may run, as mask words.
    pub cpus: Option<Vec<u64>>,
    /// Memory policy: mode, `mempolicy::F_*` flags, nodes as mask words.
    pub memory: Option<(Mode, i32, Vec<u64>)>,
    /// Disables or enables transparent huge pages.
    pub thp: Option<ThpSwitch>,
    /// Signal that it gets when the thread that started it ends.
    pub end_with_parent: Option<i32>,
}

/// One of the [`Steps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// `setpgid`.
    Group,
    /// `sched_setaffinity`.
    Cpus,
    /// `set_mempolicy`.
    Memory,
    /// `prctl(PR_SET_THP_DISABLE)`.
    Thp,
    /// `prctl(PR_SET_PDEATHSIG)`.
    ParentDeath,
}

impl Step {
    const ALL: [Self; 5] = [Self::Group, Self::Cpus, Self::Memory, Self::Thp, Self::ParentDeath];

    /// The system call.
    #[must_use]
    pub fn call(self) -> &'static str {
        match self {
            Self::Group => "setpgid",
            Self::Cpus => "sched_setaffinity",
            Self::Memory => "set_mempolicy",
            Self::Thp => "prctl(PR_SET_THP_DISABLE)",
            Self::ParentDeath => "prctl(PR_SET_PDEATHSIG)",
        }
    }
}

/// Why a program did not start.
#[derive(Debug, Error)]
pub enum SpawnError {
    /// A step failed in the child, before the program started.
    #[error("{} failed in the new process", step.call())]
    Step {
        /// The step.
        step: Step,
        /// Its errno.
        source: io::Error,
    },
    /// `fork` or `execve` failed.
    #[error(transparent)]
    Exec(io::Error),
}

/// Errnos are below 4096 (`MAX_ERRNO`). The number of the step is stored in the bits above, because
/// the child can report only one integer.
const STEP_SHIFT: u32 = 12;

impl From<io::Error> for SpawnError {
    fn from(error: io::Error) -> Self {
        let raw = error.raw_os_error().unwrap_or(0);
        let number = usize::try_from(raw >> STEP_SHIFT).unwrap_or(0);
        match number.checked_sub(1).and_then(|i| Step::ALL.get(i)) {
            Some(&step) => Self::Step {
                step,
                source: io::Error::from_raw_os_error(raw & ((1 << STEP_SHIFT) - 1)),
            },
            None => Self::Exec(error),
        }
    }
}

impl Steps {
    /// Carries out the steps in the calling thread, in the order of [`Step::ALL`].
    fn apply(&self, parent: u32, note: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if self.new_group {
            tagged(Step::Group, setpgid(None, None).map_err(io::Error::from))?;
        }
        if let Some(note) = note {
            // Before the check of the parent, so a child that passes the check has written its
            // note.
            note_self(note);
        }
        if let Some(cpus) = &self.cpus {
            tagged(Step::Cpus, affinity::set(0, cpus))?;
        }
        if let Some((mode, flags, nodes)) = &self.memory {
            tagged(Step::Memory, mempolicy::set_mempolicy(*mode, *flags, nodes))?;
        }
        if let Some(switch) = self.thp {
            tagged(Step::Thp, prctl::set_thp_switch(switch))?;
        }
        if let Some(signal) = self.end_with_parent {
            tagged(Step::ParentDeath, prctl::end_with_parent(parent, signal))?;
        }
        Ok(())
    }

    /// Carries out the steps in the calling thread, which executes the program itself. The parent
    /// of [`Steps::end_with_parent`] is that of this process.
    ///
    /// # Errors
    /// [`SpawnError::Step`]; the steps before the failed one have then changed this process.
    pub fn apply_here(&self) -> Result<(), SpawnError> {
        let parent = getppid().map_or(0, |pid| pid.as_raw_pid().unsigned_abs());
        self.apply(parent, None).map_err(SpawnError::from)
    }

    /// Makes `command` carry out the steps before the program starts.
    pub fn install(&self, command: &mut Command) {
        self.install_with_note(command, None);
    }

    /// As [`Steps::install`]. The new process also writes its `/proc/self/stat` into the file
    /// `note`, after it has joined its group and before it checks its parent. If that fails, the
    /// program starts without a note.
    pub fn install_with_note(&self, command: &mut Command, note: Option<OwnedFd>) {
        if *self == Self::default() && note.is_none() {
            return;
        }
        let steps = self.clone();
        let parent = std::process::id();
        // SAFETY: between fork and exec the closure makes system calls on memory that was allocated
        // before the fork. Creating an io::Error from a number allocates nothing.
        unsafe { command.pre_exec(move || steps.apply(parent, note.as_ref().map(AsFd::as_fd))) };
    }
}

/// Writes `/proc/self/stat` of the calling process into a file, using only system calls.
fn note_self(note: BorrowedFd<'_>) {
    // Longer than the file: 52 fields of at most 20 digits.
    let mut stat = [0_u8; 2048];
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path is a C string.
    let file = unsafe { libc::open(c"/proc/self/stat".as_ptr(), flags) };
    if file < 0 {
        return;
    }
    // SAFETY: the buffer is live and has the stated length.
    let length = unsafe { libc::read(file, stat.as_mut_ptr().cast(), stat.len()) };
    // SAFETY: the descriptor was opened above, and nothing else uses it.
    unsafe { libc::close(file) };
    if let Ok(length) = usize::try_from(length) {
        // SAFETY: that many bytes of the buffer were read above.
        unsafe { libc::write(note.as_raw_fd(), stat.as_ptr().cast(), length) };
    }
}

fn tagged(step: Step, result: io::Result<()>) -> io::Result<()> {
    result.map_err(|error| {
        let number = 1 + step as i32;
        io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(0) | number << STEP_SHIFT)
    })
}

/// Starts a command, and names the step if one fails. The program starts with no blocked signals
/// (this process may have blocked some to receive them) and with the limit of open files with which
/// this process began.
///
/// # Errors
/// [`SpawnError`]; nothing is left running.
pub fn spawn(command: &mut Command) -> Result<Child, SpawnError> {
    let own = || {
        open_files::put_back();
        signals::unblock_all()
    };
    // SAFETY: two system calls on values that were there before the fork.
    unsafe { command.pre_exec(own) };
    command.spawn().map_err(SpawnError::from)
}

/// Locked while a program is detached, because the setting of [`prctl::adopt_orphans`] applies to
/// the whole process.
static DETACHING: Mutex<()> = Mutex::new(());

/// A process that was started by [`detached`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detached {
    pid: i32,
    session: i32,
}

impl Detached {
    /// Opens the process. Returns `None` if it has ended.
    ///
    /// # Errors
    /// Those of pidfd_open(2) except `ESRCH`.
    pub fn open(self) -> io::Result<Option<PidFd>> {
        let found = PidFd::open(self.pid).and_then(|fd| {
            // SAFETY: getsid takes an integer.
            Ok((fd, check(i64::from(unsafe { libc::getsid(self.pid) }))?))
        });
        match found {
            // Nobody waits for it, so its number may be another process's by now. The leader of its
            // session has ended, so no other process can join that session but its descendants.
            Ok((fd, session)) => Ok((session == i64::from(self.session)).then_some(fd)),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Starts a command that is not a child of this process, even if this process [adopts
/// orphans](prctl::adopt_orphans), so nothing has to wait for it. It has its own session, every
/// signal at its default, and none of this process's open files except the three standard streams.
/// Other orphans are not adopted while it starts.
///
/// # Errors
/// Those of fork, setsid and execve; nothing is left running.
pub fn detached(command: &mut Command) -> io::Result<Detached> {
    let _alone = DETACHING.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut reader, writer) = io::pipe()?;
    let pipe = writer.as_raw_fd();
    // SAFETY: system calls only; the pipe is open until the command has started.
    unsafe { command.pre_exec(move || detach(pipe)) };
    let adopts = prctl::adopts_orphans();
    if adopts {
        prctl::leave_orphans()?;
    }
    // The intermediate process ends at once. An error of the second process is reported through the
    // pipe of the first.
    let started = command.spawn().and_then(|mut between| {
        between.wait()?;
        Ok(between.id().cast_signed())
    });
    if adopts {
        prctl::adopt_orphans()?;
    }
    let session = started?;
    drop(writer);
    let mut pid = [0; size_of::<libc::pid_t>()];
    reader.read_exact(&mut pid)?;
    Ok(Detached { pid: libc::pid_t::from_ne_bytes(pid), session })
}

/// Makes this process start another one, in a session of its own, and end. The other one goes on
/// with the command. Its number is written into the pipe.
fn detach(pipe: RawFd) -> io::Result<()> {
    signals::reset_all()?;
    close_at_exec()?;
    setsid()?;
    // SAFETY: the new process only makes system calls until it executes another program.
    let pid = unsafe { libc::fork() };
    if check(i64::from(pid))? == 0 {
        return Ok(());
    }
    let number = pid.to_ne_bytes();
    // SAFETY: the buffer is live and has the stated length, and the pipe is open. _exit runs no code
    // of this program.
    unsafe {
        libc::write(pipe, number.as_ptr().cast(), number.len());
        libc::_exit(0)
    }
}

/// Marks every file except the standard streams to be closed at exec, including those that this
/// process inherited.
fn close_at_exec() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: close_range takes three integers.
    let closed = check(unsafe {
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    });
    if closed.is_ok() {
        return Ok(());
    }
    // Before Linux 5.11: one by one, up to the limit.
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let end = i32::try_from(limit).unwrap_or(i32::MAX).min(1 << 16);
    for fd in FIRST.cast_signed()..end {
        // SAFETY: fcntl takes integers; a descriptor that is not open is refused.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

/// Replaces this process by the command. It returns only if that fails; the steps before the failed
/// one have then changed this process.
pub fn exec(command: &mut Command) -> SpawnError {
    open_files::put_back();
    command.exec().into()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};
    use std::os::fd::FromRawFd;

    use super::*;

    fn output(steps: &Steps, program: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(program);
        command.args(arguments);
        steps.install(&mut command);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    #[test]
    fn steps_are_seen_by_the_program() {
        let cpus = affinity::get(0).unwrap();
        let nodes = mempolicy::mems_allowed().unwrap();
        let steps = Steps {
            new_group: true,
            cpus: Some(cpus),
            memory: Some((Mode::Interleave, 0, nodes)),
            thp: Some(ThpSwitch::Disabled),
            end_with_parent: Some(libc::SIGKILL),
        };
        let maps = output(&steps, "cat", &["/proc/self/numa_maps"]);
        assert!(maps.lines().next().unwrap().contains("interleave:"), "{maps}");
        let status = output(&steps, "cat", &["/proc/self/status"]);
        assert!(status.contains("THP_enabled:\t0"), "{status}");
        let stat = output(&steps, "cat", &["/proc/self/stat"]);
        let fields: Vec<&str> = stat.split(' ').collect();
        assert_eq!(fields[0], fields[4], "it does not lead its process group");
    }

    #[test]
    fn a_program_has_noted_itself_before_it_runs() {
        let mut note = tempfile();
        let mut command = Command::new("cat");
        command.arg("/proc/self/stat");
        let steps = Steps { new_group: true, ..Steps::default() };
        steps.install_with_note(&mut command, Some(note.try_clone().unwrap().into()));
        let stat = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let mut noted = String::new();
        note.rewind().unwrap();
        note.read_to_string(&mut noted).unwrap();
        // After the name: parent, group and session; the start.
        let identity = |stat: &str| {
            let (pid, rest) = stat.split_once(' ').unwrap();
            let fields: Vec<&str> = rest.rsplit_once(')').unwrap().1.split_whitespace().collect();
            [pid, fields[1], fields[2], fields[3], fields[19]].map(str::to_owned)
        };
        assert_eq!(identity(&noted), identity(&stat), "{noted}");
        assert_eq!(
            identity(&noted)[0],
            identity(&noted)[2],
            "it does not lead its process group: {noted}"
        );
    }

    #[test]
    fn a_program_starts_without_the_note_that_it_cannot_make() {
        let (reader, writer) = io::pipe().unwrap();
        let mut command = Command::new("true");
        // The read end of a pipe cannot be written.
        Steps::default().install_with_note(&mut command, Some(reader.into()));
        assert!(spawn(&mut command).unwrap().wait().unwrap().success());
        drop(writer);
    }

    fn tempfile() -> std::fs::File {
        // SAFETY: the name is a C string.
        let fd = unsafe { libc::memfd_create(c"note".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: the kernel has just given us this descriptor.
        unsafe { std::fs::File::from_raw_fd(fd) }
    }

    #[test]
    fn a_failed_step_is_named_and_nothing_runs() {
        let mut command = Command::new("true");
        Steps { cpus: Some(vec![0]), ..Steps::default() }.install(&mut command);
        let error = spawn(&mut command).unwrap_err();
        assert_eq!(error.to_string(), "sched_setaffinity failed in the new process");
        assert!(matches!(
            error,
            SpawnError::Step { source, .. } if source.raw_os_error() == Some(libc::EINVAL)
        ));
        let mut command = Command::new("true");
        let memory = Some((Mode::Preferred, mempolicy::F_RELATIVE_NODES, Vec::new()));
        Steps { memory, ..Steps::default() }.install(&mut command);
        let error = spawn(&mut command).unwrap_err();
        assert!(matches!(error, SpawnError::Step { step: Step::Memory, .. }), "{error:?}");
    }

    #[test]
    fn signals_received_here_are_not_blocked_there() {
        let _receiver = signals::SignalFd::open(&[libc::SIGTERM]).unwrap();
        let mut command = Command::new("cat");
        command.arg("/proc/self/status").stdout(std::process::Stdio::piped());
        let output = spawn(&mut command).unwrap().wait_with_output().unwrap();
        let status = String::from_utf8(output.stdout).unwrap();
        assert!(status.contains("SigBlk:\t0000000000000000"), "{status}");
    }

    /// The setting for orphans applies to the process, so to all tests.
    fn alone() -> std::sync::MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn a_detached_program_is_nobodys_child_and_has_no_files_of_ours() {
        let _alone = alone();
        let (reader, writer) = io::pipe().unwrap();
        let (kept, _other) = io::pipe().unwrap();
        // Not closed at exec, like files that a shell passes on.
        // SAFETY: fcntl takes integers.
        unsafe { libc::fcntl(kept.as_raw_fd(), libc::F_SETFD, 0) };
        let _receiver = signals::SignalFd::open(&[libc::SIGTERM]).unwrap();
        // Signals of the process that the shell executes, because the shell blocks all signals for
        // a moment when it starts a program.
        let script = format!(
            "cut -d' ' -f1,4,6 /proc/$$/stat; test -e /proc/$$/fd/{} && echo open; \
             exec grep -E 'Sig(Blk|Ign)' /proc/self/status",
            kept.as_raw_fd()
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdin(std::process::Stdio::null());
        detached(command.stdout(writer)).unwrap();
        // The copy in the parent would keep the pipe open.
        drop(command);
        let text = io::read_to_string(reader).unwrap();
        let mut lines = text.lines();
        let ids: Vec<u32> =
            lines.next().unwrap().split(' ').map(|id| id.parse().unwrap()).collect();
        assert_ne!(ids[1], std::process::id(), "{text}");
        // The session is that of the intermediate process, which has ended.
        assert!(ids[2] != ids[0] && ids[2] != std::process::id(), "{text}");
        // Signals 32 and 33 are reserved by the C library.
        let mask = |line: &str| u64::from_str_radix(line.split('\t').nth(1).unwrap(), 16).unwrap();
        let masks: Vec<u64> = lines.map(|line| mask(line) & !(0b11 << 31)).collect();
        assert_eq!(masks, [0, 0], "{text}");
    }

    #[test]
    fn a_detached_program_is_not_adopted() {
        let _alone = alone();
        let (reader, writer) = io::pipe().unwrap();
        let (orders, go) = io::pipe().unwrap();
        let mut command = Command::new("sh");
        // Its parent is read after the intermediate process has ended.
        let script = "read go; cut -d' ' -f4 /proc/$$/stat";
        command.args(["-c", script]).stdin(orders).stdout(writer);
        prctl::adopt_orphans().unwrap();
        let started = detached(&mut command);
        assert!(prctl::adopts_orphans(), "the setting has changed");
        prctl::leave_orphans().unwrap();
        let program = started.unwrap();
        let fd = program.open().unwrap().unwrap();
        assert!(!fd.ended_within(Some(std::time::Duration::ZERO)).unwrap());
        // Another process's number.
        let other = Detached { pid: std::process::id().cast_signed(), ..program };
        assert!(other.open().unwrap().is_none());
        drop((command, go));
        let parent = io::read_to_string(reader).unwrap();
        assert_ne!(parent.trim(), std::process::id().to_string());
    }

    #[test]
    fn a_missing_detached_program_is_reported() {
        let _alone = alone();
        let error = detached(&mut Command::new("/nonexistent/program")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_missing_program_is_no_step() {
        let mut command = Command::new("/nonexistent/program");
        Steps { thp: Some(ThpSwitch::Disabled), ..Steps::default() }.install(&mut command);
        assert!(matches!(
            spawn(&mut command).unwrap_err(),
            SpawnError::Exec(e) if e.kind() == io::ErrorKind::NotFound
        ));
    }
}

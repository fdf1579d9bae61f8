//! The guard: a small process that outlives this one, and restores the settings that this one holds
//! if it is killed.
//!
//! ```text
//!  numapilot ---- pipe, without data -------------------> guard (numapilot restore --after PID:START)
//!      |                                                    |
//!    killed -> the pipe ends, the pidfd becomes readable -> settles dead processes: groups, settings
//! ```
//!
//! The guard is not a child of this process and has its own session. Its only open files are the
//! pipe and `/dev/null`, and its environment has only the variables that locate the journals. When
//! this process ends normally, it holds nothing any more and the guard ends too. If both are
//! killed, the next start of numapilot does the guard's work: for each group there is a [shared
//! file](crate::shared_file), into which the first process of the group has written its identity.
//! This process creates the file before the fork, and the child writes into it before the program
//! runs, so every group is known before the program has children. Processes that have left the
//! group are found by a [variable](RUN) in their environment, which names the process that started
//! the program.

use std::collections::HashSet;
use std::ffi::{CStr, OsStr, OsString};
use std::fs;
use std::io::{self, PipeWriter};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use numapilot_sys::process::{self, PidFd};
use numapilot_sys::spawn;
use procfs::FromRead;
use procfs::process::Stat;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::NamedTempFile;

use crate::{check_proc, name_prefix, scratch, shared_file};

/// The running program, even if its file was replaced meanwhile.
const PROGRAM: &str = "/proc/self/exe";
/// Its name in `ps`, which differs from numapilot, so a signal to all processes with that name does
/// not reach it. The kernel names a process after the file that it executes, which is
/// [`PROGRAM`] here, so the guard names itself.
const NAME: &CStr = c"numapilot-guard";
/// The variables that locate the journals and the files of this user.
const ENVIRONMENT: [&str; 3] = ["XDG_RUNTIME_DIR", "HOME", "TMPDIR"];

/// Time limit for a process that has closed its files and is ending.
const END: Duration = Duration::from_secs(60);
/// Time for the leader of a group to end normally after the kernel's signal about the end of its
/// parent. A database releases its shared memory in that time.
const GRACE: Duration = Duration::from_secs(10);
/// Pause between two looks at a group.
const LOOK: Duration = Duration::from_millis(5);
/// The [kind](shared_file) of the files with notes of groups.
const KIND: &str = "group";

/// The variable that [marks](run_mark) the processes of a run that ends with this process.
pub const RUN: &str = "NUMAPILOT_TUNE_RUN";

/// Whether this program can be started as a guard.
static ENABLED: AtomicBool = AtomicBool::new(false);
/// This process's end of the pipe, while there is a guard.
static PIPE: Mutex<Option<PipeWriter>> = Mutex::new(None);

/// Enables the guard in this program, which must be `numapilot`. Other programs that use this
/// library have no guard.
pub fn enable() {
    ENABLED.store(true, Ordering::Relaxed);
}

/// Starts the guard of this process, unless there is one.
///
/// # Errors
/// If it cannot be started. Then the next start of numapilot settles what this process leaves
/// behind.
pub fn start() -> io::Result<()> {
    let mut pipe = whole(&PIPE);
    if !ENABLED.load(Ordering::Relaxed) || pipe.as_ref().is_some_and(has_reader) {
        return Ok(());
    }
    let pid = std::process::id();
    let target = format!("{pid}:{}", process::start_time(pid)?);
    let (orders, writer) = io::pipe()?;
    let mut command = Command::new(PROGRAM);
    command
        .arg0(OsStr::from_bytes(NAME.to_bytes()))
        .args(["restore", "--after", &target])
        .env_clear()
        .current_dir("/");
    command.stdin(orders).stdout(Stdio::null()).stderr(Stdio::null());
    let kept = |name: &str| Some((name.to_owned(), std::env::var_os(name)?));
    command.envs(
        ENVIRONMENT.iter().filter_map(|name| kept(name)).collect::<Vec<(String, OsString)>>(),
    );
    spawn::detached(&mut command)?;
    *pipe = Some(writer);
    Ok(())
}

/// Locks a mutex whose value stays valid if a thread panics.
fn whole<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the guard lives. One that was killed needs a successor.
fn has_reader(pipe: &PipeWriter) -> bool {
    let mut fds = [PollFd::new(pipe, PollFlags::empty())];
    let now = Timespec::default();
    poll(&mut fds, Some(&now)).is_ok() && !fds[0].revents().contains(PollFlags::ERR)
}

/// A file into which a program that is about to start writes its process group. If this process is
/// killed afterwards, the group is ended. After this is dropped, it is not.
#[derive(Debug)]
pub struct GroupNote(NamedTempFile);

impl GroupNote {
    /// Creates an empty file, which stands for no group.
    pub(crate) fn new() -> io::Result<Self> {
        // The child would read ids of another namespace there.
        check_proc().map_err(io::Error::other)?;
        shared_file(KIND).map(Self)
    }

    /// The descriptor for [`numapilot_sys::spawn::Steps::install_with_note`].
    pub(crate) fn file(&self) -> io::Result<OwnedFd> {
        self.0.as_file().try_clone().map(OwnedFd::from)
    }
}

/// The value of [`RUN`] for the processes of a run that is to end with this process. `number`
/// distinguishes the runs of this process.
///
/// # Errors
/// Those of reading `/proc`.
pub fn run_mark(number: u64) -> io::Result<String> {
    Ok(format!("{}{number}", name_prefix("run")?))
}

/// Gives this process the name of the guard, and waits until process `pid`, which began at `start_time`, has ended. Returns `false` if the
/// process has executed another program, so there is nothing to guard.
///
/// # Errors
/// If the process cannot be watched.
pub fn wait_for_end(pid: u32, start_time: u64) -> io::Result<bool> {
    rustix::thread::set_name(NAME)?;
    // Opened before the identity is checked, so the check applies to the opened process.
    let number = i32::try_from(pid).map_err(io::Error::other)?;
    let process = match PidFd::open(number) {
        Ok(fd) => process::start_time(pid).is_ok_and(|time| time == start_time).then_some(fd),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => None,
        Err(error) => return Err(error),
    };
    io::copy(&mut io::stdin(), &mut io::sink())?;
    match process {
        Some(process) => process.ended_within(Some(END)),
        None => Ok(true),
    }
}

/// Ends the process groups that killed processes of this user have left behind, and the processes
/// outside these groups with the [mark](run_mark) of such a process. Returns a line for the user
/// about each.
#[must_use]
pub fn end_stale_groups() -> Vec<String> {
    let deadline = Instant::now() + GRACE;
    let notes: Vec<_> = scratch::stale_files(KIND).collect();
    if notes.is_empty() {
        // A process that has marked others keeps a note until they have ended.
        return Vec::new();
    }
    let groups = notes.iter().filter_map(|path| Group::read(path));
    let ended = groups.filter(|group| group.end(deadline));
    let mut ended: Vec<String> = ended
        .map(|group| format!("ended what was left in process group {}", group.leader))
        .collect();
    let marked = end_marked(deadline, scratch::is_of_dead_process);
    ended.extend(marked.into_iter().map(|(name, pid)| format!("ended {name} ({pid})")));
    ended
}

/// Kills the processes of this user whose [`RUN`] is chosen, and those that they start meanwhile.
/// Returns their names and ids.
fn end_marked(deadline: Instant, is_chosen: impl Fn(&str) -> bool) -> Vec<(String, i32)> {
    let (this, user) = (std::process::id().cast_signed(), rustix::process::geteuid().as_raw());
    let mut known = HashSet::new();
    let mut ended = Vec::new();
    loop {
        let before = known.len();
        for process in procfs::process::all_processes().into_iter().flatten().flatten() {
            if process.pid == this || !process.uid().is_ok_and(|owner| owner == user) {
                continue;
            }
            let mark = process.environ().ok().and_then(|mut all| all.remove(OsStr::new(RUN)));
            if !mark.and_then(|mark| mark.into_string().ok()).is_some_and(|mark| is_chosen(&mark)) {
                continue;
            }
            let Ok(fd) = PidFd::open(process.pid) else { continue };
            // `process` is tied to the process that was read. While it can be read, the id is not
            // reused.
            let Ok(stat) = process.stat() else { continue };
            if known.insert((stat.pid, stat.starttime)) && fd.signal(libc::SIGKILL).is_ok() {
                ended.push((stat.comm, stat.pid));
            }
        }
        if known.len() == before || Instant::now() >= deadline {
            return ended;
        }
    }
}

/// A process group whose id may have been reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group {
    /// Its id.
    leader: i32,
    /// Start time of its leader.
    start_time: u64,
    /// The session of all its processes.
    session: i32,
}

impl Group {
    /// Reads a [`GroupNote`]. Returns `None` if no process has written into it yet.
    fn read(note: &Path) -> Option<Self> {
        Self::parse(&fs::read(note).ok()?)
    }

    /// Parses `/proc/PID/stat` of its leader (proc_pid_stat(5)).
    fn parse(stat: &[u8]) -> Option<Self> {
        let stat = Stat::from_read(stat).ok()?;
        let group = Self { leader: stat.pid, start_time: stat.starttime, session: stat.session };
        (stat.pgrp == stat.pid).then_some(group)
    }

    /// Kills the remaining processes once the leader has ended or its time is over. Returns whether
    /// there were any.
    fn end(self, deadline: Instant) -> bool {
        let leader =
            || u32::try_from(self.leader).ok().and_then(|pid| process::start_time(pid).ok());
        loop {
            match leader() {
                Some(time) if time == self.start_time && Instant::now() < deadline => {
                    std::thread::sleep(LOOK);
                }
                Some(time) if time == self.start_time => break,
                // The id belongs to another process, so the group is gone.
                Some(_) => return false,
                // The id of a group is not reused while the group has members.
                None if self.has_members() => break,
                None => return false,
            }
        }
        process::signal_group(self.leader, libc::SIGKILL).is_ok()
    }

    /// Whether there are members that do not belong to a later group with the same id.
    fn has_members(self) -> bool {
        let processes = procfs::process::all_processes().into_iter().flatten().flatten();
        processes
            .filter_map(|process| process.stat().ok())
            .any(|stat| stat.pgrp == self.leader && stat.session == self.session)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn group_of(leader: u32) -> Group {
        Group::read(Path::new(&format!("/proc/{leader}/stat"))).unwrap()
    }

    #[test]
    fn a_note_that_names_no_group_is_none() {
        let of_cat = Command::new("cat").arg("/proc/self/stat").process_group(0).output().unwrap();
        assert!(Group::parse(&of_cat.stdout).is_some());
        // Before the child has written, and for a process in another group.
        let half = &of_cat.stdout[..20];
        let member = Command::new("cat").arg("/proc/self/stat").output().unwrap().stdout;
        for note in [&b""[..], b"nothing", half, &member] {
            assert_eq!(Group::parse(note), None, "{note:?}");
        }
    }

    /// The child's note suffices to find the group of a killed process. The parent does nothing for
    /// it after the fork.
    #[test]
    fn a_group_is_found_although_its_parent_was_killed_right_after_the_fork() {
        let directory = tempfile::tempdir().unwrap();
        let born = directory.path().join("born");
        let mut parent = Command::new(std::env::current_exe().unwrap());
        parent.args(["--exact", "guard::tests::a_parent_that_is_killed", "--nocapture"]);
        parent.env(BORN, &born).stdout(Stdio::null()).stderr(Stdio::null());
        let status = parent.status().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL), "{status}");
        let text = fs::read_to_string(&born).unwrap();
        // Another numapilot that is starting may have ended it already.
        if let Ok(grandchild) = PidFd::open(text.trim().parse().unwrap()) {
            let _ = end_stale_groups();
            assert!(grandchild.ended_within(Some(Duration::from_secs(60))).unwrap());
        }
        scratch::remove_stale_files();
    }

    /// The variable with the file into which the program writes the id of its child.
    const BORN: &str = "NUMAPILOT_TEST_BORN";

    /// The parent in that test, which starts this one as a process.
    #[test]
    fn a_parent_that_is_killed() {
        let Some(born) = std::env::var_os(BORN) else { return };
        let script = "sleep 600 & echo $! > \"$0.new\"; mv \"$0.new\" \"$0\"; wait";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&born).stdin(Stdio::null());
        let end_with_parent = Some(libc::SIGKILL);
        let steps = spawn::Steps { new_group: true, end_with_parent, ..spawn::Steps::default() };
        let note = GroupNote::new().unwrap();
        steps.install_with_note(&mut command, Some(note.file().unwrap()));
        let mut child = spawn::spawn(&mut command).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !Path::new(&born).exists() && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
        let this = PidFd::open(std::process::id().cast_signed()).unwrap();
        this.signal(libc::SIGKILL).unwrap();
        // Not reached: the parent is killed.
        child.wait().unwrap();
    }

    #[test]
    fn a_group_ends_with_those_that_outlived_its_leader() {
        let script = "sleep 600 & echo $!";
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0).stdout(Stdio::piped());
        let mut leader = command.spawn().unwrap();
        let group = group_of(leader.id());
        let mut line = String::new();
        BufReader::new(leader.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let sleeper = PidFd::open(line.trim().parse().unwrap()).unwrap();
        leader.wait().unwrap();
        let later = Group { session: group.session + 1, ..group };
        assert!(!later.end(Instant::now()), "a group in another session must be spared");
        assert!(!sleeper.ended_within(Some(Duration::ZERO)).unwrap());
        assert!(group.end(Instant::now()));
        assert!(sleeper.ended_within(Some(Duration::from_secs(60))).unwrap());
    }

    #[test]
    fn a_stranger_with_the_number_is_spared() {
        let mut stranger = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let group = group_of(stranger.id());
        assert!(!Group { start_time: group.start_time + 1, ..group }.end(Instant::now()));
        assert!(process::start_time(stranger.id()).is_ok());
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }

    /// A program in its own session, which is found only by its environment.
    #[test]
    fn what_has_left_the_group_is_reported_by_its_mark() {
        let this = format!("{}:", run_mark(0).unwrap());
        let marked = |mark: &str| {
            let mut command = Command::new("setsid");
            command.args(["sleep", "600"]).env(RUN, mark).stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let (mine, stranger) = (format!("{this}mine"), format!("{this}stranger"));
        let mut children = [marked(&mine), marked(&stranger)];
        let pids = children.each_ref().map(|child| child.id().cast_signed());
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut ended = Vec::new();
        // The mark is visible once the program runs.
        while ended.is_empty() && Instant::now() < deadline {
            ended = end_marked(deadline, |mark| mark == mine);
        }
        let ended: Vec<i32> = ended.into_iter().map(|(_, pid)| pid).collect();
        let lives = process::start_time(children[1].id()).is_ok();
        for child in &mut children {
            let _ = child.kill();
        }
        let statuses = children.each_mut().map(|child| child.wait().unwrap().signal());
        assert_eq!(ended, [pids[0]]);
        assert!(lives, "{statuses:?}");
    }

    #[test]
    fn marks_of_the_living_are_no_marks_of_the_dead() {
        assert!(!scratch::is_of_dead_process(&run_mark(3).unwrap()));
        assert!(!scratch::is_of_dead_process("prepare"));
        let mark = run_mark(3).unwrap();
        let (process, _) = mark.rsplit_once('.').unwrap();
        // The same id with another start time.
        assert!(scratch::is_of_dead_process(&format!("{process}.1-3")));
    }

    #[test]
    fn a_guard_that_was_killed_is_noticed() {
        let (reader, writer) = io::pipe().unwrap();
        assert!(has_reader(&writer));
        drop(reader);
        assert!(!has_reader(&writer));
    }

    #[test]
    fn other_programs_have_no_guard() {
        start().unwrap();
        assert!(whole(&PIPE).is_none());
    }
}

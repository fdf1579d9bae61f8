//! The guard: a small process that outlives this one, so that what this one holds comes back by
//! itself when it is killed.
//!
//! ```text
//!  numapilot ---- pipe, in which nothing is written ----> guard (numapilot restore --after PID:START)
//!      |                                                    |
//!    killed -> the pipe ends, the pidfd says when -> settles the dead: their groups, their settings
//! ```
//!
//! It is nobody's child and in a session of its own; it has no open files but the pipe and
//! `/dev/null`, and no environment but what finds the journals. When this process ends in order,
//! nothing is held any more and the guard ends, too. Should both be killed, the next start of
//! numapilot does the same: for each group there is a [shared file](crate::shared_file), in which
//! the first process of the group has noted itself. This process makes the file before the fork,
//! and the child writes into it before the program runs, so that there is no moment at which the
//! program has a child and nobody knows of its group. What has left that group is found by a
//! [variable](RUN) in its environment, which names the process that has started the program.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, PipeWriter};
use std::os::fd::OwnedFd;
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

/// The running program, also when its file was replaced meanwhile.
const PROGRAM: &str = "/proc/self/exe";
/// What it is called in `ps`: a signal to everything named numapilot does not hit it.
const NAME: &str = "numapilot-guard";
/// What finds the journals and the files of this user.
const ENVIRONMENT: [&str; 3] = ["XDG_RUNTIME_DIR", "HOME", "TMPDIR"];

/// For a process that closes its files while it ends.
const END: Duration = Duration::from_secs(60);
/// For the leader of a group, which has been told of its parent's end by the kernel, to end in
/// order: a database gives its shared memory back.
const GRACE: Duration = Duration::from_secs(10);
/// Between two looks at a group.
const LOOK: Duration = Duration::from_millis(5);
/// The [kind](shared_file) of the files in which groups are noted.
const KIND: &str = "group";

/// Variable that [marks](run_mark) the processes of a run that ends with this process.
pub const RUN: &str = "NUMAPILOT_TUNE_RUN";

/// Whether this program understands what a guard is started with.
static ENABLED: AtomicBool = AtomicBool::new(false);
/// Its end of the pipe, while there is a guard.
static PIPE: Mutex<Option<PipeWriter>> = Mutex::new(None);

/// Says that this program is `numapilot`, which can be its own guard. Other programs that use
/// this library have none.
pub fn enable() {
    ENABLED.store(true, Ordering::Relaxed);
}

/// Has a guard for this process, one at the most.
///
/// # Errors
/// When it cannot be started: then what this process leaves is put back by the next start of
/// numapilot.
pub fn start() -> io::Result<()> {
    let mut pipe = whole(&PIPE);
    if !ENABLED.load(Ordering::Relaxed) || pipe.as_ref().is_some_and(has_reader) {
        return Ok(());
    }
    let pid = std::process::id();
    let target = format!("{pid}:{}", process::start_time(pid)?);
    let (orders, writer) = io::pipe()?;
    let mut command = Command::new(PROGRAM);
    command.arg0(NAME).args(["restore", "--after", &target]).env_clear().current_dir("/");
    command.stdin(orders).stdout(Stdio::null()).stderr(Stdio::null());
    let kept = |name: &str| Some((name.to_owned(), std::env::var_os(name)?));
    command.envs(
        ENVIRONMENT.iter().filter_map(|name| kept(name)).collect::<Vec<(String, OsString)>>(),
    );
    spawn::detached(&mut command)?;
    *pipe = Some(writer);
    Ok(())
}

/// It is whole whatever happened to the thread that used it.
fn whole<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the guard lives; one that was killed needs a successor.
fn has_reader(pipe: &PipeWriter) -> bool {
    let mut fds = [PollFd::new(pipe, PollFlags::empty())];
    let now = Timespec::default();
    poll(&mut fds, Some(&now)).is_ok() && !fds[0].revents().contains(PollFlags::ERR)
}

/// A file in which a program that is about to start notes its process group. Should this process
/// be killed afterwards, the group is ended; dropped, the group is this process's business no
/// longer.
#[derive(Debug)]
pub struct GroupNote(NamedTempFile);

impl GroupNote {
    /// An empty file, which stands for no group.
    pub(crate) fn new() -> io::Result<Self> {
        // What the child reads of itself there would be numbers of another namespace.
        check_proc().map_err(io::Error::other)?;
        shared_file(KIND).map(Self)
    }

    /// For [`numapilot_sys::spawn::Steps::install_with_note`].
    pub(crate) fn file(&self) -> io::Result<OwnedFd> {
        self.0.as_file().try_clone().map(OwnedFd::from)
    }
}

/// The value of [`RUN`] for the processes of a run that is to end with this process; `number`
/// tells the runs of this process apart.
///
/// # Errors
/// Those of reading `/proc`.
pub fn run_mark(number: u64) -> io::Result<String> {
    Ok(format!("{}{number}", name_prefix("run")?))
}

/// What a guard does first: waits until process `pid`, which began at `start_time`, has ended.
/// `false` when the process goes on as another program, so that there is nothing to guard.
///
/// # Errors
/// When the process cannot be watched.
pub fn wait_for_end(pid: u32, start_time: u64) -> io::Result<bool> {
    // Opened before its identity is checked, so that it is the one that was checked.
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

/// Ends the groups of programs that processes of this user have left which were killed, and what
/// has left these groups but carries the [mark](run_mark) of such a process; those that somebody
/// was left of, for people.
#[must_use]
pub fn end_stale_groups() -> Vec<String> {
    let deadline = Instant::now() + GRACE;
    let notes: Vec<_> = scratch::stale_files(KIND).collect();
    if notes.is_empty() {
        // Whoever has marked a process has a note until it has ended.
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

/// Kills the processes of this user whose [`RUN`] is chosen, and those that they start meanwhile;
/// their names and numbers.
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
            // `process` is tied to the one that was read: while it answers, the number is its own.
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

/// A process group whose number may have become another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group {
    /// Its number.
    leader: i32,
    /// When its leader began.
    start_time: u64,
    /// The session that all of a group are in.
    session: i32,
}

impl Group {
    /// What a [`GroupNote`] says; nothing before a process has noted itself in it.
    fn read(note: &Path) -> Option<Self> {
        Self::parse(&fs::read(note).ok()?)
    }

    /// From `/proc/PID/stat` of its leader (proc_pid_stat(5)).
    fn parse(stat: &[u8]) -> Option<Self> {
        let stat = Stat::from_read(stat).ok()?;
        let group = Self { leader: stat.pid, start_time: stat.starttime, session: stat.session };
        (stat.pgrp == stat.pid).then_some(group)
    }

    /// Kills what is left once the leader has ended or had its time; whether there was anything.
    fn end(self, deadline: Instant) -> bool {
        let leader =
            || u32::try_from(self.leader).ok().and_then(|pid| process::start_time(pid).ok());
        loop {
            match leader() {
                Some(time) if time == self.start_time && Instant::now() < deadline => {
                    std::thread::sleep(LOOK);
                }
                Some(time) if time == self.start_time => break,
                // The number is another process's: nobody was left of the group.
                Some(_) => return false,
                // A group keeps its number from being given away as long as it has members.
                None if self.has_members() => break,
                None => return false,
            }
        }
        process::signal_group(self.leader, libc::SIGKILL).is_ok()
    }

    /// Whether there are any, and not those of a later group whose leader has ended as well.
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
        // Before the child has written, and of a process in another's group.
        let half = &of_cat.stdout[..20];
        let member = Command::new("cat").arg("/proc/self/stat").output().unwrap().stdout;
        for note in [&b""[..], b"nothing", half, &member] {
            assert_eq!(Group::parse(note), None, "{note:?}");
        }
    }

    /// What a process that is killed leaves is told by what its child has noted, and by nothing
    /// that it would have done itself after the fork.
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
        // Another numapilot that starts at this moment may have ended it already.
        if let Ok(grandchild) = PidFd::open(text.trim().parse().unwrap()) {
            let _ = end_stale_groups();
            assert!(grandchild.ended_within(Some(Duration::from_secs(60))).unwrap());
        }
        scratch::remove_stale_files();
    }

    /// Where the program writes the number of its own child.
    const BORN: &str = "NUMAPILOT_TEST_BORN";

    /// The parent of that test, when it is started by it.
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
        // Not reached.
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
        assert!(!later.end(Instant::now()), "those of another session are strangers");
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

    /// A program in a session of its own, whose environment is all that tells whose it is.
    #[test]
    fn what_has_left_the_group_is_told_by_its_mark() {
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
        // The mark is seen once the program runs.
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
        // The same number, and another start.
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

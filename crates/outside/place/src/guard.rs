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
//! numapilot does the same: a [shared file](crate::shared_file) is named after each group.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, PipeWriter};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use numapilot_sys::process::{self, PidFd};
use numapilot_sys::spawn;
use procfs::process::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::NamedTempFile;

use crate::{scratch, shared_file};

/// The running program, also when its file was replaced meanwhile.
const PROGRAM: &str = "/proc/self/exe";
/// What it is called in `ps`: a signal to everything named numapilot does not hit it.
const NAME: &str = "numapilot-guard";
/// What finds the journals and the files of this user.
const ENVIRONMENT: [&str; 2] = ["XDG_RUNTIME_DIR", "TMPDIR"];

/// For a process that closes its files while it ends.
const END: Duration = Duration::from_secs(60);
/// For the leader of a group, which has been told of its parent's end by the kernel, to end in
/// order: a database gives its shared memory back.
const GRACE: Duration = Duration::from_secs(10);
/// Between two looks at a group.
const LOOK: Duration = Duration::from_millis(5);

/// Whether this program understands what a guard is started with.
static ENABLED: AtomicBool = AtomicBool::new(false);
/// Its end of the pipe, while there is a guard.
static PIPE: Mutex<Option<PipeWriter>> = Mutex::new(None);
/// A file for each group that ends with this process.
static GROUPS: Mutex<BTreeMap<i32, NamedTempFile>> = Mutex::new(BTreeMap::new());

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

/// Has the group of a program that this process has started ended, should this process be killed.
pub(crate) fn watch_group(group: i32) {
    if let Ok(group_file) = Group::of(group).and_then(|group| shared_file(&group.kind())) {
        whole(&GROUPS).insert(group, group_file);
    }
}

/// The group is this process's business no longer.
pub(crate) fn forget_group(group: i32) {
    whole(&GROUPS).remove(&group);
}

/// What a guard does first: waits until process `pid`, which began at `start_time`, has ended.
/// `false` when the process goes on as another program, so that there is nothing to guard.
///
/// # Errors
/// When the process cannot be watched.
pub fn attend(pid: u32, start_time: u64) -> io::Result<bool> {
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

/// Ends the groups of programs that processes of this user have left which were killed; those that
/// somebody was left of, for people.
#[must_use]
pub fn end_stale_groups() -> Vec<String> {
    let deadline = Instant::now() + GRACE;
    let groups = scratch::stale_kinds().filter_map(|kind| Group::parse(&kind));
    let ended = groups.filter(|group| group.end(deadline));
    ended.map(|group| format!("ended what was left in process group {}", group.leader)).collect()
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
    fn of(leader: i32) -> io::Result<Self> {
        let stat = Process::new(leader).and_then(|process| process.stat());
        let stat = stat.map_err(io::Error::other)?;
        Ok(Self { leader, start_time: stat.starttime, session: stat.session })
    }

    /// The [kind](shared_file) of its file.
    fn kind(self) -> String {
        format!("group.{}.{}.{}", self.leader, self.start_time, self.session)
    }

    fn parse(kind: &str) -> Option<Self> {
        let mut numbers = kind.strip_prefix("group.")?.split('.');
        let leader = numbers.next()?.parse().ok()?;
        let start_time = numbers.next()?.parse().ok()?;
        Some(Self { leader, start_time, session: numbers.next()?.parse().ok()? })
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

    use super::*;

    #[test]
    fn a_group_is_found_by_the_name_of_its_file() {
        let group = Group { leader: 5, start_time: 100, session: 3 };
        assert_eq!(Group::parse(&group.kind()), Some(group));
        for kind in ["bind", "group.5", "group.5.x.3", "group.5.100"] {
            assert_eq!(Group::parse(kind), None, "{kind}");
        }
    }

    #[test]
    fn a_group_ends_with_those_that_outlived_its_leader() {
        let script = "sleep 600 & echo $!";
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0).stdout(Stdio::piped());
        let mut leader = command.spawn().unwrap();
        let group = Group::of(leader.id().cast_signed()).unwrap();
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
        let group = Group::of(stranger.id().cast_signed()).unwrap();
        assert!(!Group { start_time: group.start_time + 1, ..group }.end(Instant::now()));
        assert!(process::start_time(stranger.id()).is_ok());
        stranger.kill().unwrap();
        stranger.wait().unwrap();
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

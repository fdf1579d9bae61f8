//! The guard: a small process that outlives this one, so that what this one holds comes back by
//! itself when it is killed.
//!
//! ```text
//!  numapilot ---- pipe: "+GROUP START", "-GROUP" ----> guard (numapilot restore --after PID:START)
//!      |                                                 |
//!    killed -> the pipe ends, the pidfd says when -> ends the groups, then settles the dead
//! ```
//!
//! It is nobody's child and in a session of its own; it has no open files but the pipe and
//! `/dev/null`, and no environment but what finds the journals. When this process ends in order,
//! nothing is held any more and the guard ends, too.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use numapilot_sys::process::{self, PidFd};
use numapilot_sys::spawn;

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
    let mut pipe = pipe();
    if pipe.is_some() || !ENABLED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let pid = std::process::id();
    let target = format!("{pid}:{}", process::start_time(pid)?);
    let (orders, writer) = io::pipe()?;
    // A guard that does not read must not hold up this process.
    rustix::io::ioctl_fionbio(&writer, true)?;
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

fn pipe() -> MutexGuard<'static, Option<PipeWriter>> {
    // It is whole whatever happened to the thread that used it.
    PIPE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the guard end the group of a program that this process has started, should this process
/// be killed.
pub(crate) fn watch_group(group: i32) {
    // Without a guard the leader still gets the kernel's signal.
    let _ = start();
    let start = u32::try_from(group).map_err(io::Error::other).and_then(process::start_time);
    tell(&format!("+{group} {}\n", start.unwrap_or(0)));
}

/// The group is this process's business no longer.
pub(crate) fn forget_group(group: i32) {
    tell(&format!("-{group}\n"));
}

fn tell(line: &str) {
    let mut pipe = pipe();
    if let Some(writer) = &mut *pipe
        && writer.write_all(line.as_bytes()).is_err()
    {
        // It was killed; the next change has a new one.
        *pipe = None;
    }
}

/// What a guard does first: waits until process `pid`, which began at `start_time`, has ended,
/// and ends the groups of programs that it has left. `false` when the process goes on as another
/// program, so that there is nothing to guard.
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
    let groups = groups(BufReader::new(io::stdin()));
    if let Some(process) = process
        && !process.ended_within(Some(END))?
    {
        return Ok(false);
    }
    let deadline = Instant::now() + GRACE;
    for (group, start) in groups {
        end_group(group, start, deadline);
    }
    Ok(true)
}

/// The groups that are left at the end of what was told, each with the start time of its leader.
fn groups(told: impl BufRead) -> BTreeMap<i32, u64> {
    let mut groups = BTreeMap::new();
    for line in told.lines().map_while(Result::ok) {
        if let Some(group) = line.strip_prefix('-').and_then(|text| text.parse().ok()) {
            groups.remove(&group);
        } else if let Some((group, start)) =
            line.strip_prefix('+').and_then(|text| text.split_once(' '))
            && let (Ok(group), Ok(start)) = (group.parse(), start.parse())
        {
            groups.insert(group, start);
        }
    }
    groups
}

/// Kills what is left of a group once its leader has ended or had its time.
fn end_group(group: i32, start: u64, deadline: Instant) {
    let leader = || u32::try_from(group).ok().and_then(|pid| process::start_time(pid).ok());
    loop {
        match leader() {
            Some(time) if time == start && Instant::now() < deadline => std::thread::sleep(LOOK),
            // The number is another process's: nobody was left of the group.
            Some(time) if time != start => return,
            // A group keeps its number from being given away as long as it has members.
            _ => break,
        }
    }
    // Nobody there: that is what it was for.
    let _ = process::signal_group(group, libc::SIGKILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_forgotten_is_not_left() {
        let told = "+5 100\n+6 7\nnonsense\n+x 1\n-5\n+8 9\n-9\n+10";
        let left: Vec<(i32, u64)> = groups(told.as_bytes()).into_iter().collect();
        assert_eq!(left, [(6, 7), (8, 9)]);
    }

    #[test]
    fn a_group_ends_with_those_that_outlived_its_leader() {
        let script = "sleep 600 & echo $!";
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0).stdout(Stdio::piped());
        let mut leader = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(leader.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let sleeper = PidFd::open(line.trim().parse().unwrap()).unwrap();
        leader.wait().unwrap();
        end_group(leader.id().cast_signed(), 1, Instant::now());
        assert!(sleeper.ended_within(Some(Duration::from_secs(60))).unwrap());
    }

    #[test]
    fn a_stranger_with_the_number_is_spared() {
        let mut stranger = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let started = process::start_time(stranger.id()).unwrap();
        end_group(stranger.id().cast_signed(), started + 1, Instant::now());
        assert!(process::start_time(stranger.id()).is_ok());
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }

    #[test]
    fn other_programs_have_no_guard() {
        start().unwrap();
        assert!(pipe().is_none());
    }
}

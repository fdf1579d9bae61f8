//! Tests of signals, terminals and job control.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use numapilot_sys::process::PidFd;
use numapilot_sys::signals::catchable;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::NUMAPILOT;

/// A supervised program that has printed "ready".
fn ready(script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = Command::new(NUMAPILOT)
        .args(["run", "--verbose", "sh", "-c", script])
        // Without a terminal, the tests' own group is orphaned, and the kernel ignores SIGTSTP in
        // it. A group whose parent is in another group of the session is not orphaned.
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("ready"), "{line}");
    (child, stdout)
}

fn signal(child: &Child, signal: i32) {
    PidFd::open(child.id().cast_signed()).unwrap().signal(signal).unwrap();
}

#[test]
fn a_signal_that_ends_the_program_is_the_status() {
    let (mut child, _) = ready("echo ready; exec sleep 600");
    signal(&child, libc::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
}

/// Every signal that can be caught, including those that a list by hand would miss: SIGPWR, SIGIO,
/// SIGPIPE, which the runtime ignores, and SIGRTMIN+3, which stops containers.
#[test]
fn all_signals_reach_the_program() {
    // Signals that stop have their own test; SIGCHLD concerns numapilot's own children.
    let special = [libc::SIGCHLD, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    let mut signals = catchable();
    signals.retain(|signal| !special.contains(signal));
    let traps: String = signals.iter().map(|s| format!("trap 'echo got {s}' {s}; ")).collect();
    let (mut child, mut stdout) =
        // Without numapilot, this ends.
        ready(&format!("{traps}echo ready; while [ -d /proc/$PPID ]; do sleep 0.005; done"));
    for number in signals {
        signal(&child, number);
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, format!("got {number}\n"));
    }
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
}

/// As with `ssh -t host numapilot run`: a terminal that hangs up tells only the leader of its
/// session.
#[test]
fn a_hang_up_reaches_the_program_of_a_session_leader() {
    let directory = tempfile::tempdir().unwrap();
    let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&keys).unwrap();
    unlockpt(&keys).unwrap();
    let name = ptsname(&keys, Vec::new()).unwrap().into_string().unwrap();
    let end = || fs::File::options().read(true).write(true).open(&name).unwrap();
    let script = "trap 'echo hung up >hup; exit 9' HUP; echo >ready; while :; do sleep 0.01; done";
    let mut child = Command::new("setsid")
        .args(["--ctty", NUMAPILOT, "run", "--verbose", "sh", "-c", script])
        .current_dir(directory.path())
        .stdin(end())
        .stdout(end())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let path = |name: &str| directory.path().join(name);
    while !path("ready").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(keys);
    assert_eq!(child.wait().unwrap().code(), Some(9));
    assert_eq!(fs::read_to_string(path("hup")).unwrap(), "hung up\n");
}

/// Field 3 of /proc/PID/stat.
fn state(pid: u32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat[stat.rfind(')').unwrap() + 2..].chars().next().unwrap()
}

fn becomes(pid: u32, wanted: impl Fn(char) -> bool) {
    for _ in 0..1000 {
        if wanted(state(pid)) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("process {pid} stays in state {}", state(pid));
}

#[test]
fn stopping_stops_both_and_continuing_continues_both() {
    let (mut child, mut stdout) = ready("echo ready; echo $$; exec sleep 600");
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let program: u32 = line.trim().parse().unwrap();
    for stop in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
        signal(&child, stop);
        becomes(child.id(), |s| s == 'T');
        becomes(program, |s| s == 'T');
        signal(&child, libc::SIGCONT);
        becomes(child.id(), |s| s != 'T');
        becomes(program, |s| s != 'T');
    }
    signal(&child, libc::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
}

#[test]
fn an_ignored_hangup_stays_ignored() {
    let mut child = Command::new("nohup")
        .args([
            NUMAPILOT,
            "run",
            "--verbose",
            "sh",
            "-c",
            "echo ready; grep SigIgn /proc/$$/status",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    let mask = text.lines().find_map(|l| l.strip_prefix("SigIgn:\t")).unwrap();
    assert_eq!(u64::from_str_radix(mask, 16).unwrap() & 1, 1, "{text}");
    assert!(child.wait().unwrap().success());
}

/// The program has inherited that the signal is ignored. One that handles it nevertheless gets it, as
/// without numapilot in between.
#[test]
fn a_program_that_handles_an_ignored_signal_gets_it() {
    let mut child = Command::new("nohup")
        .args([NUMAPILOT, "run", "--verbose", "perl", "-e"])
        .arg("$| = 1; $SIG{HUP} = sub { exit 7 }; print qq(ready\\n); sleep 600")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    signal(&child, libc::SIGHUP);
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

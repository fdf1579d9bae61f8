//! `numapilot cores` as a user runs it: every way to hold a target that works here, and that it
//! is as it was afterwards. cgroup v2 is tried on an emulated machine (`lab/cores.rs`).
#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod guests;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use guests::{NUMAPILOT, compiled, err, signal};
use numapilot_sys::process::PidFd;
use predicates::prelude::*;
use serde_json::Value;

fn cores(arguments: &[&str]) -> assert_cmd::Command {
    let mut command = assert_cmd::Command::cargo_bin("numapilot").unwrap();
    command.arg("cores").args(arguments);
    command
}

/// No core belongs to two targets: two tests at a time would take them from each other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A target that is ended when this is dropped.
struct Target(Child);

impl Target {
    fn start(command: &mut Command) -> Self {
        let command = command.process_group(0);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut target = Self(child);
        let mut line = String::new();
        BufReader::new(target.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        target
    }

    fn idle() -> Self {
        Self::start(Command::new("sh").args(["-c", "echo ready; read x"]))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// CPUs that each of its threads may use.
    fn cpus(&self) -> BTreeSet<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let status = |task: fs::DirEntry| fs::read_to_string(task.path().join("status")).ok();
        let texts: Vec<String> = tasks.flatten().filter_map(status).collect();
        let list = |text: &String| {
            let line = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            line.unwrap().trim().to_owned()
        };
        texts.iter().map(list).collect()
    }

    fn groups(&self) -> String {
        fs::read_to_string(format!("/proc/{}/cgroup", self.0.id())).unwrap()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // With what it has started.
        let group = format!("-{}", self.pid());
        let _ = Command::new("kill").args(["-9", "--", &group]).status();
        let _ = self.0.wait();
    }
}

fn daemon(arguments: &[&str]) -> Child {
    let mut command = Command::new(NUMAPILOT);
    command.arg("cores").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Waits for what comes soon, but on a machine that others use, too.
fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn all_cpus() -> usize {
    numapilot_topology::read("/".as_ref()).unwrap().allowed.cpus.len()
}

/// The ways to hold a target that work here, with more than one CPU to choose from.
fn ways() -> Vec<&'static str> {
    if all_cpus() < 2 {
        println!("skipped: one CPU");
        return Vec::new();
    }
    let works = |way: &&str| {
        let target = Target::idle();
        let output = cores(&["-p", &target.pid(), "--actuator", way, "--dry-run"])
            .timeout(Duration::from_secs(1))
            .output()
            .unwrap();
        let refused = err(&output).contains("cannot be held");
        if refused {
            println!("skipped: {}", err(&output).trim());
        }
        !refused
    };
    ["cgroup-v1", "affinity"].into_iter().filter(works).collect()
}

#[test]
fn the_status_of_the_program_is_passed_through() {
    let _alone = alone();
    for status in [0, 7] {
        let script = format!("echo out; exit {status}");
        cores(&["--", "sh", "-c", &script]).assert().code(status).stdout("out\n");
    }
    cores(&["--", "sh", "-c", "kill -9 $$"]).assert().code(137);
    // As with run, stat, tune and top no `--` is needed.
    cores(&["sh", "-c", "echo out; exit 7"]).assert().code(7).stdout("out\n");
    cores(&["--tick", "50ms", "sh", "-c", "echo $0 $1", "-v", "--max"])
        .assert()
        .code(0)
        .stdout("-v --max\n");
    cores(&["--", "/nonexistent/program"]).assert().code(127);
    cores(&["--", "/etc/passwd"]).assert().code(126);
}

#[test]
fn what_cannot_be_is_said() {
    let _alone = alone();
    let fails = |arguments: &[&str], why: &str| {
        cores(arguments).assert().code(125).stderr(predicate::str::contains(why));
    };
    fails(&["-p", "2147483647"], "process 2147483647 does not exist");
    fails(&[], "COMMAND");
    fails(&["--thmin", "80", "--", "true"], "--thmin 80 is not below --thmax 70");
    fails(&["--thmax", "130", "--", "true"], "is not a percentage");
    fails(&["--min", "3", "--max", "2", "--", "true"], "--max is below --min");
    fails(&["--min", "0", "--", "true"], "write a number of at least 1");
    fails(&["--tick", "1ms", "--", "true"], "too short");
    fails(&["-I", "1", "--", "true"], "too short");
    fails(&["-I", "100", "--tick", "1s", "--", "true"], "cannot be used with");
    fails(&["-p", "1,2", "--weight", "1", "--dry-run"], "give one for each");
    fails(&["--svg", "/nonexistent/x.svg", "--", "true"], "/nonexistent/x.svg");
    fails(&["simulate", "--trace", "/nonexistent"], "/nonexistent");
    fails(&["simulate", "--trace", "/dev/zero"], "more than 67108864 bytes");
    let target = Target::idle();
    fails(&["-p", &target.pid(), "--min", "5000"], "--min 5000");
}

#[test]
fn the_net_is_explained_and_drawn() {
    let _alone = alone();
    cores(&["--explain"]).assert().success().stdout(
        predicate::str::contains("release a core").and(predicate::str::contains("marking")),
    );
    cores(&["--dot"]).assert().success().stdout(predicate::str::starts_with("digraph cores {"));
    let target = Target::idle();
    let mut daemon = daemon(&["-p", &target.pid(), "--explain", "--dry-run"]);
    std::thread::sleep(Duration::from_millis(700));
    signal(&daemon, libc::SIGINT);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut daemon.stdout.take().unwrap(), &mut text).unwrap();
    assert!(daemon.wait().unwrap().success());
    assert!(text.contains("last tick    t"), "{text}");
}

#[test]
fn a_load_is_simulated_in_both_modes() {
    let directory = tempfile::tempdir().unwrap();
    let svg = directory.path().join("burst.svg");
    let output =
        cores(&["simulate", "--load", "burst", "--svg", svg.to_str().unwrap()]).output().unwrap();
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @r"
     mode     cores  most  changes  waited
     paper    14.13    16       15   6.5 %
     default   9.76    16        4   2.1 %
    ");
    assert!(fs::read_to_string(svg).unwrap().contains("default mode"));
    let trace = directory.path().join("trace");
    fs::write(&trace, "1\n2\nthree\n").unwrap();
    cores(&["simulate", "--trace", trace.to_str().unwrap()])
        .assert()
        .code(125)
        .stderr(predicate::str::contains("line 3: 'three'"));
}

#[test]
fn a_target_gets_fewer_cores_and_all_of_them_back() {
    let _alone = alone();
    for way in ways() {
        for end in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            let target = Target::idle();
            let before = (target.cpus(), target.groups());
            let arguments = ["-p", &target.pid(), "--actuator", way, "--tick", "20ms"];
            let mut daemon = daemon(&arguments);
            let first: BTreeSet<String> = ["0".to_owned()].into();
            soon("one core", || {
                target.cpus() == first || target.cpus().iter().all(|c| !c.contains(['-', ',']))
            });
            signal(&daemon, end);
            assert!(daemon.wait().unwrap().success(), "{way}");
            assert_eq!((target.cpus(), target.groups()), before, "{way}, signal {end}");
        }
    }
}

/// `main` ends by `pthread_exit`, a worker goes on: the first thread is in no group any more.
#[test]
fn a_target_whose_first_thread_has_ended_is_held() {
    let _alone = alone();
    let script = format!(
        "import ctypes, sys, threading\n\
         main = threading.main_thread().native_id\n\
         def work():\n\
         \x20while open('/proc/self/stat').read().rsplit(')', 1)[1].split()[0] != 'Z': pass\n\
         \x20print('ready', flush=True); sys.stdin.read()\n\
         threading.Thread(target=work).start()\n\
         ctypes.CDLL(None).syscall({}, 0)\n",
        libc::SYS_exit
    );
    for way in ways() {
        let target = Target::start(Command::new("python3").args(["-c", &script]));
        // That of the worker: what the kernel shows of the first thread no longer changes.
        let of_worker = || {
            let tasks = fs::read_dir(format!("/proc/{}/task", target.pid())).unwrap().flatten();
            let worker = tasks.map(|t| t.path()).find(|t| !t.ends_with(target.pid())).unwrap();
            let status = fs::read_to_string(worker.join("status")).unwrap();
            let cpus = status.lines().find(|l| l.starts_with("Cpus_allowed_list")).unwrap();
            (cpus.to_owned(), fs::read_to_string(worker.join("cgroup")).unwrap())
        };
        let before = of_worker();
        let mut daemon = daemon(&["-p", &target.pid(), "--actuator", way, "--tick", "20ms"]);
        soon("fewer cores", || of_worker().0 != before.0);
        // It stays held for some ticks.
        std::thread::sleep(Duration::from_millis(200));
        let held = of_worker().0;
        signal(&daemon, libc::SIGTERM);
        let status = daemon.wait().unwrap();
        assert!(held != before.0 && status.success(), "{way}: {held}");
        assert_eq!(of_worker(), before, "{way}");
    }
}

/// Kills the guard of a daemon, which would put everything back as soon as the daemon is dead.
fn end_guard_of(daemon: &Child) {
    let is_its = |text: Vec<u8>| {
        text.split(|byte| *byte == 0)
            .any(|word| word.starts_with(format!("{}:", daemon.id()).as_bytes()))
    };
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let text = fs::read(process.path().join("cmdline")).unwrap_or_default();
        if let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok())
            && is_its(text)
        {
            PidFd::open(pid).unwrap().signal(libc::SIGKILL).unwrap();
        }
    }
}

#[test]
fn restore_puts_back_what_a_killed_daemon_left() {
    let _alone = alone();
    for way in ways() {
        let target = Target::idle();
        let before = (target.cpus(), target.groups());
        let mut daemon = daemon(&["-p", &target.pid(), "--actuator", way, "--tick", "20ms"]);
        soon("fewer cores", || target.cpus() != before.0);
        // A second one is refused, by whatever way.
        cores(&["-p", &target.pid()])
            .assert()
            .code(125)
            .stderr(predicate::str::contains("numapilot cores"));
        end_guard_of(&daemon);
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        assert_ne!(target.cpus(), before.0, "{way}");
        let restored =
            assert_cmd::Command::cargo_bin("numapilot").unwrap().arg("restore").output().unwrap();
        // Another test's daemon may have put it back before.
        assert!(restored.status.success(), "{}", err(&restored));
        assert_eq!((target.cpus(), target.groups()), before, "{way}");
    }
}

#[test]
fn thousands_of_threads_are_held_and_let_go() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled("threads.c", directory.path()) else { return };
    for way in ways() {
        let target = Target::start(Command::new(&program).arg("3000"));
        let before = target.cpus();
        let mut daemon = daemon(&["-p", &target.pid(), "--actuator", way, "--max", "1"]);
        soon("one core for all", || target.cpus().len() == 1 && target.cpus() != before);
        signal(&daemon, libc::SIGTERM);
        assert!(daemon.wait().unwrap().success());
        assert_eq!(target.cpus(), before, "{way}");
    }
}

#[test]
fn threads_that_pin_themselves_are_left_alone_and_named() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled("threads.c", directory.path()) else { return };
    if ways().is_empty() {
        return;
    }
    let target = Target::start(Command::new(&program).args(["3", "pin"]));
    let before = target.cpus();
    assert_eq!(before.len(), 2, "{before:?}");
    // A cpuset would override it.
    cores(&["-p", &target.pid(), "--actuator", "cgroup-v1"]).assert().code(125).stderr(
        predicate::str::contains("have an affinity of their own")
            .or(predicate::str::contains("cgroup v1: no")),
    );
    let mut daemon = daemon(&["-p", &target.pid(), "--tick", "20ms"]);
    soon("one core for the others", || target.cpus().iter().all(|cpus| !cpus.contains(['-', ','])));
    std::thread::sleep(Duration::from_millis(100));
    signal(&daemon, libc::SIGTERM);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut daemon.stderr.take().unwrap(), &mut text).unwrap();
    daemon.wait().unwrap();
    assert!(text.contains("have an affinity of their own (1)"), "{text}");
    assert_eq!(target.cpus(), before);
}

/// One that is held by affinity may choose others.
#[test]
fn a_thread_that_pins_itself_later_is_named_as_well() {
    let _alone = alone();
    if !ways().contains(&"affinity") {
        return;
    }
    let script = format!("sleep 0.5; taskset -pc {} $$; sleep 3", all_cpus() - 1);
    let output =
        cores(&["--json", "--tick", "20ms", "--actuator", "affinity", "--", "sh", "-c", &script])
            .output()
            .unwrap();
    let (lines, said) = (String::from_utf8_lossy(&output.stdout), err(&output));
    let pinned = |count: &str| lines.contains(&format!("\"pinned_threads\":{count}"));
    assert!(pinned("0") && (pinned("1") || pinned("2")), "{lines}");
    assert!(said.contains("have an affinity of their own"), "{said}");
}

/// Which number of threads it makes depends on what it finds when it starts.
#[test]
fn a_program_that_starts_finds_all_cores_and_keeps_them_for_a_while() {
    let _alone = alone();
    if ways().is_empty() {
        return;
    }
    for mode in ["default", "paper"] {
        let script = "nproc; while [ $(nproc) -gt 1 ]; do sleep 0.2; done; nproc";
        let begin = Instant::now();
        let tick = ["--mode", mode, "--tick", "20ms", "--startup", "1s", "-v"];
        let output = cores(&tick).args(["--", "sh", "-c", script]).output().unwrap();
        assert!(begin.elapsed() >= Duration::from_secs(1), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}\n1\n", all_cpus()));
    }
    cores(&["--startup", "0", "--", "true"]).assert().success();
    cores(&["--startup", "1s", "-p", "1"])
        .assert()
        .code(125)
        .stderr(predicate::str::contains("cannot be used with"));
}

#[test]
fn two_targets_share_no_core() {
    const TICKS: usize = 20;
    let _alone = alone();
    let ways = ways();
    for way in ways {
        let (one, two) = (Target::idle(), Target::idle());
        let pids = format!("{},{}", one.pid(), two.pid());
        let mut daemon = daemon(&[
            "-p",
            &pids,
            "--weight",
            "2,1",
            "--actuator",
            way,
            "--tick",
            "20ms",
            "--json",
        ]);
        let mut held = BTreeSet::new();
        soon("a core for each", || {
            held = one.cpus().union(&two.cpus()).cloned().collect();
            held.len() == 2 && held.iter().all(|cpus| !cpus.contains(['-', ',']))
        });
        let mut lines = BufReader::new(daemon.stdout.take().unwrap()).lines();
        let lines: Vec<String> = lines.by_ref().map_while(Result::ok).take(TICKS * 2).collect();
        signal(&daemon, libc::SIGINT);
        assert!(daemon.wait().unwrap().success());
        assert_eq!(lines.len(), TICKS * 2, "{lines:?}");
        let mut measured = [false; 2];
        for pair in lines.chunks(2) {
            let mut cpus = |at: usize| {
                let line: Value = serde_json::from_str(&pair[at]).unwrap();
                let cpus = line["done"]["cpus"].as_array().unwrap().clone();
                // Where reading the clocks takes long a tick has no sample.
                let busy = &line["metrics"]["busy"];
                assert!(!cpus.is_empty() && (busy.is_number() || busy.is_null()));
                measured[at] |= busy.is_number();
                cpus
            };
            let (a, b) = (cpus(0), cpus(1));
            assert!(a.iter().all(|cpu| !b.contains(cpu)), "{pair:?}");
        }
        assert_eq!(measured, [true; 2], "{lines:?}");
    }
}

/// What keeps all CPUs busy is let alone: not one change, whatever else the machine does.
#[test]
fn a_target_that_uses_all_cores_sees_nothing_of_it() {
    let _alone = alone();
    for way in ways() {
        let spin = "while :; do :; done &";
        let script = format!("{} echo ready; read x", spin.repeat(all_cpus()));
        let target = Target::start(Command::new("sh").args(["-c", &script]));
        // Its processes are there, so that the first tick counts, too.
        let before = target.cpus();
        let mut daemon = daemon(&["-p", &target.pid(), "--actuator", way, "--json"]);
        let lines = BufReader::new(daemon.stdout.take().unwrap()).lines();
        for line in lines.map_while(Result::ok).take(30) {
            let line: Value = serde_json::from_str(&line).unwrap();
            let (had, has) = (&line["metrics"]["cores"], &line["done"]["cores"]);
            assert_eq!((had, has), (&all_cpus().into(), &all_cpus().into()), "{way}: {line}");
        }
        assert_eq!(target.cpus(), before, "{way}");
        signal(&daemon, libc::SIGTERM);
        assert!(daemon.wait().unwrap().success());
    }
}

#[test]
fn a_dry_run_changes_nothing() {
    let _alone = alone();
    let target = Target::idle();
    let before = (target.cpus(), target.groups());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("output");
    let mut daemon = Command::new(NUMAPILOT)
        .args(["cores", "-p", &target.pid(), "--dry-run", "--tick", "20ms"])
        .stdout(fs::File::create(&file).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut expected = vec![format!("process {} begins with ", target.pid())];
    if all_cpus() > 1 {
        expected.push(format!("process {}: ", target.pid()));
    }
    soon("what would be done", || {
        let output = fs::read_to_string(&file).unwrap();
        expected.iter().all(|words| output.contains(words))
    });
    assert_eq!((target.cpus(), target.groups()), before);
    signal(&daemon, libc::SIGINT);
    assert!(daemon.wait().unwrap().success());
}

/// The target's end ends the run, and nothing is left of its group.
#[test]
fn a_target_that_dies_leaves_nothing() {
    let _alone = alone();
    for way in ways() {
        let mut target = Target::idle();
        let (pid, before) = (target.pid(), target.cpus());
        let mut daemon = daemon(&["-p", &pid, "--actuator", way, "--tick", "20ms"]);
        soon("fewer cores", || target.cpus() != before);
        // Nobody has waited for it yet: it is a zombie.
        target.0.kill().unwrap();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut daemon.stderr.take().unwrap(), &mut text).unwrap();
        assert!(daemon.wait().unwrap().success(), "{way}");
        // Other runs on this machine may have it warn of theirs.
        let of_target = format!("process {pid}");
        let warns = |line: &str| line.contains("warning") && line.contains(&of_target);
        assert!(!text.lines().any(warns), "{way}: {text}");
        target.0.wait().unwrap();
        let left = format!("numapilot-cores-{pid}-");
        let groups = fs::read_dir(CPUSET).into_iter().flatten().flatten();
        assert!(groups.into_iter().all(|g| !g.file_name().to_string_lossy().starts_with(&left)));
        let records = fs::read_dir("/run/numapilot-cores").into_iter().flatten().flatten();
        assert!(
            records
                .into_iter()
                .all(|r| !r.file_name().to_string_lossy().starts_with(&format!("{pid}-")))
        );
    }
}

const CPUSET: &str = "/sys/fs/cgroup/cpuset";

/// Whoever takes the target out of its group has it; nothing is left, and that is said.
#[test]
fn a_target_that_is_moved_away_is_left_as_it_is() {
    let _alone = alone();
    if !ways().contains(&"cgroup-v1") {
        return;
    }
    let target = Target::idle();
    let before = (target.cpus(), target.groups());
    let mut daemon = daemon(&["-p", &target.pid(), "--actuator", "cgroup-v1", "--tick", "20ms"]);
    soon("fewer cores", || target.cpus() != before.0);
    fs::write(format!("{CPUSET}/cgroup.procs"), target.pid()).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut daemon.stderr.take().unwrap(), &mut text).unwrap();
    assert_eq!(daemon.wait().unwrap().code(), Some(125), "{text}");
    assert!(text.contains("somebody else moved it"), "{text}");
    assert_eq!((target.cpus(), target.groups()), before);
}

/// Whether mount namespaces are to be had; if not, says that the test is skipped.
fn in_a_mount_namespace() -> bool {
    let tried =
        Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none", "/run"]).output();
    match tried {
        Ok(output) if output.status.success() => return true,
        Ok(output) => println!("skipped: no mount namespaces here: {}", err(&output).trim()),
        Err(error) => println!("skipped: unshare: {error}"),
    }
    false
}

/// A target whose record is whole is put back, and another is managed, beside a file that is no
/// record; `$N` is numapilot.
const DAMAGED: &str = "
mount -t tmpfs none /run && mkdir -m 700 /run/numapilot-cores || exit 77
allowed() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$P/status; }
sleep 60 <&- >&- 2>&- & P=$!
BEFORE=$(allowed)
$N cores -p $P --actuator affinity --max 1 2>/dev/null & D=$!
for i in $(seq 500); do [ \"$(allowed)\" = \"$BEFORE\" ] || break; sleep 0.02; done
kill -9 $(grep -lz \"^$D:\" /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3) $D; wait $D 2>/dev/null
[ \"$(allowed)\" = \"$BEFORE\" ] || echo narrowed
echo x > /run/numapilot-cores/z.json
$N restore 2>/run/said; echo \"restore $?\"; grep -c 'not everything' /run/said
[ \"$(allowed)\" = \"$BEFORE\" ] && echo as before
$N cores sh -c 'echo managed; exit 3' 2>/run/said; echo \"cores $?\"
grep -c 'z.json is no record of numapilot cores (.*remove the file' /run/said
kill $P
";

#[test]
fn a_record_that_cannot_be_read_blocks_no_other() {
    let _alone = alone();
    if !ways().contains(&"affinity") || !in_a_mount_namespace() {
        return;
    }
    let output = Command::new("timeout")
        .args(["60", "unshare", "-m", "sh", "-c", DAMAGED])
        .env("N", NUMAPILOT)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("cores of")).collect();
    assert!(lines[1].starts_with("/run/numapilot-cores/z.json is no record"), "{text}");
    assert!(lines[1].contains("remove the file"), "{text}");
    let rest = ["restore 125", "1", "as before", "managed", "cores 3", "1"];
    assert_eq!((lines[0], &lines[2..]), ("narrowed", &rest[..]), "{text}{}", err(&output));
}

/// The first is kthreadd, where the PID namespace is the machine's first one.
/// The second one is refused, names the first and changes nothing, whoever started the two.
#[test]
fn a_target_has_one_daemon_at_a_time() {
    const NOBODY: u32 = 65534;
    let _alone = alone();
    if !ways().contains(&"affinity") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // Where another user may start it.
    let program = directory.path().join("numapilot");
    fs::copy(NUMAPILOT, &program).unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let runtime = directory.path().join("runtime");
    fs::create_dir(&runtime).unwrap();
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(&runtime, Some(NOBODY), Some(NOBODY)).unwrap();
    } else {
        println!("skipped: only root can start it as another user");
    }
    let by = |other: bool| {
        let mut command = Command::new(&program);
        if other {
            command.uid(NOBODY).gid(NOBODY).env("XDG_RUNTIME_DIR", &runtime);
        }
        command
    };
    let users: &[_] =
        if is_root { &[(false, false), (false, true), (true, false)] } else { &[(false, false)] };
    for (first, second) in users {
        let mut idle = Command::new("sh");
        idle.args(["-c", "echo ready; read x"]);
        if *first || *second {
            idle.uid(NOBODY).gid(NOBODY);
        }
        let target = Target::start(&mut idle);
        let arguments = ["cores", "-p", &target.pid(), "--actuator", "affinity", "--tick", "20ms"];
        let mut daemon = by(*first).args(arguments).stderr(Stdio::null()).spawn().unwrap();
        soon("one core", || target.cpus().iter().all(|cpus| !cpus.contains(['-', ','])));
        let before = target.cpus();
        let refused = by(*second).args(arguments).output().unwrap();
        assert_eq!(refused.status.code(), Some(125), "{}", err(&refused));
        let who = format!("is under numapilot cores already (run {})", daemon.id());
        assert!(err(&refused).contains(&who), "{}", err(&refused));
        assert_eq!(target.cpus(), before);
        signal(&daemon, libc::SIGTERM);
        assert!(daemon.wait().unwrap().success());
        assert_ne!(target.cpus(), before);
    }
}

#[test]
fn kernel_threads_are_refused_and_nothing_is_changed_before() {
    let _alone = alone();
    if fs::read_to_string("/proc/2/comm").ok().as_deref() != Some("kthreadd\n") {
        println!("skipped: no kernel threads in this PID namespace");
        return;
    }
    let target = Target::idle();
    let before = (target.cpus(), target.groups());
    let pids = format!("{},2", target.pid());
    for verb in [
        &["cores", "--max", "1"][..],
        &["balance"],
        &["stat", "--timeout", "5"],
        &["top", "--once"],
    ] {
        assert_cmd::Command::cargo_bin("numapilot")
            .unwrap()
            .args(verb)
            .args(["-p", &pids])
            .assert()
            .code(125)
            .stderr(predicate::str::contains("PID 2 is a kernel thread (kthreadd): "));
    }
    assert_eq!((target.cpus(), target.groups()), before);
}

/// The reader of the lines goes away, or the disk of the output is full: the program runs to its
/// end all the same, and its status is passed through.
#[test]
fn a_failed_write_does_not_end_the_program() {
    let _alone = alone();
    let mut command = Command::new(NUMAPILOT);
    command.args(["cores", "--json", "--tick", "20ms", "--", "sh", "-c", "sleep 1; exit 7"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with('{'), "{line}");
    let output = child.wait_with_output().unwrap();
    let said = err(&output);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert_eq!(said.matches("Broken pipe").count(), 1, "{said}");
    assert!(said.contains("the program is not affected"), "{said}");
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let output = Command::new(NUMAPILOT)
        .args(["cores", "--json", "--tick", "20ms", "--", "sh", "-c", "sleep 0.3; exit 7"])
        .stdout(full())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", err(&output));
    assert_eq!(err(&output).matches("No space left").count(), 1, "{}", err(&output));
    // Where nobody can be told anything, either.
    let status = Command::new(NUMAPILOT)
        .args(["cores", "--explain", "-v", "--tick", "20ms", "--", "sh", "-c", "sleep 0.3; exit 7"])
        .stderr(full())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(7));
}

/// numapilot opens a file for every process, thread or CPU; its limit is not the program's.
#[test]
fn the_program_keeps_the_limit_of_open_files() {
    let _alone = alone();
    for verb in ["cores", "stat"] {
        let script = format!("ulimit -Sn 64 && exec {NUMAPILOT} {verb} -- sh -c 'ulimit -Sn'");
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "64\n", "{}", err(&output));
    }
}

/// In a mount namespace of its own the hierarchy is read-only.
#[test]
fn where_no_group_may_be_written_affinity_does() {
    let _alone = alone();
    if !ways().contains(&"cgroup-v1") {
        return;
    }
    if !in_a_mount_namespace() {
        return;
    }
    let target = Target::idle();
    let before = target.cpus();
    let script = format!(
        "mount -o remount,bind,ro {CPUSET} && exec {NUMAPILOT} cores -v -p {} --tick 20ms",
        target.pid()
    );
    let mut daemon = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    soon("fewer cores", || target.cpus() != before);
    signal(&daemon, libc::SIGTERM);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut daemon.stderr.take().unwrap(), &mut text).unwrap();
    assert!(daemon.wait().unwrap().success(), "{text}");
    assert!(text.contains("is held by the affinity of every thread"), "{text}");
    assert_eq!(target.cpus(), before);
}

//! `kill -9` at any moment: afterwards the settings are what they were, no process is left, and
//! no file.
//!
//! Each verb has a mount namespace of its own in which a plain file stands for the kernel's switch
//! of huge pages and `/run` (with the directory for temporary files in it) and `/dev/shm` are empty. The moments are drawn from a fixed
//! seed; the one that fails is printed. `NUMAPILOT_KILLS=300` kills each verb more often.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod guests;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use guests::{NUMAPILOT, SMALL, boots};
use numapilot_sys::process::PidFd;

const SWITCH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const BEFORE: &str = "madvise";
/// For what comes soon, but on a machine that others use, too.
const SOON: Duration = Duration::from_secs(30);

/// A mount namespace, which lives as long as a process in it.
struct Namespace {
    holder: Child,
    _directory: tempfile::TempDir,
}

impl Namespace {
    /// `None` where there is none to be had.
    fn new() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let switch = directory.path().join("switch");
        fs::write(&switch, BEFORE).unwrap();
        let script = format!(
            "mount --bind {} {SWITCH} && mount -t tmpfs none /run && mkdir -m 1777 /run/tmp && \
             mount -t tmpfs none /dev/shm && echo ready && exec sleep 600",
            switch.display()
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]).stdin(Stdio::null()).stderr(Stdio::null());
        let holder = command.stdout(Stdio::piped()).spawn();
        let mut holder = match holder {
            Ok(holder) => holder,
            Err(error) => {
                println!("skipped: unshare: {error}");
                return None;
            }
        };
        let mut line = String::new();
        let mut stdout = std::io::BufReader::new(holder.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        if line != "ready\n" {
            holder.wait().unwrap();
            println!("skipped: no mount namespaces here");
            return None;
        }
        Some(Self { holder, _directory: directory })
    }

    /// A path in it as it is seen from here.
    fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.holder.id()))
    }

    /// `numapilot` in it.
    fn numapilot(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id())).arg("--");
        command.arg(NUMAPILOT).args(arguments).current_dir("/");
        command.env("TMPDIR", "/run/tmp");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Processes in it beside the one that holds it: whoever was started here is, also the guard
    /// and a server whose children write over their environment.
    fn left(&self) -> Vec<i32> {
        let namespace = |process: i32| {
            let name = if process == 0 { "self".to_owned() } else { process.to_string() };
            fs::read_link(format!("/proc/{name}/ns/mnt")).ok()
        };
        let holder = self.holder.id().cast_signed();
        let this = namespace(holder).filter(|this| Some(this) != namespace(0).as_ref());
        let Some(this) = this else { return Vec::new() };
        let is_here = |process| namespace(process).is_some_and(|there| there == this);
        processes().filter(|&process| process != holder && is_here(process)).collect()
    }

    /// Files in its empty directories that are numapilot's or its programs', settings' records
    /// first of all.
    fn files(&self) -> BTreeSet<PathBuf> {
        let mut files = BTreeSet::new();
        let mut directories = ["/run", "/dev/shm"].map(|path| self.path(path)).to_vec();
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => directories.push(entry.path()),
                    _ => drop(files.insert(entry.path())),
                }
            }
        }
        files
    }

    /// Whether no process is left, no record, and no changed setting.
    fn is_settled(&self) -> Result<(), String> {
        // First of all: what is read afterwards nobody changes any more.
        let left = self.left();
        let switch = fs::read_to_string(self.path(SWITCH)).unwrap();
        let mut records = self.files();
        records.retain(|path| path.to_string_lossy().contains("/run/numapilot"));
        if left.is_empty() && switch.is_empty() && !records.is_empty() {
            // The kernel's switch takes a word as a whole; a plain file is emptied first, and this
            // death came between.
            fs::write(self.path(SWITCH), "always").unwrap();
            assert!(self.numapilot(&["restore"]).status().unwrap().success());
        }
        let is_settled = left.is_empty() && records.is_empty() && switch == BEFORE;
        if is_settled { Ok(()) } else { Err(format!("{left:?} {switch} {records:?}")) }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Also when an expectation has failed: nothing may stay.
        for process in self.left() {
            let _ = PidFd::open(process).map(|process| process.signal(libc::SIGKILL));
        }
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn processes() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// How a verb is killed.
struct Kills<'a> {
    verb: &'a [&'a str],
    /// The program goes on when numapilot is killed: it was the user's before.
    program_stays: bool,
    times: u32,
    /// The last moment.
    within: Duration,
}

/// Kills the verb again and again, and looks for what it has left; `after` may look for more.
fn kill(namespace: &Namespace, kills: &Kills<'_>, mut after: impl FnMut(&str)) {
    let times = std::env::var("NUMAPILOT_KILLS").ok().and_then(|text| text.parse().ok());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..times.unwrap_or(kills.times) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let share = (random >> 40) as f64 / (1u64 << 24) as f64;
        let moment = kills.within.mul_f64(share);
        let what = format!("{:?}, kill {round} after {moment:?}", kills.verb);
        let mut child = namespace.numapilot(kills.verb).spawn().unwrap();
        std::thread::sleep(moment);
        let _ = child.kill();
        child.wait().unwrap();
        if kills.program_stays {
            // What is not numapilot is the program.
            for process in namespace.left() {
                let name = fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
                if name != Path::new(NUMAPILOT)
                    && name.file_name() != Some(OsStr::from_bytes(b"nsenter"))
                {
                    let _ = PidFd::open(process).map(|process| process.signal(libc::SIGKILL));
                }
            }
        }
        soon(&what, || namespace.is_settled());
        after(&what);
    }
    // What the last death has left of files goes by the next start. A cache is kept on purpose.
    assert!(namespace.numapilot(&["restore"]).status().unwrap().success());
    let mut files = namespace.files();
    files.retain(|path| !path.starts_with(namespace.path("/run/cache")));
    assert_eq!(files, BTreeSet::new(), "{:?}", kills.verb);
}

/// Waits until something holds; what is the case instead is said when it does not come.
fn soon(what: &str, mut holds: impl FnMut() -> Result<(), String>) {
    let begin = Instant::now();
    while let Err(instead) = holds() {
        assert!(begin.elapsed() < SOON, "{what}: {instead}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn run_and_balance() {
    let Some(namespace) = Namespace::new() else { return };
    let program = ["--", "sleep", "0.1"];
    let run = [&["run", "--thp", "always", "--threads", "sparse"][..], &program].concat();
    let within = Duration::from_millis(120);
    kill(&namespace, &Kills { verb: &run, program_stays: true, times: 30, within }, |_| {});
    let balance = [&["balance"][..], &program].concat();
    kill(&namespace, &Kills { verb: &balance, program_stays: true, times: 5, within }, |_| {});
}

#[test]
fn tune() {
    let Some(namespace) = Namespace::new() else { return };
    // The trial's own child must go as well.
    let script = "sleep 0.03 & wait";
    let verb = [
        "tune",
        "--allow-machine-wide",
        "--state",
        "/run/state",
        "--output",
        "/run/best",
        "--force",
        "--factor",
        "allocator=inherit",
        "--factor",
        "threads=none",
        "--factor",
        "memory=inherit",
        "--factor",
        "numa-balancing=inherit",
        "--",
        "sh",
        "-c",
        script,
    ];
    let within = Duration::from_millis(400);
    kill(&namespace, &Kills { verb: &verb, program_stays: false, times: 20, within }, |_| {
        // What was measured is kept on purpose.
        let _ = fs::remove_dir_all(namespace.path("/run/state"));
    });
}

#[test]
fn cores() {
    let Some(namespace) = Namespace::new() else { return };
    let cpus = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        Some(status.lines().find(|line| line.starts_with("Cpus_allowed:"))?.to_owned())
    };
    let mut target = Command::new("sleep");
    let mut target = target.arg("600").stdin(Stdio::null()).spawn().unwrap();
    let (pid, before) = (target.id(), cpus(target.id()).unwrap());
    let text = pid.to_string();
    let verb = ["cores", "-p", &text, "--tick", "10ms", "--actuator", "affinity"];
    let within = Duration::from_millis(150);
    let kills = Kills { verb: &verb, program_stays: false, times: 20, within };
    let killed = std::panic::catch_unwind(|| {
        kill(&namespace, &kills, |what| assert_eq!(cpus(pid).unwrap(), before, "{what}"));
    });
    target.kill().unwrap();
    target.wait().unwrap();
    killed.unwrap();
}

#[test]
fn bench_with_a_server() {
    let Some(namespace) = Namespace::new() else { return };
    let verb = [
        "bench",
        "w5",
        "--engine",
        "postgresql",
        "--scale-factor",
        "0.01",
        "--cache",
        "/run/cache",
        "--queries",
        "6",
        "--runs",
        "1000",
    ];
    let once = [&verb[..verb.len() - 1], &["1"]].concat();
    if !namespace.numapilot(&once).status().unwrap().success() {
        println!("skipped: no PostgreSQL here");
        return;
    }
    let cache = namespace.path("/run/cache");
    let kills = |within| Kills { verb: &verb, program_stays: false, times: 3, within };
    let clean = |cache: &Path| {
        let _ = fs::remove_dir_all(cache);
    };
    clean(&cache);
    // While the cluster is made and loaded.
    kill(&namespace, &kills(Duration::from_millis(1800)), |_| {
        clean(&cache);
    });
    assert!(namespace.numapilot(&once).status().unwrap().success());
    // While the server starts and answers; the next bench uses the database.
    kill(&namespace, &kills(Duration::from_millis(600)), |what| {
        let done = namespace.numapilot(&once).status().unwrap().success();
        assert!(done, "{what}: the next bench fails");
        let left = fs::read_dir(cache.join("runs")).unwrap().count();
        assert_eq!(left, 0, "{what}: the next bench leaves directories");
    });
}

#[test]
fn lab() {
    let Some(namespace) = Namespace::new() else { return };
    if !boots() {
        return;
    }
    let verb = [&["lab", "run"][..], &SMALL, &["sleep", "1"]].concat();
    let within = Duration::from_millis(2500);
    kill(&namespace, &Kills { verb: &verb, program_stays: false, times: 4, within }, |_| {});
}

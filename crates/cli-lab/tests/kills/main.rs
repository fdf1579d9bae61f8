//! Kills verbs with `kill -9` at random moments. Afterwards the settings must be restored, and no
//! process and no file may be left.
//!
//! Every other kill includes the guard and every numapilot that was started: then the next start of
//! any verb must do the guard's work. The moments come from a fixed seed, and a failure prints its
//! moment. `NUMAPILOT_KILLS=300` kills each verb more often.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

#[path = "../guests/mod.rs"]
mod guests;
mod namespace;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use guests::{NUMAPILOT, SMALL, boots};
use namespace::Namespace;

/// A limit for what happens soon, even on a machine that others use.
const SOON: Duration = Duration::from_secs(30);
/// Any verb restores settings, even one that does not use them.
const NEXT: [&[&str]; 4] = [&["topo"], &["completions", "bash"], &["man"], &["stat", "--", "true"]];

/// How a verb is killed.
struct Kills<'a> {
    verb: &'a [&'a str],
    /// Whether the program survives numapilot, because the user had started it.
    program_stays: bool,
    times: u32,
    /// The latest moment of a kill.
    within: Duration,
}

/// Kills the verb repeatedly and checks what is left; `after` may check more.
fn kill(namespace: &Namespace, kills: &Kills<'_>, mut after: impl FnMut(&str)) {
    let times = std::env::var("NUMAPILOT_KILLS").ok().and_then(|text| text.parse().ok());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..times.unwrap_or(kills.times) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let share = (random >> 40) as f64 / (1u64 << 24) as f64;
        let moment = kills.within.mul_f64(share);
        let with_guard = round % 2 == 1;
        let whom = if with_guard { " of the guard, too," } else { "" };
        let what = format!("{:?}, kill {round}{whom} after {moment:?}", kills.verb);
        let mut child = namespace.numapilot(kills.verb).spawn().unwrap();
        std::thread::sleep(moment);
        if with_guard {
            namespace.kill(|_, name| name == "numapilot-guard");
        }
        let _ = child.kill();
        child.wait().unwrap();
        if with_guard {
            namespace.kill(|file, _| is_numapilot(file));
        }
        if kills.program_stays {
            // A process that is not numapilot is the program.
            namespace.kill(|file, _| !is_numapilot(file) && !file.ends_with("nsenter"));
        }
        let next = NEXT[round as usize / 2 % NEXT.len()];
        if with_guard {
            assert!(namespace.numapilot(next).status().unwrap().success(), "{what}: {next:?}");
        }
        soon(&what, || namespace.is_settled());
        // The guard does not remove files that no setting and no program needs.
        assert!(namespace.numapilot(next).status().unwrap().success(), "{what}: {next:?}");
        assert_eq!(namespace.files(), [].into(), "{what}, then {next:?}");
        assert_eq!(namespace.segments(), "", "{what}");
        after(&what);
    }
}

/// Whether a file is one of numapilot's programs.
fn is_numapilot(file: &Path) -> bool {
    file == Path::new(NUMAPILOT) || file == Path::new(env!("CARGO_BIN_EXE_numapilot-lab"))
}

/// Waits until a condition holds. On a timeout it panics with the last state.
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
    // The trial's children must end too, even if they were started early, and even if the trial has
    // ended and tune is about to end them. One child is in the trial's group, the other has left
    // it.
    let script = "sleep 600 & setsid sleep 600 & sleep 0.03";
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
        // The measurements are kept on purpose.
        let _ = fs::remove_dir_all(namespace.path("/run/state"));
    });
}

#[test]
fn cores() {
    let Some(namespace) = Namespace::new() else { return };
    let about = |pid: u32, name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    let place = |pid: u32| {
        let status = about(pid, "status");
        let cpus = status.lines().find(|line| line.starts_with("Cpus_allowed:")).unwrap();
        format!("{cpus}\n{}", about(pid, "cgroup"))
    };
    let mut target = Command::new("sleep");
    let mut target = target.arg("600").stdin(Stdio::null()).spawn().unwrap();
    let (pid, before) = (target.id(), place(target.id()));
    let text = pid.to_string();
    let killed = std::panic::catch_unwind(|| {
        for actuator in ["affinity", "auto"] {
            let verb = ["cores", "-p", &text, "--tick", "10ms", "--actuator", actuator];
            let within = Duration::from_millis(150);
            let kills = Kills { verb: &verb, program_stays: false, times: 10, within };
            kill(&namespace, &kills, |what| assert_eq!(place(pid), before, "{what}"));
        }
    });
    target.kill().unwrap();
    target.wait().unwrap();
    killed.unwrap();
}

#[test]
fn study() {
    let Some(namespace) = Namespace::new() else { return };
    let experiment = namespace.shared("tiny.toml");
    fs::write(&experiment, TINY).unwrap();
    let verb = ["study", "run", experiment.to_str().unwrap(), "-o", "/run/state/results.jsonl"];
    let kills =
        Kills { verb: &verb, program_stays: false, times: 6, within: Duration::from_millis(400) };
    kill(&namespace, &kills, |_| {
        let _ = fs::remove_dir_all(namespace.path("/run/state"));
    });
}

/// numapilot starts numapilot, which starts a program, which has a child.
const TINY: &str = r#"
id = "T1"
title = "A setting in a study"
paper = "none"
place = "Table 1"
says = "nothing"
differs = "everything"
machine = "host"
command = "{numapilot} run --thp {thp} -- sh -c 'sleep 600 & sleep 0.1; kill $!'; echo '{\"seconds\": 1}'"
picture = "seconds"

[factors]
thp = ["always", "never"]

[scale.smoke]
repetitions = 5

[metrics.seconds]
field = "seconds"
unit = "s"

[[claims]]
text = "always over never"
of = { metric = "seconds", at = { thp = "always" }, over = { thp = "never" } }
paper = 1.0
band = [0.5, 1.5]
above = 0.9
"#;

#[test]
fn numapilot_within_numapilot() {
    let Some(namespace) = Namespace::new() else { return };
    let verb = [
        &["bench", "kernel", "all", "k1", "--under", "autonuma,default", "--size", "1M"][..],
        &["--for", "10s", "--threads", "1"],
    ];
    let within = Duration::from_millis(400);
    let verb = verb.concat();
    kill(&namespace, &Kills { verb: &verb, program_stays: false, times: 6, within }, |_| {});
}

#[test]
fn what_only_makes_files() {
    let Some(namespace) = Namespace::new() else { return };
    let recording = namespace.shared("recording");
    let recording = recording.to_str().unwrap();
    assert!(namespace.numapilot(&["topo", "--record", recording]).status().unwrap().success());
    let within = Duration::from_millis(40);
    let verbs = [&["topo", "--root", recording][..], &["doctor"]];
    for verb in verbs {
        kill(&namespace, &Kills { verb, program_stays: false, times: 8, within }, |_| {});
    }
    let suite = ["bench", "alloc", "suite", "--rounds", "1", "--threads", "1"];
    let within = Duration::from_millis(300);
    kill(&namespace, &Kills { verb: &suite, program_stays: false, times: 4, within }, |_| {});
}

#[test]
fn bench_with_a_server() {
    bench_with("postgresql", [1800, 600]);
}

#[test]
fn bench_with_a_module() {
    bench_with("duckdb", [1000, 500]);
}

/// `within`: the latest moments, in milliseconds, for a bench that has to load its data first and
/// for one that does not.
fn bench_with(engine: &str, within: [u64; 2]) {
    let Some(namespace) = Namespace::new() else { return };
    let common = ["bench", "w5", "--engine", engine, "--scale-factor", "0.01"];
    let more = ["--cache", "/run/cache", "--queries", "6", "--runs", "1000"];
    let verb = [&common[..], &more].concat();
    let once = [&verb[..verb.len() - 1], &["1"]].concat();
    if !namespace.numapilot(&once).status().unwrap().success() {
        println!("skipped: no {engine} here");
        return;
    }
    let cache = namespace.path("/run/cache");
    let kills = |within| {
        let within = Duration::from_millis(within);
        Kills { verb: &verb, program_stays: false, times: 4, within }
    };
    let clean = |cache: &Path| {
        let _ = fs::remove_dir_all(cache);
    };
    clean(&cache);
    // Kills while the database is created and loaded.
    kill(&namespace, &kills(within[0]), |_| clean(&cache));
    assert!(namespace.numapilot(&once).status().unwrap().success());
    // Kills while the engine starts and answers. The next bench uses the same database.
    kill(&namespace, &kills(within[1]), |what| {
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

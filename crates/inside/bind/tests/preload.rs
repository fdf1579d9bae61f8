//! The preloaded library in real programs: C cases that are compiled here, and programs in other
//! languages if this machine has them.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what a test is for")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use numapilot_bind::agent::WORDS;
use numapilot_bind::occupancy::{FILE_BYTES, Holds, Tally, holds as holds_in};
use tempfile::{NamedTempFile, TempDir};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/preload/tests");

/// The library, built as it is shipped. Tests unwind and a library without `std` cannot, so it is
/// not a dependency of this test.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--offline", "-p", "numapilot-bind-preload"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(status.success(), "the library does not build");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        target.join("debug/libnumapilot_bind.so")
    })
}

/// Compiles a program from `SOURCES`.
fn compiled(name: &str, compiler: &str, options: &[&str]) -> PathBuf {
    static DIRECTORY: OnceLock<TempDir> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| tempfile::tempdir().unwrap()).path();
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let program = directory.join(format!("{name}-{}", COUNT.fetch_add(1, Relaxed)));
    let status = Command::new(compiler)
        .args(options)
        .args(["-O1", "-Wall", "-Werror", "-pthread", "-o"])
        .arg(&program)
        .arg(Path::new(SOURCES).join(name))
        .status()
        .unwrap_or_else(|e| panic!("{compiler}: {e}"));
    assert!(status.success(), "{name} does not compile");
    program
}

struct Run {
    output: Output,
    tally: Tally,
}

impl Run {
    fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).trim().to_owned()
    }
}

/// Runs a command with the library. On machines without CPUs 0 and 1 it reports a skipped test and
/// returns `None`.
fn run(command: &mut Command) -> Option<Run> {
    let occupancy = NamedTempFile::new().unwrap();
    occupancy.as_file().set_len(FILE_BYTES as u64).unwrap();
    run_with(command, occupancy.path())
}

fn run_with(command: &mut Command, occupancy: &Path) -> Option<Run> {
    let output = preloaded(command, occupancy)?.output().unwrap();
    let tally = Tally::from_bytes(&fs::read(occupancy).unwrap_or_default()).unwrap_or_default();
    Some(Run { output, tally })
}

/// Adds the library to a command. Returns `None` on machines without CPUs 0 and 1.
fn preloaded<'a>(command: &'a mut Command, occupancy: &Path) -> Option<&'a mut Command> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed:")).unwrap();
    let last = u32::from_str_radix(allowed.rsplit(',').next().unwrap().trim(), 16).unwrap();
    if last & 3 != 3 {
        println!("skipped: CPUs 0 and 1 are not both usable here");
        return None;
    }
    command
        .env("NUMAPILOT_BIND_CPUS", "0,1")
        .env("NUMAPILOT_BIND_OCCUPANCY", occupancy)
        .env("LD_PRELOAD", library());
    Some(command)
}

fn holds(case: &str, expected: Tally) {
    let cases = compiled("cases.c", "cc", &[]);
    let Some(run) = run(Command::new(cases).arg(case)) else { return };
    assert!(run.output.status.success(), "{case}: {} {:?}", run.stdout(), run.output.status);
    assert_eq!(run.tally, expected, "{case}");
}

const fn tally(placed: u32, pins_itself: u32) -> Tally {
    Tally { placed, pins_itself, refused: 0 }
}

#[test]
fn the_main_thread_is_first_and_the_next_second() {
    holds("main-and-first-thread", tally(2, 0));
}

#[test]
fn threads_of_other_libraries_take_no_cpu() {
    holds("unplaced", tally(2, 0));
}

#[test]
fn three_thousand_detached_threads() {
    holds("detached", tally(3001, 0));
}

#[test]
fn attributes_are_kept() {
    holds("attributes", tally(3, 0));
}

#[test]
fn an_affinity_attribute_wins() {
    holds("affinity-attribute", tally(1, 3));
}

#[test]
fn cancelled_threads_give_their_cpu_back() {
    holds("cancelled", tally(202, 0));
}

#[test]
fn threads_that_leave_by_pthread_exit_give_their_cpu_back() {
    holds("exiting-threads", tally(202, 0));
}

#[test]
fn a_thread_that_could_not_be_created_takes_nothing() {
    holds("refused", tally(2, 0));
}

#[test]
fn a_program_that_pins_itself_is_left_alone() {
    holds("pins-itself", tally(3, 7));
}

#[test]
fn asking_for_any_cpu_changes_nothing_and_all_are_reported() {
    holds("asks-for-any", tally(1, 0));
}

#[test]
fn forked_children_spread() {
    holds("forks", tally(16, 0));
}

#[test]
fn a_child_of_vfork_is_not_its_parent() {
    holds("vforks", tally(2, 0));
}

#[test]
fn exec_keeps_the_cpu_and_what_the_program_chose() {
    let cases = compiled("cases.c", "cc", &[]);
    let Some(run) = run(Command::new(cases).arg("execs")) else { return };
    assert!(run.output.status.success(), "{}", run.stdout());
}

#[test]
fn a_program_without_the_library_may_use_all_cpus() {
    let cases = compiled("cases.c", "cc", &[]);
    let Some(run) = run(Command::new(cases).arg("without-library")) else { return };
    assert!(run.output.status.success(), "{}", run.stdout());
}

/// The variables are those of the launcher.
#[test]
fn what_openmp_places_in_the_order_is_a_placement() {
    let program = compiled("openmp.c", "cc", &["-fopenmp"]);
    let in_order = |places: &str| {
        let mut command = Command::new(&program);
        run(command.env("OMP_PLACES", places).env("OMP_PROC_BIND", "close"))
    };
    let Some(ordered) = in_order("{0},{1}") else { return };
    assert_eq!(ordered.stdout(), "2: 0 1 2");
    // The main thread, the other one, sh, and env.
    assert_eq!((ordered.tally.pins_itself, ordered.tally.refused), (0, 0));
    // What the program chooses is its own, also while it has a runtime.
    let mut command = Command::new(&program);
    command.arg("pins").env("OMP_PLACES", "{0},{1}").env("OMP_PROC_BIND", "close");
    let pins = run(&mut command).unwrap();
    assert_eq!((pins.stdout().as_str(), pins.tally.pins_itself), ("2: 0 1 1", 1));
    // Another order is the user's.
    let other = in_order("{1},{0}").unwrap();
    assert_eq!(other.stdout(), "2: 1 0 1");
    assert!(other.tally.pins_itself >= 2, "{:?}", other.tally);
}

/// Each has the first place of the order.
#[test]
fn openmp_programs_and_programs_that_load_a_runtime_are_spread() {
    let program = compiled("openmp.c", "cc", &["-fopenmp"]);
    // The shell is on CPU 0, so its first child gets CPU 1.
    let in_shell = |script: String| {
        let mut command = Command::new("sh");
        command.args(["-c", &script]).env("OMP_PLACES", "{0},{1}").env("OMP_PROC_BIND", "close");
        run(command.env("OMP_NUM_THREADS", "1"))
    };
    let Some(one) = in_shell(format!("{}; true", program.display())) else { return };
    assert_eq!((one.stdout().as_str(), one.tally.pins_itself), ("2: 1 1 2", 0));
    if Command::new("python3").arg("-V").output().is_err() {
        println!("skipped: no python3");
        return;
    }
    let load = "import ctypes, os; ctypes.CDLL('libgomp.so.1'); print(\
                len(os.sched_getaffinity(0)), open('/proc/self/status').read()\
                .split('Cpus_allowed_list:')[1].split()[0])";
    let loaded = in_shell(format!("python3 -c \"{load}\"; true")).unwrap();
    assert_eq!((loaded.stdout().as_str(), loaded.tally.pins_itself), ("2 1", 0));
}

#[test]
fn errno_is_kept() {
    holds("keeps-errno", tally(2, 0));
}

#[test]
fn c11_threads_are_placed() {
    holds("c11", tally(2, 0));
}

#[test]
fn the_main_thread_may_leave_first() {
    holds("main-leaves", tally(3, 0));
}

#[test]
fn the_agent_does_not_outlive_the_other_threads() {
    let (occupancy, agent) = (NamedTempFile::new().unwrap(), NamedTempFile::new().unwrap());
    occupancy.as_file().set_len(FILE_BYTES as u64).unwrap();
    agent.as_file().set_len((WORDS * size_of::<u64>()) as u64).unwrap();
    let mut command = Command::new(compiled("cases.c", "cc", &[]));
    command.arg("no-exit").env("NUMAPILOT_AGENT", agent.path());
    let Some(command) = preloaded(&mut command, occupancy.path()) else { return };
    let mut child = command.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let status = loop {
        match child.try_wait().unwrap() {
            None if Instant::now() < deadline => sleep(Duration::from_millis(10)),
            status => break status,
        }
    };
    let _ = child.kill();
    let _ = child.wait();
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
}

#[test]
fn the_occupancy_table_tells_who_pins_itself() {
    let occupancy = NamedTempFile::new().unwrap();
    occupancy.as_file().set_len(FILE_BYTES as u64).unwrap();
    for (command, expected) in
        [("exec taskset -c 0 sh -c 'kill -9 $$'", Holds::ItsOwn), ("kill -9 $$", Holds::Cpu(0))]
    {
        let mut shell = Command::new("sh");
        let Some(run) =
            run_with(shell.args(["-c", &format!("echo $$; {command}")]), occupancy.path())
        else {
            return;
        };
        let pid = run.stdout().parse().unwrap();
        let file = fs::read(occupancy.path()).unwrap();
        assert_eq!(holds_in(&file, pid), Some(expected), "{command}");
    }
    assert_eq!(holds_in(&fs::read(occupancy.path()).unwrap(), 1), None);
    assert_eq!(holds_in(b"", 1), None);
}

#[test]
fn everything_is_given_back_at_the_end() {
    let cases = compiled("cases.c", "cc", &[]);
    let occupancy = NamedTempFile::new().unwrap();
    occupancy.as_file().set_len(FILE_BYTES as u64).unwrap();
    for _ in 0..3 {
        for case in ["detached", "forks", "main-leaves", "main-and-first-thread"] {
            let Some(run) = run_with(Command::new(&cases).arg(case), occupancy.path()) else {
                return;
            };
            assert!(run.output.status.success(), "{case}: {}", run.stdout());
        }
    }
}

#[test]
fn an_unusable_occupancy_table_leaves_every_process_to_itself() {
    let cases = compiled("cases.c", "cc", &[]);
    let directory = tempfile::tempdir().unwrap();
    let short = directory.path().join("short");
    fs::write(&short, b"x").unwrap();
    let whole = directory.path().join("whole");
    fs::write(&whole, vec![0; FILE_BYTES]).unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&whole, &link).unwrap();
    for occupancy in [short, link, directory.path().join("absent"), directory.path().to_owned()] {
        let Some(run) = run_with(Command::new(&cases).arg("forks"), &occupancy) else { return };
        assert!(run.output.status.success(), "{}: {}", occupancy.display(), run.stdout());
    }
    assert_eq!(fs::read(&whole).unwrap(), vec![0; FILE_BYTES], "the link was followed");
}

#[test]
fn a_bad_variable_is_reported_and_changes_nothing() {
    let cases = compiled("cases.c", "cc", &[]);
    for (list, message) in [
        ("0,x", "NUMAPILOT_BIND_CPUS: neither a number nor a range"),
        ("", "NUMAPILOT_BIND_CPUS: no CPU in the list"),
        ("8191", "this process may run on none of these CPUs"),
    ] {
        let output = Command::new(&cases)
            .arg("only-cpu")
            .env("NUMAPILOT_BIND_CPUS", list)
            .env("LD_PRELOAD", library())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.starts_with("numapilot: ") && stderr.contains(message), "{list}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(output.status.success());
    }
    let output = Command::new(&cases)
        .arg("keeps-errno")
        .env("LD_PRELOAD", library())
        .env_remove("NUMAPILOT_BIND_CPUS")
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
}

/// Runs a program in another language that prints one CPU per thread, if it is installed.
fn language(program: &str, arguments: &[&str], expected: &str, least_placed: u32) {
    if Command::new(program).arg("--version").output().is_err() {
        println!("skipped: {program} is not installed");
        return;
    }
    let Some(run) = run(Command::new(program).args(arguments)) else { return };
    let errors = String::from_utf8_lossy(&run.output.stderr);
    assert!(run.output.status.success(), "{program}: {errors}");
    assert_eq!(run.stdout(), expected, "{program}: {errors}");
    assert!(run.tally.placed >= least_placed, "{program}: {:?}", run.tally);
}

#[test]
fn cpp_threads_are_placed() {
    if Command::new("c++").arg("--version").output().is_err() {
        println!("skipped: c++ is not installed");
        return;
    }
    let program = compiled("threads.cpp", "c++", &["-std=c++17"]);
    let Some(run) = run(&mut Command::new(program)) else { return };
    assert_eq!(run.stdout(), "2 CPUs: 1 0 1 0 caught", "{:?}", run.output);
    assert_eq!(run.tally, tally(5, 0));
}

#[test]
fn python_sees_all_cpus_and_its_threads_spread() {
    let script = "import os, threading\n\
        seen = []\n\
        gate = threading.Barrier(3)\n\
        def work():\n    \
            gate.wait(); status = open('/proc/thread-self/status').read()\n    \
            seen.append(status.split('Cpus_allowed_list:')[1].split()[0])\n\
        threads = [threading.Thread(target=work) for _ in range(2)]\n\
        [t.start() for t in threads]; gate.wait(); [t.join() for t in threads]\n\
        print(len(os.sched_getaffinity(0)), sorted(seen))";
    language("python3", &["-c", script], "2 ['0', '1']", 3);
}

#[test]
fn java_sees_all_cpus() {
    if Command::new("java").arg("-version").output().is_err() {
        println!("skipped: java is not installed");
        return;
    }
    let program = Path::new(SOURCES).join("Cpus.java");
    let Some(run) = run(Command::new("java").arg(program)) else { return };
    assert_eq!(run.stdout(), "2", "{:?}", run.output);
    assert!(run.tally.placed > 2, "{:?}", run.tally);
}

#[test]
fn openmp_finds_all_places() {
    let source = "#include <stdio.h>\n#include <omp.h>\nint main(void) {\n\
        int threads = 0;\n#pragma omp parallel reduction(+ : threads)\n threads++;\n\
        printf(\"%d\\n\", threads);\n return 0; }\n";
    let directory = tempfile::tempdir().unwrap();
    let (file, program) = (directory.path().join("omp.c"), directory.path().join("omp"));
    fs::write(&file, source).unwrap();
    let built = Command::new("cc").args(["-fopenmp", "-o"]).arg(&program).arg(&file).output();
    if !built.is_ok_and(|output| output.status.success()) {
        println!("skipped: no C compiler with OpenMP");
        return;
    }
    for places in [None, Some("{1},{0}")] {
        let mut command = Command::new(&program);
        command.env_remove("OMP_NUM_THREADS");
        places.map(|p| command.env("OMP_PLACES", p).env("OMP_PROC_BIND", "close"));
        let Some(run) = run(&mut command) else { return };
        assert_eq!(run.stdout(), "2", "{places:?} {:?}", run.output);
        assert_eq!(run.tally.pins_itself > 0, places.is_some(), "{:?}", run.tally);
    }
}

//! Tests with real programs.

use std::time::Instant;

use numapilot_place::{Options, prepare};

use super::*;
use crate::evidence::Phase;
use crate::shape::Candidate;

const OTHER: Candidate = Candidate(1);

fn shell(script: &str) -> Program {
    let command = ["sh", "-c", script].map(OsString::from).to_vec();
    Program {
        command,
        stdin: None,
        prepare: None,
        via: None,
        cleanup: None,
        service: None,
        progress: None,
        timeout: None,
    }
}

fn run(program: Program, candidate: Candidate) -> Result<Trial, RunError> {
    let machine = Machine::uniform(1, 1);
    let never = AtomicBool::new(false);
    let judge = Judge::new(Metric::WallTime, None, Limits::default());
    let order = Order { phase: Phase::Race, block: 0, candidate };
    Runner::new(&machine, program, judge, &never).run(order, &Plan::default())
}

#[test]
fn wall_time_is_the_metric() {
    let trial = run(shell("echo hello; sleep 0.05"), DEFAULT).unwrap();
    let Outcome::Value(seconds) = trial.outcome else { panic!("{trial:?}") };
    assert!(seconds >= 0.05);
    assert!(trial.peak_rss_bytes.unwrap() > 0);
}

/// This process has had more resident than the program ever has.
#[test]
fn a_short_process_of_the_program_counts_with_its_peak() {
    let mut large = vec![0_u8; 96 << 20];
    large.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    assert!(std::hint::black_box(&large).len() > 1 << 20);
    drop(large);
    // It ends before its memory is looked at for the first time.
    let trial = run(shell("perl -e '$_ = q(x) x 40000000'; sleep 0.3"), DEFAULT);
    let peak = trial.unwrap().peak_rss_bytes.unwrap();
    assert!((38 << 20..90 << 20).contains(&peak), "{peak}");
}

#[test]
fn a_program_that_fails_is_an_outcome_and_its_output_is_kept() {
    let failure = |script| run(shell(script), OTHER).unwrap().failure().cloned();
    assert_eq!(failure("exit 3"), Some(Failure::Exit(3)));
    assert_eq!(failure("kill -SEGV $$"), Some(Failure::Signal(11)));
    let trial = run(shell("echo fine; seq 100; echo oops >&2; exit 3"), DEFAULT).unwrap();
    assert_eq!(trial.failure(), Some(&Failure::Exit(3)));
    assert!(trial.remains.output.ends_with("100\noops"), "{:?}", trial.remains);
    assert_eq!(trial.remains.output.lines().count(), output::LINES);
    assert!(run(shell("echo fine"), DEFAULT).unwrap().remains.is_empty());
}

/// A server that has its own session, and outlives the program that started it.
#[test]
fn what_a_run_left_running_is_ended_and_named() {
    for status in [0, 3] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pids");
        let script = format!(
            "setsid sleep 101 </dev/null >/dev/null 2>&1 & one=$!; \
             sleep 102 </dev/null >/dev/null 2>&1 & printf '%s\\n' $one $! > {0}; \
             for it in $one $!; do until grep -qs sleep /proc/$it/comm; do :; done; done; \
             exit {status}",
            file.display()
        );
        let trial = run(shell(&script), OTHER).unwrap();
        assert_eq!(trial.failure().is_none(), status == 0, "{trial:?}");
        let pids = std::fs::read_to_string(file).unwrap();
        assert_eq!(pids.lines().count(), 2);
        for pid in pids.lines() {
            let ended = &trial.remains.ended;
            let is_named = ended.iter().any(|ended| ended.ends_with(&format!("({pid})")));
            assert!(is_named, "{pid} of {ended:?}");
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            assert!(stat.is_err() || stat.is_ok_and(|s| s.contains(") Z")), "{pid} lives on");
        }
        assert_eq!(trial.remains.programs().collect::<Vec<_>>(), ["sleep", "sleep"]);
    }
}

/// If this process is killed, the guard ends what is left. The note lives until that has ended.
#[test]
fn a_group_is_noted_until_what_is_left_of_it_has_ended() {
    let machine = Machine::uniform(1, 1);
    let words = ["sh", "-c", "sleep 103 >/dev/null 2>&1 & exit 0"].map(OsString::from);
    let options = Options { strict: false, new_group: true };
    let prepared = prepare(&Plan::default(), &machine, &words, &options).unwrap();
    let running = prepared.spawn(|_| {}).unwrap();
    let note = std::sync::Arc::downgrade(&running.group_note().unwrap());
    let mut left = Leftovers::before(vec![guard::run_mark(u64::MAX).unwrap()]);
    left.started(&running);
    assert!(running.wait(None).unwrap().status.success());
    assert!(note.upgrade().is_some(), "the program has ended, its child has not");
    assert_eq!(left.end(Duration::ZERO).processes.len(), 1);
    assert!(note.upgrade().is_none());
}

#[test]
fn what_ends_by_itself_right_after_the_program_is_not_ended() {
    let trial = run(shell("sleep 0.02 </dev/null >/dev/null 2>&1 & exit 0"), OTHER).unwrap();
    assert!(matches!(trial.outcome, Outcome::Value(_)), "{trial:?}");
}

#[test]
fn a_missing_program_is_an_error() {
    let program = Program { command: vec!["/nonexistent/program".into()], ..shell("") };
    let error = run(program, DEFAULT).unwrap_err();
    assert!(matches!(&error, RunError::Start(e) if e.exit_status() == 127), "{error}");
}

#[test]
fn a_time_limit_ends_the_whole_group() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!("sleep 100 & echo $! > {}; wait", file.display());
    let program = Program { timeout: Some(Duration::from_millis(300)), ..shell(&script) };
    let trial = run(program, OTHER).unwrap();
    assert_eq!(trial.failure(), Some(&Failure::Timeout));
    let pid = std::fs::read_to_string(file).unwrap();
    // A killed process takes a moment to end, and is a zombie until its adopter has reaped it.
    let alive = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.is_ok_and(|stat| !stat.contains(") Z"))
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while alive() {
        assert!(Instant::now() < deadline, "the descendant lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn output_is_bounded_and_descendants_do_not_delay() {
    let started = Instant::now();
    let trial = run(shell("head -c 9000000 /dev/zero; sleep 60 & exit 0"), OTHER).unwrap();
    assert!(matches!(trial.outcome, Outcome::Value(_)));
    assert!(started.elapsed() < Duration::from_secs(30));
}

/// A number at the limit of what is kept would be read as another one.
#[test]
fn output_beyond_the_limit_is_dropped_in_whole_lines() {
    let script = "echo rate 1234; head -c 1048570 /dev/zero | tr '\\0' x; echo; echo rate 1234";
    let metric = Metric::matched(regex::Regex::new("rate ?([0-9]+)").unwrap(), None).unwrap();
    let (machine, now) = (Machine::uniform(1, 1), AtomicBool::new(false));
    let judge = Judge::new(metric, None, Limits::default()).counting(Matches::Steady);
    let order = Order { phase: Phase::Noise, block: 0, candidate: DEFAULT };
    let trial = Runner::new(&machine, shell(script), judge, &now).run(order, &Plan::default());
    assert_eq!(trial.unwrap().outcome, Outcome::Value(1234.0));
}

#[test]
fn an_interruption_ends_the_run() {
    let machine = Machine::uniform(1, 1);
    let now = AtomicBool::new(true);
    let judge = Judge::new(Metric::WallTime, None, Limits::default());
    let order = Order { phase: Phase::Noise, block: 0, candidate: DEFAULT };
    let result = Runner::new(&machine, shell("sleep 60"), judge, &now).run(order, &Plan::default());
    assert!(matches!(result, Err(RunError::Interrupted)));
    // Nothing was prepared, so there is nothing to clean up.
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let script = format!("touch {}; sleep 60", begun.display());
    let cleaned = |now: &AtomicBool| {
        let program = Program { cleanup: Some("exit 4".into()), ..shell(&script) };
        let judge = Judge::new(Metric::WallTime, None, Limits::default());
        Runner::new(&machine, program, judge, now).run(order, &Plan::default()).unwrap_err()
    };
    assert!(matches!(cleaned(&now), RunError::Interrupted));
    // What --cleanup does not put back is reported all the same.
    let later = AtomicBool::new(false);
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !begun.exists() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            later.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        cleaned(&later)
    });
    assert!(error.to_string().contains("--cleanup 'exit 4' ended with"), "{error}");
}

#[test]
fn the_prepare_command_runs_first_and_may_not_fail() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made");
    let touch = format!("touch {}", file.display());
    let check = format!("test -e {}", file.display());
    let program = Program { prepare: Some(touch), ..shell(&check) };
    assert!(matches!(run(program, DEFAULT).unwrap().outcome, Outcome::Value(_)));
    let program = Program { prepare: Some("exit 4".into()), ..shell("true") };
    assert!(run(program, DEFAULT).unwrap_err().to_string().contains("--prepare"));
}

#[test]
fn stdin_comes_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("input");
    std::fs::write(&file, "yes\n").unwrap();
    let program = Program { stdin: Some(file), ..shell("read a && test $a = yes") };
    assert!(matches!(run(program, DEFAULT).unwrap().outcome, Outcome::Value(_)));
    let program = Program { stdin: Some("/nonexistent".into()), ..shell("true") };
    assert!(run(program, DEFAULT).unwrap_err().to_string().contains("--stdin"));
}

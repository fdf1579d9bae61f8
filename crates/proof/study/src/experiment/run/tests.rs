//! Tests with short shell commands.

use std::collections::BTreeSet;
use std::fs;

use numapilot_test_kit::wait_until;

use super::*;
use crate::experiment::Outcome;
use crate::experiment::tests::{TINY, tiny};

#[derive(Default)]
struct Log {
    trials: Vec<Trial>,
    begun: usize,
    /// The maximum number of simultaneous trials.
    most: usize,
}

impl Watcher for Log {
    type Error = RunError;
    fn begin(&mut self, _: &Experiment) -> Result<(), RunError> {
        self.begun += 1;
        Ok(())
    }
    fn now(&mut self, running: &[Running<'_>], ahead: &Ahead) {
        assert!(ahead.trials >= running.len(), "{ahead:?}");
        self.most = self.most.max(running.len());
    }
    fn after(&mut self, trial: &Trial) -> Result<(), RunError> {
        self.trials.push(trial.clone());
        Ok(())
    }
}

fn run(experiments: &[Experiment], past: &[Trial], interrupted: bool) -> (Finished, Log) {
    let interrupted = AtomicBool::new(interrupted);
    let mut log = Log::default();
    let finished = start(experiments, &interrupted, past, &mut log).unwrap();
    (finished, log)
}

/// Starts a batch with two jobs.
fn start<W: Watcher>(
    experiments: &[Experiment],
    interrupted: &AtomicBool,
    past: &[Trial],
    watcher: &mut W,
) -> Result<Finished, W::Error> {
    let batch = Batch {
        experiments,
        scale: ScaleName::Laptop,
        repetitions: None,
        seed: 1,
        jobs: NonZeroUsize::new(2).unwrap(),
        machine: &Machine::uniform(1, 1),
        programs: Path::new("/nonexistent"),
        interrupted,
    };
    batch.run(past, watcher)
}

#[test]
fn every_round_has_every_cell_and_what_is_there_is_not_run_again() {
    let (finished, log) = run(&[tiny()], &[], false);
    assert_eq!((finished, log.trials.len(), log.begun), (Finished::Whole, 6, 1));
    for round in 0..3 {
        let commands: BTreeSet<&str> =
            log.trials[2 * round..2 * round + 2].iter().map(|t| t.command.as_str()).collect();
        assert_eq!(commands.len(), 2, "round {round}");
    }
    let (_, again) = run(&[tiny()], &log.trials[..4], false);
    assert_eq!(again.trials.len(), 2);
    // Another experiment that reads a different number from the same trials.
    let other = TINY.replace("field = \"seconds\"", "field = \"usage.wall_seconds\"");
    let other = Experiment::parse("other", &other).unwrap();
    let (_, more) = run(std::slice::from_ref(&other), &log.trials, false);
    assert_eq!(more.trials.len(), 6);
    let (_, both) = run(&[tiny(), other], &[], false);
    assert_eq!((both.trials.len(), both.begun), (6, 2));
}

#[test]
fn what_cannot_be_run_here_is_no_failure_and_is_tried_once() {
    let with = |script: &str| {
        let text = TINY.replace("command = \"", &format!("command = \"{script}; "));
        run(&[Experiment::parse("tiny", &text).unwrap()], &[], false).1.trials
    };
    let gone = with("echo numapilot: error: no QEMU, install it >&2; exit 125");
    assert_eq!(gone.len(), 2);
    assert_eq!(gone[0].outcome, Outcome::NotHere("no QEMU, install it".to_owned()));
    assert!(matches!(&with("no-such-program-here || exit")[0].outcome, Outcome::NotHere(_)));
    let loader = "echo x: cannot open libunwind.so.8; echo '[0]'; exit 127";
    let loader = &with(loader)[0].outcome;
    assert_eq!(*loader, Outcome::NotHere("x: cannot open libunwind.so.8".to_owned()));
    let failed = with("echo why; exit 3");
    assert_eq!(failed[0].outcome, Outcome::Failed("exit status 3: why".to_owned()));
}

#[test]
fn an_interruption_ends_it() {
    let (finished, log) = run(&[tiny()], &[], true);
    assert_eq!((finished, log.trials.len()), (Finished::Interrupted, 0));
}

/// An experiment on an emulated machine, which exists in name only. The script runs before the
/// output; `$KIND` is the cell.
fn lab(id: &str, script: &str) -> Experiment {
    let text = TINY.replace("T1", id).replace("machine = \"host\"", "machine = \"machine-a\"");
    let text =
        text.replace("command = \"", &format!("command = \"ID={id} KIND={{kind}}; {script}; "));
    Experiment::parse(id, &text).unwrap()
}

/// A shell command that waits up to a minute for a file.
fn wait_for(file: &str) -> String {
    format!("for i in $(seq 600); do test -e {file} && break; sleep 0.1; done; test -e {file}")
}

#[test]
fn trials_in_the_lab_run_beside_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().display();
    // Each cell succeeds only after it has seen the other one.
    let other = wait_for(&format!("{here}/$(test $KIND = 1.0 && echo 2.0 || echo 1.0)"));
    let script = format!("touch {here}/$KIND; {other} || exit 1");
    let (finished, log) = run(&[lab("L1", &script)], &[], false);
    assert_eq!((finished, log.trials.len(), log.most), (Finished::Whole, 6, 2));
    assert!(log.trials.iter().all(|trial| matches!(trial.outcome, Outcome::Values(_))));
}

#[test]
fn nothing_runs_beside_what_is_made_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("log");
    let script = format!("echo + $ID >> {0}; sleep 0.02; echo - $ID >> {0}", file.display());
    let host = |id| Experiment { machine: "host".to_owned(), ..lab(id, &script) };
    let all = [lab("L1", &script), host("H1"), lab("L2", &script), host("H2"), lab("L3", &script)];
    let (_, log) = run(&all, &[], false);
    assert_eq!((log.trials.len(), log.begun), (30, 5));
    let text = fs::read_to_string(file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let (mut running, mut alone) = (0, 0);
    for pair in lines.windows(2) {
        running += if pair[0].starts_with('+') { 1 } else { -1 };
        if let Some(id) = pair[0].strip_prefix("+ ").filter(|id| !id.starts_with('L')) {
            assert_eq!((running, pair[1]), (1, format!("- {id}").as_str()), "{text}");
            alone += 1;
        }
    }
    assert_eq!(alone, 12);
}

#[test]
fn what_fails_does_not_end_its_neighbour() {
    let directory = tempfile::tempdir().unwrap();
    let gone = directory.path().join("gone").display().to_string();
    let fails = format!("test $KIND = 2.0 || {{ touch {gone}; exit 3; }}");
    let (finished, log) = run(&[lab("L1", &format!("{fails}; {}", wait_for(&gone)))], &[], false);
    assert_eq!(finished, Finished::Whole);
    let failed = |trial: &&Trial| matches!(trial.outcome, Outcome::Failed(_));
    assert_eq!((log.trials.len(), log.trials.iter().filter(failed).count()), (4, 1));
}

/// A watcher that cannot store a trial.
struct Full(Log);

impl Watcher for Full {
    type Error = RunError;
    fn begin(&mut self, experiment: &Experiment) -> Result<(), RunError> {
        self.0.begin(experiment)
    }
    fn now(&mut self, running: &[Running<'_>], ahead: &Ahead) {
        self.0.now(running, ahead);
    }
    fn after(&mut self, _: &Trial) -> Result<(), RunError> {
        let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
        Err(RunError::Io { what: "full".to_owned(), source })
    }
}

#[test]
fn an_error_ends_all_that_runs() {
    let directory = tempfile::tempdir().unwrap();
    let pid = directory.path().join("pid");
    let long =
        format!("test $KIND = 2.0 && echo $$ > {0}; test $KIND = 1.0 || sleep 1000", pid.display());
    let script = format!("{long}; {}", wait_for(&pid.display().to_string()));
    let mut full = Full(Log::default());
    let ended = start(&[lab("L1", &script)], &AtomicBool::new(false), &[], &mut full);
    assert!(matches!(ended, Err(RunError::Io { .. })), "{ended:?}");
    let pid = fs::read_to_string(pid).unwrap();
    // It has got its signal; its parent, which has ended as well, does not wait for it.
    wait_until("it lives on", || !Path::new("/proc").join(pid.trim()).exists());
}

#[test]
fn repetitions_on_emulated_machines_are_seeds() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("log");
    let script = format!("echo $NUMAPILOT_LAB_SEED >> {}", file.display());
    let (_, log) = run(&[lab("L1", &script)], &[], false);
    let text = fs::read_to_string(file).unwrap();
    let mut seeds: Vec<&str> = text.lines().collect();
    seeds.sort_unstable();
    // Two cells, each in three rounds.
    assert_eq!((log.trials.len(), seeds), (6, vec!["1", "1", "2", "2", "3", "3"]));
}

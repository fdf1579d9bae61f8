//! Inspects all processes of a run while it goes on.
//!
//! A thread of the launcher inspects them soon after the start and then at growing intervals. After
//! half a second it uses at most half a per cent of one CPU, to avoid disturbing a run that is
//! being measured. The last look before a process ended counts.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use numapilot_bind::occupancy::{Holds, holds};
use numapilot_observe::{Orphans, Tree};

use super::Seen;
use super::expected::Expected;
use super::process::{Process, Verdict};
use super::tally::{Record, Tally};
use crate::{Running, check_proc};

/// Pause before the first look. Each pause is twice the one before.
const FIRST: Duration = Duration::from_millis(2);
/// Longest pause between two looks.
const LONGEST: Duration = Duration::from_secs(1);
/// A pause is at least this many times as long as the look before it.
const REST: u32 = 200;
/// Number of looks that only confirm the one before and skip that longer pause. It is small, to
/// avoid disturbing a run that keeps starting programs.
const CONFIRMATIONS: u32 = 8;
/// Time of the first report: by then programs are loaded and threads are placed.
const SETTLED: Duration = Duration::from_millis(500);

/// The observing thread. It ends when this is dropped.
#[derive(Debug)]
pub struct Observer {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Vec<Seen>>>,
}

impl Observer {
    /// Observes a program that was started and not waited for yet, and all processes that it
    /// starts. `first` gets the state half a second after the start, unless [`Observer::finish`] is
    /// called before.
    ///
    /// # Errors
    /// If no thread can be created, or `/proc` shows another PID namespace.
    pub fn start(
        expected: Expected,
        program: &Running,
        first: impl FnOnce(Vec<Seen>) + Send + 'static,
    ) -> io::Result<Self> {
        // The id would belong to another process there.
        check_proc().map_err(io::Error::other)?;
        let (stop, stopped) = channel();
        let run = Run::new(expected, program.pid(), program.occupancy().map(Path::to_owned));
        let thread = thread::Builder::new()
            .name("watch-effects".to_owned())
            .spawn(move || observe(run, &stopped, first))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Ends the observation after the program has ended. Returns the effect of each setting.
    #[must_use]
    pub fn finish(mut self) -> Vec<Seen> {
        self.stop.take();
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // The thread does not panic, and nothing could be done if it did.
            let _ = thread.join();
        }
    }
}

fn observe(mut run: Run, stopped: &Receiver<()>, first: impl FnOnce(Vec<Seen>)) -> Vec<Seen> {
    let started = Instant::now();
    let mut first = Some(first);
    let (mut pause, mut rest) = (FIRST, FIRST);
    let mut confirmations = CONFIRMATIONS;
    while stopped.recv_timeout(rest) == Err(RecvTimeoutError::Timeout) {
        let start = Instant::now();
        run.look();
        if started.elapsed() >= SETTLED
            && let Some(first) = first.take()
        {
            first(run.seen());
        }
        pause = (pause * 2).min(LONGEST);
        // The first looks are few, and short programs are seen only by them.
        let is_young = started.elapsed() < SETTLED;
        rest = if is_young {
            pause
        } else if confirmations > 0 && run.has_doubts() {
            confirmations -= 1;
            pause
        } else {
            pause.max(start.elapsed() * REST)
        };
    }
    run.seen()
}

/// A run: its settings, its processes, and the record of each process.
struct Run {
    expected: Expected,
    tree: Tree,
    /// The file that tells which processes pin themselves.
    occupancy: Option<PathBuf>,
    living: HashMap<i32, Living>,
    /// The tallies of processes that have ended, by setting.
    ended: Vec<Tally>,
}

struct Living {
    since: Instant,
    record: Record,
    /// The verdicts of the previous look, which confirm that a setting has no effect.
    before: Vec<Verdict>,
    image: PathBuf,
}

impl Run {
    fn new(expected: Expected, program: i32, occupancy: Option<PathBuf>) -> Self {
        let ended = vec![Tally::default(); expected.0.len()];
        let tree = Tree::of_child_with(program, Orphans::Ignored);
        Self { expected, tree, occupancy, living: HashMap::new(), ended }
    }

    fn look(&mut self) {
        for pid in self.tree.refresh() {
            if let Some(gone) = self.living.remove(&pid) {
                add(&mut self.ended, &gone.record);
            }
        }
        let running: Vec<i32> = self.tree.running_with_parents().map(|(pid, _)| pid).collect();
        let read = self.occupancy.as_ref().and_then(|path| fs::read(path).ok());
        let occupancy = read.unwrap_or_default();
        for pid in running {
            self.look_at(pid, &occupancy);
        }
    }

    fn look_at(&mut self, pid: i32, occupancy: &[u8]) {
        let known = self.living.get(&pid);
        let age = known.map_or(Duration::ZERO, |living| living.since.elapsed());
        let pins_itself = holds(occupancy, pid.unsigned_abs()) == Some(Holds::ItsOwn);
        let Some(process) = Process::open(pid, age, pins_itself) else { return };
        let ticks = ticks(pid);
        let verdicts: Vec<Verdict> =
            self.expected.0.iter().map(|item| process.verdict_on(item)).collect();
        match self.living.get_mut(&pid) {
            Some(living) => {
                let same = living.image == process.image;
                living.record.name = process.name();
                living.record.ticks = ticks.unwrap_or(living.record.ticks);
                for (at, verdict) in verdicts.iter().enumerate() {
                    let before = same.then(|| &living.before[at]);
                    let noted = same.then(|| &living.record.verdicts[at]);
                    living.record.verdicts[at] = believed(verdict, before, noted);
                }
                living.before = verdicts;
                living.image = process.image;
            }
            None => {
                let first = verdicts.iter().map(|verdict| believed(verdict, None, None));
                let record = Record {
                    name: process.name(),
                    ticks: ticks.unwrap_or(0),
                    verdicts: first.collect(),
                };
                let since = Instant::now();
                let living = Living { since, record, before: verdicts, image: process.image };
                self.living.insert(pid, living);
            }
        }
    }

    /// Whether the last look found a setting without effect that another look must confirm.
    fn has_doubts(&self) -> bool {
        self.living.values().any(|living| {
            let noted = living.record.verdicts.iter();
            living.before.iter().zip(noted).any(|(seen, noted)| {
                matches!(seen, Verdict::Not(_)) && !matches!(noted, Verdict::Not(_))
            })
        })
    }

    fn seen(&self) -> Vec<Seen> {
        let mut tallies = self.ended.clone();
        for living in self.living.values() {
            add(&mut tallies, &living.record);
        }
        self.expected.0.iter().zip(tallies).map(|(item, tally)| tally.seen(item)).collect()
    }
}

/// The verdict to record for a look, given the previous look and the recorded verdict. A missing
/// effect must be seen twice, because the program may have just started. A verdict that is no
/// longer visible stays recorded.
fn believed(verdict: &Verdict, before: Option<&Verdict>, noted: Option<&Verdict>) -> Verdict {
    let new = match (verdict, before) {
        (Verdict::Not(_), Some(Verdict::Not(_))) | (Verdict::Held(_) | Verdict::Idle(_), _) => {
            return verdict.clone();
        }
        (Verdict::Not(_), _) => Verdict::Unseen("it has just been started".to_owned()),
        (Verdict::Unseen(_), _) => verdict.clone(),
    };
    match noted {
        None | Some(Verdict::Unseen(_)) => new,
        Some(noted) => noted.clone(),
    }
}

fn add(tallies: &mut [Tally], record: &Record) {
    for (tally, verdict) in tallies.iter_mut().zip(&record.verdicts) {
        tally.add(record, verdict);
    }
}

/// CPU time of all threads of a process, in clock ticks.
fn ticks(pid: i32) -> Option<u64> {
    let stat = procfs::process::Process::new(pid).ok()?.stat().ok()?;
    Some(stat.utime + stat.stime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_look_does_not_deny_an_effect() {
        let held = Verdict::Held("x".into());
        let unseen = Verdict::Unseen("x".into());
        let not = Verdict::Not(super::super::process::Cause {
            text: "x".into(),
            remedy: "y",
            is_of_program: false,
        });
        assert!(matches!(believed(&not, None, None), Verdict::Unseen(_)));
        assert_eq!(believed(&not, Some(&held), Some(&held)), held);
        assert_eq!(believed(&not, Some(&not), Some(&held)), not);
        assert_eq!(believed(&held, Some(&not), Some(&not)), held);
        assert_eq!(believed(&unseen, Some(&held), Some(&held)), held);
        // The process has executed another program.
        assert_eq!(believed(&unseen, None, None), unseen);
    }
}

//! Executes one run of a prepared program: captures its output, limits its time, allows
//! interruption, and measures its peak of resident memory.
//!
//! Source of the peak: getrusage(2) and proc_pid_status(5). `ru_maxrss` is exact, but begins with
//! what the parent had resident when it forked. Below that, the high-water mark in `/proc` counts,
//! as last read before the end, if the program ran long enough to have its libraries loaded.
//! Neither includes huge pages of hugetlbfs, and `ru_maxrss` lacks processes that the program does
//! not wait for, such as daemons. These are read while they run, and when the program has ended. If
//! this process adopts [orphans], the peak of each is read when it ends.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use numapilot_observe::{Resident, Tree, orphans};
use numapilot_place::{Finished, Prepared, Running};
use procfs::process::Process;

use super::capture::Capture;
use super::{RunError, io_error};
use crate::evidence::Failure;

/// How often the loop checks for an interruption and reads the memory. The program's own end wakes
/// it at once.
const TICK: Duration = Duration::from_millis(100);
/// Delay of the first reading of the memory. Each later delay is twice the one before.
const FIRST_LOOK: Duration = Duration::from_millis(2);
/// A program younger than this may not have touched its initial memory.
const GROWN_UP: Duration = Duration::from_millis(50);

/// The parameters of a run, in addition to its plan.
#[derive(Debug)]
pub struct RunContext<'a> {
    /// Standard input.
    pub stdin: Stdio,
    /// Working directory; by default this process's own.
    pub directory: Option<&'a Path>,
    /// The time after which the program and its whole group are ended.
    pub timeout: Option<Duration>,
    /// Ends the run when it becomes true.
    pub interrupted: &'a AtomicBool,
}

/// A program that has run.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Its status and resource usage.
    pub finished: Finished,
    /// The end of its output, standard output and error in the order written.
    pub text: String,
    /// Its peak of resident memory, including huge pages of hugetlbfs.
    pub peak_rss_bytes: u64,
}

impl Execution {
    /// Why the run failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        if self.finished.timed_out {
            return Some(Failure::Timeout);
        }
        let status = self.finished.status;
        let signal = status.signal().map(Failure::Signal);
        signal.or_else(|| status.code().filter(|&code| code != 0).map(Failure::Exit))
    }
}

/// Runs a program to its end. `started` is called as soon as it runs.
///
/// # Errors
/// [`RunError`] if it cannot be started or watched, or if the user interrupts. A program that fails
/// is not an error.
pub fn execute(
    prepared: &Prepared,
    context: RunContext<'_>,
    started: impl FnOnce(&Running),
) -> Result<Execution, RunError> {
    let (mut capture, writer) = Capture::new().map_err(|e| io_error("cannot make a pipe", e))?;
    let stderr = writer.try_clone().map_err(|e| io_error("cannot duplicate a pipe", e))?;
    let RunContext { stdin, directory, timeout, interrupted } = context;
    // Drops the peak of earlier runs.
    orphans::take_peak_rss_bytes();
    let start = Instant::now();
    let running = prepared.spawn(|command| {
        command.stdin(stdin).stdout(writer).stderr(stderr);
        if let Some(directory) = directory {
            command.current_dir(directory);
        }
    })?;
    started(&running);
    let mut peak = Peak::of(running.pid());
    let mut look = FIRST_LOOK;
    let finished = loop {
        if interrupted.load(Ordering::Relaxed) {
            // Dropping it kills its whole group.
            drop(running);
            return Err(RunError::Interrupted);
        }
        let left = timeout.map(|limit| limit.saturating_sub(start.elapsed()));
        let ended = capture
            .read_until_end(&running, left.map_or(look, |left| left.min(look)))
            .map_err(|e| io_error("cannot read the program's output", e))?;
        if ended || left.is_some_and(|left| left.is_zero()) {
            let finished = running.wait(Some(Duration::ZERO))?;
            peak.look_at_left();
            break finished;
        }
        if start.elapsed() >= GROWN_UP {
            peak.look();
        }
        look = (2 * look).min(TICK);
    };
    let text = capture.finish().map_err(|e| io_error("cannot read the program's output", e))?;
    let peak_rss_bytes =
        peak.bytes(finished.usage.peak_rss_bytes).max(orphans::take_peak_rss_bytes());
    Ok(Execution { finished, text, peak_rss_bytes })
}

/// A program's high-water mark of resident memory.
struct Peak {
    tree: Option<Tree>,
    /// The highest reading of any process, including huge pages of hugetlbfs.
    seen: Option<u64>,
    /// The highest peak of any process that outlived the program.
    left: u64,
    /// What this process had resident when it forked, which is the least value of `ru_maxrss`.
    floor: Option<u64>,
}

impl Peak {
    fn of(pid: i32) -> Self {
        let floor = Process::myself().ok().as_ref().and_then(Resident::of);
        Self {
            tree: Some(Tree::of_child(pid)),
            seen: None,
            left: 0,
            floor: floor.map(|resident| resident.peak_bytes),
        }
    }

    fn look(&mut self) {
        // A process that has ended has no memory; the earlier reading counts.
        let Some(tree) = &mut self.tree else { return };
        tree.refresh();
        self.seen = self.seen.max(tree.peak_rss_bytes());
    }

    /// To be called after the program was waited for: processes that are alive then are not in its
    /// `ru_maxrss`.
    fn look_at_left(&mut self) {
        let Some(tree) = &mut self.tree else { return };
        tree.refresh();
        self.left = tree.peak_rss_bytes().unwrap_or(0);
    }

    /// The peak, given `ru_maxrss` of the ended program.
    fn bytes(&self, reported: u64) -> u64 {
        let is_hidden = self.floor.is_some_and(|floor| reported <= floor);
        let peak = match self.seen {
            Some(seen) if is_hidden => seen,
            Some(seen) => seen.max(reported),
            None => reported,
        };
        peak.max(self.left)
    }
}

/// Opens standard input from a file; without one it is empty.
///
/// # Errors
/// Fails if the file cannot be opened; `name` is the option that gave it.
pub fn stdin(path: Option<&Path>, name: &str) -> Result<Stdio, RunError> {
    let Some(path) = path else { return Ok(Stdio::null()) };
    let open = |e: io::Error| io_error(&format!("cannot open {name} {}", path.display()), e);
    std::fs::File::open(path).map(Into::into).map_err(open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_peak_counts_where_the_parents_memory_does_not_hide_it() {
        let peak = |seen, floor| Peak { tree: None, seen, left: 0, floor };
        assert_eq!(peak(Some(40), Some(10)).bytes(50), 50);
        assert_eq!(peak(Some(4), Some(10)).bytes(10), 4);
        assert_eq!(peak(Some(4), Some(10)).bytes(9), 4);
        assert_eq!(peak(None, Some(10)).bytes(10), 10);
        assert_eq!(peak(Some(4), None).bytes(10), 10);
        // Huge pages of hugetlbfs, or a daemon.
        let more = peak(Some(60), Some(10));
        assert_eq!((more.bytes(10), more.bytes(12), more.bytes(70)), (60, 60, 70));
        // A daemon of a program that ended before the first reading.
        let left = Peak { left: 60, ..peak(None, Some(10)) };
        assert_eq!((left.bytes(10), left.bytes(70)), (60, 70));
    }
}

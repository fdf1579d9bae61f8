//! A program that runs while its output is captured and its memory is measured.
//!
//! A server and its load run at the same time, so one call can wait for several programs.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use numapilot_observe::{Orphans, Tree, orphans};
use numapilot_place::{Prepared, Running};

use super::capture::{self, Capture};
use super::execution::Execution;
use super::peak::Peak;
use super::{RunError, io_error};

/// How often the memory is read, and the longest wait of [`Watched::wait_any`].
const TICK: Duration = Duration::from_millis(100);
/// Delay of the first reading of the memory. Each later delay is twice the one before.
const FIRST_LOOK: Duration = Duration::from_millis(2);
/// A program younger than this may not have touched its initial memory.
const GROWN_UP: Duration = Duration::from_millis(50);

/// Which processes the memory of a program includes.
#[derive(Debug)]
pub enum Memory {
    /// All descendants: the program is the only child of this process. Orphans count if this
    /// process adopts them.
    Alone,
    /// Descendants, and orphans that are recognised in this way: other children run beside it.
    Beside(Orphans),
    /// None: the memory is not measured.
    Unmeasured,
}

/// A running program. If this is dropped, the program is killed with its whole group.
#[derive(Debug)]
pub struct Watched {
    running: Running,
    capture: Capture,
    peak: Option<Peak>,
    /// Pause before the next reading of the memory.
    pause: Duration,
    /// Time of the last reading.
    looked: Instant,
}

impl Watched {
    /// Starts a program.
    pub fn start(
        prepared: &Prepared,
        stdin: Stdio,
        directory: Option<&Path>,
        memory: Memory,
    ) -> Result<Self, RunError> {
        let (capture, writer) = Capture::new().map_err(|e| io_error("cannot make a pipe", e))?;
        let stderr = writer.try_clone().map_err(|e| io_error("cannot duplicate a pipe", e))?;
        if !matches!(memory, Memory::Unmeasured) {
            // Drops the peak of earlier runs.
            orphans::take_peak_rss_bytes();
        }
        let running = prepared.spawn(|command| {
            command.stdin(stdin).stdout(writer).stderr(stderr);
            if let Some(directory) = directory {
                command.current_dir(directory);
            }
        })?;
        let tree = match memory {
            Memory::Alone => Some(Tree::of_child(running.pid())),
            Memory::Beside(orphans) => Some(Tree::of_child_with(running.pid(), orphans)),
            Memory::Unmeasured => None,
        };
        let peak = tree.map(Peak::of);
        Ok(Self { running, capture, peak, pause: FIRST_LOOK, looked: Instant::now() })
    }

    /// The program.
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// Time since the start. Once it has reached a limit, the program's wall time has as well.
    pub fn age(&self) -> Duration {
        self.running.age()
    }

    /// Every process of the program that was seen.
    pub fn pids(&self) -> BTreeSet<i32> {
        let seen = self.peak.as_ref().map(|peak| peak.pids().clone());
        let mut pids = seen.unwrap_or_default();
        pids.insert(self.running.pid());
        pids
    }

    /// Whether the program has ended.
    pub fn has_ended(&self) -> Result<bool, RunError> {
        Ok(self.running.ended_within(Some(Duration::ZERO))?)
    }

    /// Waits until one of the programs has ended, for at most `limit` and a tenth of a second, and
    /// reads what they print meanwhile. Returns whether any has ended.
    pub fn wait_any(programs: &mut [&mut Self], limit: Duration) -> Result<bool, RunError> {
        let pause = programs.iter().filter(|one| one.peak.is_some()).map(|one| one.pause);
        let limit = pause.fold(limit.min(TICK), Duration::min);
        let mut parts: Vec<_> =
            programs.iter_mut().map(|one| (&one.running, &mut one.capture)).collect();
        let ended = capture::read_until_end(&mut parts, limit)
            .map_err(|e| io_error("cannot read the program's output", e))?;
        if !ended {
            programs.iter_mut().for_each(|one| one.look());
        }
        Ok(ended)
    }

    /// Reads the memory if it is time to.
    fn look(&mut self) {
        if self.looked.elapsed() < self.pause {
            return;
        }
        if self.age() >= GROWN_UP
            && let Some(peak) = &mut self.peak
        {
            peak.look();
        }
        self.looked = Instant::now();
        self.pause = (2 * self.pause).min(TICK);
    }

    /// The whole lines that it has printed since the last call.
    pub fn fresh_lines(&mut self) -> String {
        self.capture.fresh_lines()
    }

    /// Waits for the program, and ends it with its whole group if it still runs.
    pub fn finish(self) -> Result<Execution, RunError> {
        let Self { running, capture, mut peak, .. } = self;
        let finished = running.wait(Some(Duration::ZERO))?;
        let mut peak_rss_bytes = finished.usage.peak_rss_bytes;
        if let Some(peak) = &mut peak {
            peak.look_at_left();
            peak_rss_bytes = peak.bytes(peak_rss_bytes).max(orphans::take_peak_rss_bytes());
        }
        let text = capture.finish().map_err(|e| io_error("cannot read the program's output", e))?;
        Ok(Execution { finished, text, peak_rss_bytes })
    }
}

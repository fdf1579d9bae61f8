//! Measures how much a target uses its cores, from files of the kernel.
//!
//! Sources: Documentation/admin-guide/cgroup-v2.rst (`cpu.stat`); clock_getcpuclockid(3);
//! Documentation/scheduler/sched-stats.rst; Documentation/accounting/psi.rst.
//!
//! Busy cores come from the target's group if it has one in cgroup v2, which also counts processes
//! that have not been found yet. Otherwise they come from the CPU clocks of its processes, which
//! have nanoseconds where `/proc/PID/stat` has ticks of 10 ms. Waiting threads come from the time
//! that each thread has waited for a CPU. This needs one file per thread, so with thousands of
//! threads it is read less often than every tick, and the figure is the average of a longer time.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use numapilot_observe::Tree;

use crate::cached_proc_file::CachedProcFile;
use crate::decide::Load;
use crate::pace::{OFTEN, Pace};
use crate::traffic::Traffic;

/// A waiting figure older than this many ticks counts as unknown.
const FRESH_TICKS: u32 = 3;

/// The accounting files of a group in cgroup v2.
#[derive(Debug)]
struct Group {
    usage: CachedProcFile,
    /// `None` on a kernel without PSI.
    pressure: Option<CachedProcFile>,
}

impl Group {
    fn at(path: &Path) -> Option<Self> {
        let usage = CachedProcFile::open(&path.join("cpu.stat")).ok()?;
        Some(Self { usage, pressure: CachedProcFile::open(&path.join("cpu.pressure")).ok() })
    }

    /// CPU time that its processes have used; `None` when the group is gone.
    fn cpu_time(&self) -> Option<Duration> {
        parse_usage(&self.usage.read().ok()?)
    }

    /// Microseconds in which at least one thread has waited.
    fn pressure_us(&self) -> Option<u64> {
        parse_pressure(&self.pressure.as_ref()?.read().ok()?)
    }
}

/// Measures one target; keeps the last readings.
#[derive(Debug)]
pub struct Meter {
    /// The target's own group in cgroup v2.
    group: Option<Group>,
    at: Instant,
    cpu: Option<Duration>,
    clocks: Pace,
    looked_at: Instant,
    /// Cores that newly found processes had kept busy between the last two searches.
    unseen: f64,
    pressure_us: Option<u64>,
    delays: BTreeMap<i32, u64>,
    delays_at: Instant,
    waiting: Option<f64>,
    pace: Pace,
    traffic: Traffic,
}

impl Meter {
    /// Begins to measure a target. `group` is its own group in cgroup v2, if it has one.
    #[must_use]
    pub fn new(tree: &Tree, group: Option<&Path>) -> Self {
        let now = Instant::now();
        let group = group.and_then(Group::at);
        Self {
            at: now,
            cpu: cpu_time(tree, group.as_ref()),
            clocks: Pace::of(OFTEN),
            looked_at: now,
            unseen: 0.0,
            pressure_us: group.as_ref().and_then(Group::pressure_us),
            group,
            delays: tree.run_delays().collect(),
            delays_at: now,
            waiting: None,
            pace: Pace::of(OFTEN),
            traffic: Traffic::of(tree),
        }
    }

    /// The source of the memory traffic figure.
    #[must_use]
    pub const fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Finds new processes of the target. What they have used so far was used since the last
    /// search, and not in the last tick.
    pub fn find_newcomers(&mut self, tree: &mut Tree) {
        if self.group.is_some() {
            tree.refresh();
            return;
        }
        let before = tree.cpu_time();
        tree.refresh();
        let found = tree.cpu_time().saturating_sub(before);
        let now = Instant::now();
        let seconds = now.duration_since(self.looked_at).as_secs_f64();
        self.unseen = if seconds > 0.0 { found.as_secs_f64() / seconds } else { 0.0 };
        self.cpu = self.cpu.map(|cpu| cpu + found);
        self.looked_at = now;
    }

    /// The load since the last call.
    pub fn read(&mut self, tree: &Tree, most: usize) -> Load {
        let now = Instant::now();
        let interval = now.duration_since(self.at);
        let seconds = interval.as_secs_f64();
        let group = self.group.as_ref();
        let cpu = match group {
            Some(_) => cpu_time(tree, group),
            // The kernel adds up the time of all threads, which takes a while with a thousand of
            // them.
            None => match self.clocks.when_due(|| cpu_time(tree, group)) {
                Some(cpu) => cpu,
                None => return Load::default(),
            },
        };
        // The last CPU time of a process that ended between two readings is lost.
        let used = cpu.zip(self.cpu).map(|(now, before)| now.saturating_sub(before));
        let busy = used.map(|used| used.as_secs_f64() / seconds + std::mem::take(&mut self.unseen));
        let pressure_us = self.group.as_ref().and_then(Group::pressure_us);
        let pressed = pressure_us
            .zip(self.pressure_us)
            .map(|(now, before)| (now.saturating_sub(before) as f64 / 1e6 / seconds).min(1.0));
        (self.at, self.cpu, self.pressure_us) = (now, cpu, pressure_us);
        self.wait(tree, now);
        let counted = self.traffic.read();
        let fresh = now.duration_since(self.delays_at) <= interval * FRESH_TICKS;
        Load {
            // A process ID that was reused would count as the target's work.
            busy: busy
                .filter(|_| seconds > 0.0)
                .map(|busy| busy.min(most as f64).min(counted.computing.unwrap_or(f64::MAX))),
            waiting: self.waiting.filter(|_| fresh),
            pressure: pressed,
            traffic: counted.bytes_per_second,
        }
    }

    fn wait(&mut self, tree: &Tree, now: Instant) {
        let mut pace = self.pace;
        let Some(delays) = pace.when_due(|| tree.run_delays().collect::<BTreeMap<i32, u64>>())
        else {
            return;
        };
        self.pace = pace;
        let seconds = now.duration_since(self.delays_at).as_secs_f64();
        let since = |(tid, delay): (&i32, &u64)| {
            delay.saturating_sub(self.delays.get(tid).copied().unwrap_or(0))
        };
        let waited: u64 = delays.iter().map(since).sum();
        let known = !delays.is_empty() && seconds > 0.0;
        self.waiting = known.then_some(waited as f64 / 1e9 / seconds);
        (self.delays, self.delays_at) = (delays, now);
    }
}

/// CPU time that a target has used; `None` when its group is gone.
fn cpu_time(tree: &Tree, group: Option<&Group>) -> Option<Duration> {
    group.map_or_else(|| Some(tree.cpu_time()), Group::cpu_time)
}

/// `usage_usec N` of `cpu.stat`.
fn parse_usage(text: &str) -> Option<Duration> {
    let usage = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    Some(Duration::from_micros(usage.trim().parse().ok()?))
}

/// `some ... total=N` of `cpu.pressure`, in microseconds.
fn parse_pressure(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_whitespace().find_map(|field| field.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use numapilot_test_kit::damaged;
    use proptest::prelude::*;

    use super::*;

    const PRESSURE: &str =
        "some avg10=5.62 avg60=5.71 avg300=7.31 total=29529\nfull avg10=0.00 total=7\n";
    const USAGE: &str = "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n";

    #[test]
    fn pressure_is_that_of_some() {
        assert_eq!(parse_pressure(PRESSURE), Some(29529));
        assert_eq!(parse_pressure("full total=7\n"), None);
    }

    #[test]
    fn usage_is_that_of_the_group() {
        assert_eq!(parse_usage(USAGE), Some(Duration::from_millis(2500)));
        assert_eq!(parse_usage("user_usec 1\n"), None);
    }

    /// The load at the next reading that is due: where reading takes long, it is done more rarely.
    fn next_busy(meter: &mut Meter, tree: &Tree, most: usize) -> f64 {
        loop {
            if let Some(busy) = meter.read(tree, most).busy {
                return busy;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_newcomer_does_not_bring_its_past_into_one_tick() {
        let script = "read x; (while :; do :; done) & wait";
        let mut child =
            Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
        let mut tree = Tree::of(&[i32::try_from(child.id()).unwrap()]).unwrap();
        let mut meter = Meter::new(&tree, None);
        drop(child.stdin.take());
        std::thread::sleep(Duration::from_millis(950));
        meter.read(&tree, 64);
        std::thread::sleep(Duration::from_millis(50));
        meter.find_newcomers(&mut tree);
        let busy = next_busy(&mut meter, &tree, 64);
        for pid in tree.pids() {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
        child.wait().unwrap();
        // One thread keeps one core busy, however late it is found. Its second, counted in one tick
        // of 50 ms, would be up to twenty.
        assert!(busy > 0.02 && busy < 3.0, "{busy}");
    }

    #[test]
    fn a_busy_process_is_busy_and_an_idle_one_is_not() {
        let read = |script: &str| {
            let mut child =
                Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
            let tree = Tree::of(&[i32::try_from(child.id()).unwrap()]).unwrap();
            let mut meter = Meter::new(&tree, None);
            std::thread::sleep(Duration::from_millis(200));
            let busy = next_busy(&mut meter, &tree, 8);
            child.kill().unwrap();
            child.wait().unwrap();
            busy
        };
        let (busy, idle) = (read("while :; do :; done"), read("read x"));
        assert!(busy > 0.05 && busy < 1.1, "{busy}");
        assert!(idle < busy, "{idle} {busy}");
    }

    proptest! {
        #[test]
        fn damaged_pressure_is_read_or_refused(text in damaged(PRESSURE)) {
            if let Some(total) = parse_pressure(&text) {
                prop_assert!(text.contains(&total.to_string()));
            }
        }

        #[test]
        fn damaged_usage_is_read_or_refused(text in damaged(USAGE)) {
            if let Some(usage) = parse_usage(&text) {
                prop_assert!(text.contains(&usage.as_micros().to_string()));
            }
        }
    }
}

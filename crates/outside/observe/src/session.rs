//! Observes one target from beginning to end.
//!
//! ```text
//!  a program to start:  before_exec -> spawn -> follow -> observe_now... -> wait4 -> finish
//!  running processes:   attach                         -> observe_now...          -> finish
//!  the whole machine:   system                         -> observe_now...          -> finish
//! ```

use std::path::Path;
use std::time::{Duration, Instant};

use numapilot_sys::process::{PidFd, Usage};
use numapilot_topology::{CpuSet, NodeSet};

use crate::ObserveError;
use crate::lab::LabPmu;
use crate::machine_wide;
use crate::memory::{RUNS_UNSEEN, Timeline};
use crate::metric::{Figures, Metric};
use crate::node_counters;
use crate::numa_maps::NodeBytes;
use crate::observation::{Memory, ONLY_IN_A_LAB, Observation, Totals};
use crate::pmu::{Attach, Counters};
use crate::threads::Threads;
use crate::tree::Tree;

/// Interval at which memory by node is read, unless that is too expensive.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug)]
enum Subject {
    Processes { tree: Tree, named: Vec<PidFd> },
    Machine,
}

/// An observation under way.
#[derive(Debug)]
pub struct Session {
    subject: Subject,
    nodes: NodeSet,
    counters: Counters,
    /// The PMU of an emulated machine, or why there is none.
    lab: Result<LabPmu, String>,
    /// Used if perf events are denied.
    threads: Option<Threads>,
    timeline: Timeline,
    peak_rss_bytes: Option<u64>,
    began: Instant,
    begin: Totals,
    interval_began: Instant,
    interval_begin: Totals,
}

impl Session {
    /// Prepares to observe the program that the calling thread starts next. The kernel starts
    /// counting at its exec. Pass its id to [`Session::follow`].
    #[must_use]
    pub fn before_exec(nodes: NodeSet) -> Self {
        let subject = Subject::Processes { tree: Tree::default(), named: Vec::new() };
        Self::begin(subject, nodes, &Attach::NextExec)
    }

    /// Observes running processes and their descendants.
    ///
    /// # Errors
    /// [`ObserveError`] for the first process that does not exist or may not be observed.
    pub fn attach(pids: &[i32], nodes: NodeSet) -> Result<Self, ObserveError> {
        // The descriptor is opened first: while it refers to a living process, its id is not
        // reused.
        let open = |&pid: &i32| PidFd::open(pid).map_err(|_| ObserveError::NoProcess { pid });
        let named = pids.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let tree = Tree::of(pids)?;
        for (fd, &pid) in named.iter().zip(pids) {
            if ended(fd) {
                return Err(ObserveError::NoProcess { pid });
            }
        }
        let threads = Attach::Threads(tree.threads().collect());
        Ok(Self::begin(Subject::Processes { tree, named }, nodes, &threads))
    }

    /// Observes everything on these CPUs.
    #[must_use]
    pub fn system(cpus: &CpuSet, nodes: NodeSet) -> Self {
        let cpus = Attach::Cpus(cpus.iter().map(u32::from).collect());
        Self::begin(Subject::Machine, nodes, &cpus)
    }

    fn begin(subject: Subject, nodes: NodeSet, attach: &Attach) -> Self {
        let counters = Counters::start(attach);
        let denied = counters.read().get(&Metric::CpuMigrations).is_none_or(Result::is_err);
        let threads =
            (denied && matches!(subject, Subject::Processes { .. })).then(Threads::default);
        let now = Instant::now();
        let mut session = Self {
            subject,
            nodes,
            counters,
            lab: LabPmu::find()
                .map_err(|e| e.to_string())
                .and_then(|found| found.ok_or_else(|| ONLY_IN_A_LAB.to_owned())),
            threads,
            timeline: Timeline::new(LOOK_INTERVAL),
            peak_rss_bytes: None,
            began: now,
            begin: Totals::default(),
            interval_began: now,
            interval_begin: Totals::default(),
        };
        session.observe_now();
        session.begin = session.totals();
        session.interval_begin = session.begin.clone();
        session
    }

    /// Follows the program that was started after [`Session::before_exec`].
    pub fn follow(&mut self, pid: i32) {
        if let Subject::Processes { tree, .. } = &mut self.subject {
            *tree = Tree::of_child(pid);
        }
        self.observe_now();
    }

    /// The counters, which tell the meaning of the figures.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The PMU of this machine if it is emulated. It counts user mode of the whole machine.
    #[must_use]
    pub fn lab(&self) -> Option<&LabPmu> {
        self.lab.as_ref().ok()
    }

    /// Reads the processes of the target and their resource usage.
    fn refresh(&mut self) {
        if let Subject::Processes { tree, .. } = &mut self.subject {
            tree.refresh();
            if let Some(threads) = &mut self.threads {
                threads.refresh(tree);
            }
        }
    }

    /// Reads processes, threads and memory, and decides when to do so again.
    pub fn observe_now(&mut self) {
        let from = cpu_time();
        self.refresh();
        match &self.subject {
            Subject::Processes { tree, .. } => {
                let (rss, mut nodes) = (tree.rss_bytes(), tree.node_bytes());
                self.peak_rss_bytes = self.peak_rss_bytes.max(tree.peak_rss_bytes());
                if nodes.as_ref().is_ok_and(NodeBytes::is_empty) && tree.runs_now() {
                    nodes = Err(RUNS_UNSEEN.to_owned());
                }
                self.timeline.note(cpu_time().saturating_sub(from), rss, nodes);
            }
            Subject::Machine => {
                let used = node_counters::used_bytes(Path::new("/"), &self.nodes);
                let cost = cpu_time().saturating_sub(from);
                self.timeline.note(cost, used.values().sum(), Ok(used));
            }
        }
    }

    /// The time at which [`Session::observe_now`] should be called next.
    #[must_use]
    pub fn next_look(&self) -> Instant {
        self.timeline.due()
    }

    /// Whether all processes given to [`Session::attach`] have ended.
    pub fn has_ended(&mut self) -> bool {
        match &mut self.subject {
            Subject::Processes { named, .. } => {
                named.retain(|fd| !ended(fd));
                named.is_empty()
            }
            Subject::Machine => false,
        }
    }

    /// The observation since the last call, or since the beginning.
    pub fn interval(&mut self) -> Observation {
        // Reading memory in every interval may be too expensive; then the last look counts.
        if Instant::now() >= self.next_look() {
            self.observe_now()
        } else {
            self.refresh()
        }
        let now = Instant::now();
        let totals = self.totals();
        let seconds = (now - self.interval_began).as_secs_f64();
        let last = |points: &[_]| points.last().cloned().into_iter().collect();
        let observation =
            Observation::between(&self.interval_begin, &totals, seconds, self.memory(last));
        self.interval_began = now;
        self.interval_begin = totals;
        observation
    }

    /// The observation since the beginning. For a program that was started here and waited for,
    /// `end` is the wall time and the exact resource usage from wait4(2).
    #[must_use]
    pub fn finish(mut self, end: Option<(Duration, Usage)>) -> Observation {
        // A daemon that the program has left behind may still run.
        let is_there = |subject: &Subject| match subject {
            Subject::Processes { tree, .. } => tree.runs_now(),
            Subject::Machine => true,
        };
        if end.is_none() || is_there(&self.subject) {
            self.observe_now();
        }
        let mut totals = self.totals();
        let mut seconds = self.began.elapsed();
        if let Some((wall, usage)) = end {
            seconds = wall;
            used(&mut self.begin.figures, &Usage::default());
            used(&mut totals.figures, &usage);
            // wait4(2) leaves out hugetlbfs and daemons.
            let peak = usage.peak_rss_bytes.max(self.peak_rss_bytes.unwrap_or(0));
            totals.figures.insert(Metric::PeakRssBytes, Ok(peak as f64));
        }
        let all = |points: &[_]| points.to_vec();
        Observation::between(&self.begin, &totals, seconds.as_secs_f64(), self.memory(all))
    }

    fn memory(&self, select: impl Fn(&[crate::MemoryPoint]) -> Vec<crate::MemoryPoint>) -> Memory {
        Memory { points: self.timeline.points().map(select), peak: self.timeline.peak().clone() }
    }

    /// All counters at this moment.
    fn totals(&self) -> Totals {
        let mut figures = self.counters.read();
        figures.extend(node_counters::auto_numa(Path::new("/")));
        match &self.subject {
            Subject::Machine => figures.extend(machine_wide::figures()),
            Subject::Processes { tree, .. } => {
                if let Some(threads) = &self.threads {
                    figures.extend(threads.read());
                }
                figures.extend(self.process_figures(tree));
            }
        }
        let lab = self.lab.as_ref().map(LabPmu::counters);
        match &lab {
            Ok(counters) => figures.extend(counters.figures()),
            Err(reason) => {
                figures.insert(Metric::SimulatedSeconds, Err((*reason).clone()));
                figures.insert(Metric::HugeDtlbMisses, Err(ONLY_IN_A_LAB.to_owned()));
            }
        }
        let allocations = node_counters::numastat(Path::new("/"), &self.nodes);
        Totals { figures, allocations, lab: lab.ok() }
    }

    fn process_figures(&self, tree: &Tree) -> Figures {
        let used = tree.used();
        let per_thread = || {
            Err("the kernel counts them by thread: known for a program that stat starts".to_owned())
        };
        let seen =
            |bytes: Option<u64>| bytes.map(|b| b as f64).ok_or_else(|| self.timeline.no_rss());
        // Unlike memory by node this is cheap, so it is read now, while any process lives.
        let rss = Some(tree.rss_bytes()).filter(|b| *b > 0).or(self.timeline.last_rss_bytes());
        Figures::from([
            (Metric::UserSeconds, Ok(used.user().as_secs_f64())),
            (Metric::SystemSeconds, Ok(used.system().as_secs_f64())),
            (Metric::MinorFaults, Ok(used.minor_faults as f64)),
            (Metric::MajorFaults, Ok(used.major_faults as f64)),
            (Metric::VoluntarySwitches, per_thread()),
            (Metric::InvoluntarySwitches, per_thread()),
            (Metric::RssBytes, seen(rss)),
            (Metric::PeakRssBytes, seen(self.peak_rss_bytes.max(tree.peak_rss_bytes()))),
        ])
    }
}

/// Replaces the figures that were read from outside by the kernel's sums. The peak is at least that
/// of numapilot itself, from which the program was forked.
fn used(figures: &mut Figures, usage: &Usage) {
    let switches = usage.voluntary_switches + usage.involuntary_switches;
    figures.extend([
        (Metric::UserSeconds, Ok(usage.user.as_secs_f64())),
        (Metric::SystemSeconds, Ok(usage.system.as_secs_f64())),
        (Metric::PeakRssBytes, Ok(usage.peak_rss_bytes as f64)),
        (Metric::MinorFaults, Ok(usage.minor_faults as f64)),
        (Metric::MajorFaults, Ok(usage.major_faults as f64)),
        (Metric::VoluntarySwitches, Ok(usage.voluntary_switches as f64)),
        (Metric::InvoluntarySwitches, Ok(usage.involuntary_switches as f64)),
        (Metric::ContextSwitches, Ok(switches as f64)),
    ]);
}

/// CPU time of this thread so far. Unlike wall time, it does not grow while the target keeps all
/// CPUs busy.
#[must_use]
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

fn ended(fd: &PidFd) -> bool {
    // A descriptor that cannot be polled is as useless as one of an ended process.
    fd.ended_within(Some(Duration::ZERO)).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    use numapilot_test_kit::wait_until;

    use super::*;

    fn here() -> NodeSet {
        numapilot_topology::read("/".as_ref()).unwrap().node_ids()
    }

    /// Faults of a shell that runs `true` `children` times, from attaching to its end.
    fn faults_of_children(children: u32) -> f64 {
        let script =
            format!("read x; for i in $(seq {children}); do /bin/true; done; echo; read x");
        let mut shell = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut session = Session::attach(&[shell.id().cast_signed()], here()).unwrap();
        shell.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        let observation = session.interval();
        drop(shell.stdin.take());
        shell.wait().unwrap();
        wait_until("the session does not end", || session.has_ended());
        let whole = session.finish(None);
        let faults = observation.value(Metric::MinorFaults).unwrap();
        assert!(whole.value(Metric::MinorFaults).unwrap() >= faults);
        assert!(whole.value(Metric::RssBytes).is_some_and(|bytes| bytes > 0.0));
        faults
    }

    #[test]
    fn what_children_used_counts_even_when_they_were_never_seen() {
        let (few, many) = (faults_of_children(1), faults_of_children(20));
        assert!(many > few + 19.0 * 20.0, "{few} faults with one child, {many} with 20");
    }

    #[test]
    fn a_program_is_observed_from_its_exec_to_its_end() {
        let mut session = Session::before_exec(here());
        let mut child = Command::new("sleep").arg("0.05").spawn().unwrap();
        session.follow(child.id().cast_signed());
        child.wait().unwrap();
        let usage = Usage { minor_faults: 77, peak_rss_bytes: 1 << 40, ..Usage::default() };
        let seen = session.finish(Some((Duration::from_secs(2), usage)));
        assert_eq!(seen.value(Metric::Seconds), Some(2.0));
        assert_eq!(seen.value(Metric::MinorFaults), Some(77.0));
        assert_eq!(seen.value(Metric::PeakRssBytes), Some((1u64 << 40) as f64));
        assert_eq!(seen.value(Metric::ContextSwitches), Some(0.0));
        for metric in Metric::ALL {
            assert!(
                seen.figure(*metric).is_ok_and(f64::is_finite)
                    || !seen.figure(*metric).unwrap_err().is_empty()
            );
        }
    }

    #[test]
    fn this_process_and_a_missing_one() {
        assert!(matches!(
            Session::attach(&[i32::MAX], here()),
            Err(ObserveError::NoProcess { pid: i32::MAX })
        ));
        let me = std::process::id().cast_signed();
        let mut session = Session::attach(&[me], here()).unwrap();
        assert!(!session.has_ended());
        assert!(session.finish(None).nodes.iter().any(|n| n.memory_bytes.is_some_and(|b| b > 0)));
    }
}

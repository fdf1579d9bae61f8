//! Opens a fixed set of events on a target, and reads them.

use std::fs;
use std::io;
use std::path::Path;

use numapilot_sys::open_files;
use numapilot_sys::perf::{Counter, Event, Scope};

use super::Processor;
use super::dram::Model;
use crate::metric::{Figures, Metric};

/// The threads or CPUs to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attach {
    /// The program that the calling thread starts next, from its exec on.
    NextExec,
    /// These threads, and all threads and processes that they start from now on.
    Threads(Vec<i32>),
    /// Everything on these CPUs.
    Cpus(Vec<u32>),
}

impl Attach {
    pub(crate) fn scopes(&self) -> Vec<Scope> {
        match self {
            Self::NextExec => vec![Scope::NextExec],
            Self::Threads(tids) => tids.iter().copied().map(Scope::Thread).collect(),
            Self::Cpus(cpus) => cpus.iter().copied().map(Scope::Cpu).collect(),
        }
    }
}

/// Metrics with one event each. Metrics that are divided by one another are in the same group.
const GROUPS: &[&[(Metric, Event)]] = &[
    &[(Metric::ContextSwitches, Event::CONTEXT_SWITCHES)],
    &[(Metric::CpuMigrations, Event::CPU_MIGRATIONS)],
    &[(Metric::Cycles, Event::CYCLES), (Metric::Instructions, Event::INSTRUCTIONS)],
    &[
        (Metric::CacheReferences, Event::CACHE_REFERENCES),
        (Metric::CacheMisses, Event::CACHE_MISSES),
    ],
    &[(Metric::DtlbMisses, Event::DTLB_LOAD_MISSES)],
];

/// One group of events on every thread or CPU of the target: `[target][event]`.
type Group = Result<Vec<Vec<Counter>>, String>;

/// Running counters.
#[derive(Debug)]
pub struct Counters {
    groups: Vec<Group>,
    dram: Group,
    model: Option<&'static Model>,
    /// Whether hardware events exclude the kernel's work for the target.
    user_only: bool,
}

impl Counters {
    /// Starts counting. [`Counters::read`] reports the metrics that cannot be counted.
    #[must_use]
    pub fn start(attach: &Attach) -> Self {
        Self::open(attach, GROUPS)
    }

    /// Starts counting accesses to DRAM, and nothing else.
    #[must_use]
    pub fn dram(attach: &Attach) -> Self {
        Self::open(attach, &[])
    }

    fn open(attach: &Attach, groups: &[&[(Metric, Event)]]) -> Self {
        // One descriptor for every counter on every thread or CPU.
        open_files::raise();
        let scopes = attach.scopes();
        let mut user_only = false;
        let mut group = |events: &[Event]| {
            match open_group(&scopes, events, user_only) {
                // The user may be allowed to count the program without the kernel's work for it.
                // Software events are all in the kernel.
                Err(e) if denied(&e) && !user_only && !events[0].is_software() => {
                    let second = open_group(&scopes, events, true);
                    user_only = second.is_ok();
                    second
                }
                first => first,
            }
            .map_err(|e| refusal(&e))
        };
        let groups = groups
            .iter()
            .map(|g| group(&g.iter().map(|(_, event)| *event).collect::<Vec<_>>()))
            .collect();
        let processor = fs::read_to_string("/proc/cpuinfo").ok().and_then(|t| Processor::parse(&t));
        let model = processor.and_then(Model::of);
        let dram = match (core_pmu(), model, processor) {
            (Err(reason), ..) => Err(reason),
            (Ok(()), Some(model), _) => {
                group(&model.events().map(|e| e.event()).collect::<Vec<_>>())
            }
            (Ok(()), None, Some(processor)) => {
                Err(format!("no DRAM events are known for this processor ({processor})"))
            }
            (Ok(()), None, None) => Err("/proc/cpuinfo does not name the processor".to_owned()),
        };
        Self { groups, dram, model, user_only }
    }

    /// The counts so far, each with its value or the reason why there is none.
    #[must_use]
    pub fn read(&self) -> Figures {
        let mut figures = Figures::new();
        for (metrics, group) in GROUPS.iter().zip(&self.groups) {
            for (i, (metric, _)) in metrics.iter().enumerate() {
                figures.insert(*metric, total(group, i));
            }
        }
        let events = self.model.map_or(0, |m| m.events().count());
        let split = match &self.dram {
            Err(reason) => Err(reason.clone()),
            Ok(_) => (0..events)
                .map(|i| total(&self.dram, i))
                .collect::<Result<Vec<f64>, String>>()
                .and_then(|counts| {
                    let both = self.model.and_then(|m| m.local_remote(&counts));
                    both.ok_or_else(|| "the DRAM events do not add up".to_owned())
                }),
        };
        figures.insert(Metric::LocalAccesses, split.clone().map(|(local, _)| local));
        figures.insert(Metric::RemoteAccesses, split.map(|(_, remote)| remote));
        figures
    }

    /// The entry of the event table that counts DRAM accesses, if there is one.
    #[must_use]
    pub fn dram_model(&self) -> Option<&'static Model> {
        self.model.filter(|_| self.dram.is_ok())
    }

    /// Whether hardware events exclude the kernel's work for the target.
    #[must_use]
    pub fn user_only(&self) -> bool {
        self.user_only
    }
}

fn total(group: &Group, event: usize) -> Result<f64, String> {
    let counters = group.as_ref().map_err(Clone::clone)?;
    let mut sum = 0.0;
    for counter in counters.iter().filter_map(|g| g.get(event)) {
        let reading = counter.read().map_err(|e| format!("the counter was lost: {e}"))?;
        sum += reading.scaled().ok_or_else(|| {
            "the counter never got hardware: other programs hold all counters".to_owned()
        })?;
    }
    Ok(sum.round())
}

fn open_group(
    scopes: &[Scope],
    events: &[Event],
    user_only: bool,
) -> io::Result<Vec<Vec<Counter>>> {
    let mut all = Vec::with_capacity(scopes.len());
    let mut gone = None;
    for &scope in scopes {
        let mut group: Vec<Counter> = Vec::with_capacity(events.len());
        let opened = events.iter().try_for_each(|&event| -> io::Result<()> {
            let counter = Counter::open(event, scope, group.first(), user_only)?;
            group.push(counter);
            Ok(())
        });
        match opened {
            Ok(()) => all.push(group),
            // A thread may end between listing and opening. An offline CPU yields ENODEV.
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => gone = Some(e),
            Err(e) => return Err(e),
        }
    }
    match gone {
        Some(error) if all.is_empty() => Err(error),
        _ => Ok(all),
    }
}

fn denied(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

/// The remedy that also permits machine-wide counting: the kernel requires 0 or less for the events
/// of a CPU (Documentation/admin-guide/sysctl/kernel.rst, `perf_event_paranoid`).
pub const PERMIT_COUNTING: &str = "run as root, or: sudo setcap cap_perfmon+ep \
                                   \"$(command -v numapilot)\", or: sudo sysctl \
                                   kernel.perf_event_paranoid=0";

/// Why an event could not be opened, and the remedy.
#[must_use]
pub fn refusal(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
                .map_or_else(|_| "?".to_owned(), |t| t.trim().to_owned());
            format!(
                "not permitted (perf_event_paranoid is {paranoid}): {PERMIT_COUNTING}; in a \
                 container also allow perf_event_open in its seccomp filter"
            )
        }
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENXIO) => {
            core_pmu().err().unwrap_or_else(|| "this processor has no such event".to_owned())
        }
        Some(libc::ENOSYS) => {
            "this kernel is built without perf events (CONFIG_PERF_EVENTS)".to_owned()
        }
        Some(libc::EMFILE) => {
            "too many threads for the limit of open files: raise it (ulimit -n)".to_owned()
        }
        Some(libc::EBUSY) => "another program holds the counters".to_owned(),
        _ => format!("perf_event_open failed: {error}"),
    }
}

/// Checks that the kernel has a PMU of the CPU cores: `cpu` on x86 (`cpu_core` with two kinds of
/// cores), `armv8_*` on Arm.
fn core_pmu() -> Result<(), String> {
    let devices = Path::new("/sys/bus/event_source/devices");
    let is_core = |name: &str| name.starts_with("cpu") || name.starts_with("armv");
    let found = fs::read_dir(devices)
        .is_ok_and(|d| d.flatten().any(|e| e.file_name().to_str().is_some_and(is_core)));
    if found {
        return Ok(());
    }
    Err("no hardware PMU: a virtual machine has one only when its host passes it on \
         (QEMU: -cpu host,pmu=on; cloud: a metal instance)"
        .to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn every_figure_is_a_number_or_has_a_reason() {
        let counters = Counters::start(&Attach::NextExec);
        assert!(Command::new("true").status().unwrap().success());
        let figures = counters.read();
        let metrics = GROUPS.iter().flat_map(|g| g.iter().map(|(m, _)| *m));
        for metric in metrics.chain([Metric::LocalAccesses, Metric::RemoteAccesses]) {
            match &figures[&metric] {
                Ok(count) => assert!(*count >= 0.0, "{metric}"),
                Err(reason) => assert!(reason.len() > 20, "{metric}: {reason}"),
            }
        }
        assert_eq!(counters.dram_model().is_some(), figures[&Metric::LocalAccesses].is_ok());
    }

    #[test]
    fn reasons_name_the_remedy() {
        let text = |errno| refusal(&io::Error::from_raw_os_error(errno));
        assert!(text(libc::EACCES).contains(PERMIT_COUNTING));
        assert!(text(libc::EMFILE).contains("ulimit -n"));
        assert!(text(libc::E2BIG).contains("perf_event_open failed"));
    }

    #[test]
    fn threads_that_ended_do_not_matter_while_one_is_left() {
        let scopes = |tids: &[i32]| Attach::Threads(tids.to_vec()).scopes();
        let own = [Event::CONTEXT_SWITCHES];
        match open_group(&scopes(&[0, i32::MAX]), &own, false) {
            Ok(group) => assert_eq!(group.len(), 1),
            Err(e) => assert!(denied(&e), "{e}"),
        }
        assert!(open_group(&scopes(&[i32::MAX]), &own, false).is_err());
    }
}

//! Inspects one process for the effects of a plan.
//!
//! Sources: proc_pid_numa_maps(5), proc_pid_maps(5), proc_pid_status(5) (`THP_enabled`),
//! proc_pid_smaps(5) (`AnonHugePages`, `THPeligible`), sched_getaffinity(2),
//! Documentation/admin-guide/sysctl/kernel.rst (numa_balancing).

mod malloc;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use numapilot_observe::AutoNuma;
use numapilot_observe::thread_group::task_with_memory;
use numapilot_sys::affinity;
use numapilot_topology::CpuSet;

use super::expected::{Item, Policy};
use crate::huge_pages::{Choice, Switches};
use crate::{NumaBalancing, Thp};

/// A program with less anonymous memory may have no huge page.
const ENOUGH_BYTES: u64 = 8 << 20;

/// Threads that are placed from outside may take this long to get their CPUs.
const PLACING: Duration = Duration::from_millis(200);

/// The effect of one setting in one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// In effect, with the evidence.
    Held(String),
    /// Without effect.
    Not(Cause),
    /// Not visible (yet), with the reason.
    Unseen(String),
    /// Not applicable, with the reason.
    Idle(String),
}

/// Why a setting has no effect in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub text: String,
    pub remedy: &'static str,
    /// Whether every other allocator would fail too.
    pub is_of_program: bool,
}

fn not(text: impl Into<String>, remedy: &'static str) -> Verdict {
    Verdict::Not(Cause { text: text.into(), remedy, is_of_program: false })
}

/// A process that is being inspected.
pub(super) struct Process {
    pid: i32,
    /// The thread whose files show the memory: the first one, while it lives.
    task: i32,
    /// The program's file.
    pub image: PathBuf,
    /// Time since it was first seen.
    pub age: Duration,
    /// Whether it has set the affinity of its main thread itself.
    pub pins_itself: bool,
}

impl Process {
    /// Opens the process with this id. Returns `None` if it has ended or has no program.
    pub fn open(pid: i32, age: Duration, pins_itself: bool) -> Option<Self> {
        let image = |task: i32| fs::read_link(format!("/proc/{task}/exe"));
        // Searching a living thread takes long in a process with thousands of threads.
        let (task, image) = match image(pid) {
            Ok(image) => (pid, image),
            Err(_) => {
                let task = task_with_memory(pid);
                (task, image(task).ok()?)
            }
        };
        Some(Self { pid, task, image, age, pins_itself })
    }

    /// The program's name.
    pub fn name(&self) -> String {
        self.image.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn path(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.task)
    }

    fn text(&self, file: &str) -> Result<String, Verdict> {
        match fs::read(self.path(file)) {
            // The files of a process that is ending are empty.
            Ok(bytes) if bytes.is_empty() => Err(ended()),
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => Err(unreadable(&self.path(file), &error)),
        }
    }

    /// The effect of a setting in the process.
    pub fn verdict_on(&self, item: &Item) -> Verdict {
        let verdict = match item {
            Item::Memory(policy) => self.memory(policy),
            Item::Cpus(cpus) => self.cpus(cpus),
            Item::Threads(cpus) => self.threads(cpus),
            Item::Allocator { path, .. } => self.allocator(path),
            Item::Glibc => self.glibc(),
            Item::Thp(thp) => self.thp(*thp),
            Item::NumaBalancing(wanted) => self.numa_balancing(*wanted),
            Item::Balancing => self.balancing(),
        };
        verdict.unwrap_or_else(|unseen| unseen)
    }

    fn memory(&self, wanted: &Policy) -> Result<Verdict, Verdict> {
        let (seen, wanted) = (self.policy()?, wanted.text());
        if seen == wanted {
            return Ok(Verdict::Held(seen));
        }
        Ok(not(
            format!("{} has the policy {seen}, not {wanted}", self.name()),
            "look for numactl, a set_mempolicy call or a cpuset between numapilot and the program",
        ))
    }

    /// The policy of its main thread, which applies to mappings without their own policy.
    fn policy(&self) -> Result<String, Verdict> {
        let path = self.path("numa_maps");
        // The first line suffices. The kernel produces the file page by page, which takes long for
        // a large program.
        let mut first = [0; 4096];
        let read = File::open(&path).and_then(|mut file| file.read(&mut first));
        let length = read.map_err(|error| unreadable(&path, &error))?;
        let text = String::from_utf8_lossy(&first[..length]);
        policy_of(text.lines().next().unwrap_or_default()).map(str::to_owned).ok_or_else(ended)
    }

    /// The affinity of each thread.
    fn affinities(&self) -> Result<Vec<CpuSet>, Verdict> {
        let path = format!("/proc/{}/task", self.pid);
        let entries = fs::read_dir(&path).map_err(|error| unreadable(&path, &error))?;
        let tids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        // A thread that has ended meanwhile has none.
        let all: Vec<CpuSet> =
            tids.filter_map(|tid| Some(CpuSet::from_words(&affinity::get(tid).ok()?))).collect();
        if all.is_empty() { Err(ended()) } else { Ok(all) }
    }

    fn cpus(&self, wanted: &CpuSet) -> Result<Verdict, Verdict> {
        let all = self.affinities()?;
        let outside: Vec<&CpuSet> = all.iter().filter(|cpus| !cpus.is_subset(wanted)).collect();
        let Some(first) = outside.first() else {
            return Ok(Verdict::Held(format!("all {} threads", all.len())));
        };
        let (count, of, name) = (outside.len(), all.len(), self.name());
        Ok(not(
            format!("{count} of {of} threads of {name} may run elsewhere (on CPUs {first})"),
            "look for taskset, a sched_setaffinity call or a cpuset that sets them",
        ))
    }

    fn threads(&self, order: &CpuSet) -> Result<Verdict, Verdict> {
        let all = self.affinities()?;
        let is_placed = |cpus: &&CpuSet| cpus.is_subset(order) && cpus.len() == 1;
        let placed = all.iter().filter(is_placed).count();
        // Placement may put two threads of one process on one CPU, if other processes of the run
        // have the others. A program that pins itself, like one behind taskset, does not spread.
        let shared = all.first().filter(|first| all.iter().all(|cpus| cpus == *first));
        if let Some(cpu) = shared.filter(|_| self.pins_itself && all.len() > 1 && order.len() > 1) {
            return Ok(not(
                format!(
                    "{} restricts all its {} threads to CPUs {cpu} itself",
                    self.name(),
                    all.len()
                ),
                "use the program's own setting for threads, or --threads none",
            ));
        }
        if placed > 0 {
            return Ok(Verdict::Held(format!("{placed} of {} threads", all.len())));
        }
        if self.age < PLACING {
            return Ok(Verdict::Unseen(format!("{} has just been started", self.name())));
        }
        Ok(not(
            format!("no thread of {} has a CPU of its own", self.name()),
            "see the warnings; numapilot does not change the affinity of a program that sets it itself",
        ))
    }

    fn thp(&self, wanted: Thp) -> Result<Verdict, Verdict> {
        match wanted {
            Thp::Inherit => Ok(Verdict::Idle("nothing was requested".to_owned())),
            Thp::Never => self.thp_never(),
            Thp::Always => self.thp_always(),
        }
    }

    fn thp_never(&self) -> Result<Verdict, Verdict> {
        let status = self.text("status")?;
        match field(&status, "THP_enabled:") {
            Some("0") => Ok(Verdict::Held("THP_enabled: 0".to_owned())),
            Some(_) => Ok(not(
                format!("{} may use huge pages (THP_enabled is 1 in its status)", self.name()),
                "allow prctl(PR_SET_THP_DISABLE), or look for a program that undoes it",
            )),
            // Before Linux 5.0.
            None => match kilobytes(&self.text("smaps_rollup")?, "AnonHugePages:") {
                Some(0) => Ok(Verdict::Held("no huge page".to_owned())),
                Some(bytes) => Ok(not(
                    format!("{} has {} MiB in huge pages", self.name(), bytes >> 20),
                    "allow prctl(PR_SET_THP_DISABLE)",
                )),
                None => Err(Verdict::Unseen("this kernel does not show huge pages".to_owned())),
            },
        }
    }

    fn thp_always(&self) -> Result<Verdict, Verdict> {
        let rollup = self.text("smaps_rollup")?;
        let bytes = |key| kilobytes(&rollup, key).unwrap_or(0);
        let (anonymous, huge) = (bytes("Anonymous:"), bytes("AnonHugePages:"));
        let name = self.name();
        let status = self.text("status")?;
        if field(&status, "THP_enabled:") == Some("0") {
            let before = match huge >> 20 {
                0 => String::new(),
                mib => format!("; {mib} MiB from before remain"),
            };
            return Ok(not(
                format!(
                    "{name} has huge pages switched off (THP_enabled is 0 in its status){before}"
                ),
                "look for a program that calls prctl(PR_SET_THP_DISABLE)",
            ));
        }
        if huge > 0 {
            let seen = format!("{} of {} MiB in huge pages", huge >> 20, anonymous >> 20);
            return Ok(Verdict::Held(seen));
        }
        if anonymous < ENOUGH_BYTES {
            let mib = ENOUGH_BYTES >> 20;
            return Ok(Verdict::Unseen(format!(
                "{name} has touched less than {mib} MiB of memory of its own, too little for a \
                 huge page"
            )));
        }
        if is_eligible(&self.text("smaps")?) == Some(false) {
            return Ok(not(
                format!("no memory of {name} is eligible for huge pages (THPeligible is 0)"),
                "see the page switches with numapilot doctor; the allocator must map areas of 2 \
                 MiB or more, and request huge pages on a machine set to madvise",
            ));
        }
        let smaller = Switches::read(Path::new("/"))
            .is_some_and(|switches| switches.smaller().any(|(_, c)| c != Choice::Never));
        if smaller {
            return Ok(Verdict::Unseen(format!(
                "{name} has no huge page of the largest size, and the kernel does not count \
                 smaller ones for a process"
            )));
        }
        Ok(not(
            format!("{name} has {} MiB and no huge page", anonymous >> 20),
            "memory may be fragmented: echo 1 | sudo tee /proc/sys/vm/compact_memory",
        ))
    }

    fn numa_balancing(&self, wanted: NumaBalancing) -> Result<Verdict, Verdict> {
        let policy = self.policy();
        let is_sampled = |policy: &str| policy == "default" || policy.contains("=balancing");
        let no_auto_numa = "this kernel has no AutoNUMA";
        match (wanted, AutoNuma::read()) {
            (NumaBalancing::Inherit, _) => Ok(Verdict::Idle("nothing was requested".to_owned())),
            (NumaBalancing::Off, None) => Ok(Verdict::Idle(no_auto_numa.to_owned())),
            (NumaBalancing::Off, Some(now)) if !now.is_on() => Ok(Verdict::Held(now.to_string())),
            (NumaBalancing::Off, Some(_)) => {
                let policy = policy?;
                if !is_sampled(&policy) {
                    return Ok(Verdict::Held(format!("the policy {policy} keeps it off")));
                }
                Ok(not(
                    format!("{} has the policy {policy}, which AutoNUMA samples", self.name()),
                    "allow set_mempolicy, or run as root",
                ))
            }
            (NumaBalancing::On, Some(now)) if now.is_on() => {
                let policy = policy?;
                if is_sampled(&policy) {
                    return Ok(Verdict::Held("kernel.numa_balancing is on".to_owned()));
                }
                Ok(not(
                    format!("{} has the policy {policy}, which AutoNUMA skips", self.name()),
                    "use no memory policy, bind or preferred-many with -b",
                ))
            }
            (NumaBalancing::On, now) => {
                let now = now.map_or(no_auto_numa.to_owned(), |now| now.to_string());
                Ok(not(
                    format!("{now}; it has changed since the start"),
                    "look for another program that sets it",
                ))
            }
        }
    }

    fn balancing(&self) -> Result<Verdict, Verdict> {
        let policy = self.policy()?;
        if !policy.contains("=balancing") {
            return Ok(not(
                format!("{} has the policy {policy}, which AutoNUMA skips", self.name()),
                "use Linux 5.12 or newer for bind, 6.11 or newer for preferred-many",
            ));
        }
        match AutoNuma::read() {
            Some(now) if now.is_on() => Ok(Verdict::Held(policy)),
            Some(now) => Ok(not(
                format!("{now}, so no memory is sampled"),
                "switch it on with --numa-balancing on, as root",
            )),
            None => Ok(not(
                "this kernel has no AutoNUMA, so no memory is sampled",
                "use a kernel built with CONFIG_NUMA_BALANCING",
            )),
        }
    }
}

fn ended() -> Verdict {
    Verdict::Unseen("it ended before it could be inspected".to_owned())
}

fn unreadable(path: &str, error: &io::Error) -> Verdict {
    match error.raw_os_error() {
        Some(libc::ENOENT) if !path.ends_with("numa_maps") => ended(),
        Some(libc::ESRCH) => ended(),
        Some(libc::ENOENT) if Path::new("/proc/self/numa_maps").exists() => ended(),
        _ => Verdict::Unseen(format!("{path} cannot be read: {error}")),
    }
}

/// The policy in a line such as `7f2a40000000 weighted interleave:0-1 anon=512 ...`. It may contain
/// a space.
fn policy_of(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(' ')?;
    let is_field = |word: &str| {
        let node =
            word.strip_prefix('N').is_some_and(|w| w.starts_with(|c: char| c.is_ascii_digit()));
        let known = ["file=", "anon=", "dirty=", "mapped=", "mapmax=", "swapcache=", "active="];
        let more = ["writeback=", "kernelpagesize_kB="];
        let plain = ["heap", "stack", "huge"];
        node || plain.contains(&word)
            || known.iter().chain(&more).any(|start| word.starts_with(start))
    };
    let end = rest
        .match_indices(' ')
        .map(|(at, _)| at)
        .find(|at| rest[at + 1..].split(' ').next().is_some_and(is_field));
    let policy = rest[..end.unwrap_or(rest.len())].trim_end();
    (!policy.is_empty()).then_some(policy)
}

/// The value of a line of `status`.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

/// The value of a line `key 123 kB`, in bytes.
fn kilobytes(text: &str, key: &str) -> Option<u64> {
    field(text, key)?.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Whether any area of anonymous memory may have huge pages. `None` if the kernel does not report
/// it (before Linux 5.0).
fn is_eligible(smaps: &str) -> Option<bool> {
    let mut any = None;
    let mut anonymous = 0;
    for line in smaps.lines() {
        if let Some(bytes) = kilobytes(line, "Anonymous:") {
            anonymous = bytes;
        } else if let Some(value) = field(line, "THPeligible:") {
            let eligible = value == "1" && anonymous > 0;
            any = Some(any.unwrap_or(false) || eligible);
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_of_a_line_may_hold_a_space() {
        for (line, policy) in [
            ("55ea default file=/usr/bin/a\\040b mapped=2 N0=2", "default"),
            ("7f2a weighted interleave:0-1 anon=5 N0=5", "weighted interleave:0-1"),
            ("7f2a prefer (many):0,2 heap anon=1", "prefer (many):0,2"),
            ("7f2a bind=balancing:0-3 N0=1", "bind=balancing:0-3"),
            ("7f2a local", "local"),
        ] {
            assert_eq!(policy_of(line), Some(policy), "{line}");
        }
        assert_eq!(policy_of(""), None);
    }

    #[test]
    fn a_policy_is_written_as_the_kernel_writes_it() {
        use numapilot_sys::mempolicy::{F_NUMA_BALANCING, Mode};
        let nodes = numapilot_topology::NodeSet::parse_list("0-2").unwrap();
        let text = |mode, flags| Policy { mode, flags, nodes: nodes.clone() }.text();
        assert_eq!(text(Mode::Bind, F_NUMA_BALANCING), "bind=balancing:0-2");
        assert_eq!(text(Mode::WeightedInterleave, 0), "weighted interleave:0-2");
        assert_eq!(text(Mode::PreferredMany, 0), "prefer (many):0-2");
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_is_looked_at() {
        use std::io::BufRead;
        let Ok(mut child) = numapilot_test_kit::first_thread_ends().spawn() else {
            println!("skipped: no python3");
            return;
        };
        io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert_ne!(task_with_memory(pid), pid);
        let process = Process::open(pid, Duration::ZERO, false).unwrap();
        assert!(process.name().starts_with("python3"), "{:?}", process.image);
        assert!(process.text("status").unwrap().contains("VmRSS:"));
        assert!(!process.affinities().unwrap().is_empty());
        assert_eq!(crate::allocators::in_use(pid).unwrap().name, "glibc");
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn eligible_is_only_memory_that_was_touched() {
        let area = |anonymous: u32, eligible: u8| {
            format!("1-2 rw-p\nAnonymous:  {anonymous} kB\nTHPeligible:    {eligible}\n")
        };
        assert_eq!(is_eligible(&(area(4, 0) + &area(0, 1))), Some(false));
        assert_eq!(is_eligible(&(area(4, 1) + &area(0, 0))), Some(true));
        assert_eq!(is_eligible("1-2 rw-p\nAnonymous: 4 kB\n"), None);
    }

    #[test]
    fn a_process_that_has_ended_tells_nothing() {
        let gone = Process {
            pid: i32::MAX,
            task: i32::MAX,
            image: "/bin/gone".into(),
            age: Duration::ZERO,
            pins_itself: false,
        };
        for item in [
            Item::Memory(Policy {
                mode: numapilot_sys::mempolicy::Mode::Local,
                flags: 0,
                nodes: numapilot_topology::NodeSet::new(),
            }),
            Item::Cpus(CpuSet::new()),
            Item::Allocator { name: "x".into(), path: "/lib/libx.so".into() },
            Item::Thp(Thp::Never),
            Item::Thp(Thp::Always),
        ] {
            assert_eq!(gone.verdict_on(&item), ended(), "{item}");
        }
        assert!(Process::open(i32::MAX, Duration::ZERO, false).is_none());
    }
}

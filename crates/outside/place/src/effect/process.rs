//! Inspects one process for the effects of a plan.
//!
//! Sources: proc_pid_numa_maps(5), proc_pid_maps(5), proc_pid_status(5) (`THP_enabled`),
//! proc_pid_smaps(5) (`AnonHugePages`, `THPeligible`), sched_getaffinity(2),
//! Documentation/admin-guide/sysctl/kernel.rst (numa_balancing).

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use numapilot_observe::AutoNuma;
use numapilot_observe::thread_group::task_with_memory;
use numapilot_sys::affinity;
use numapilot_topology::CpuSet;

use super::expected::{Item, Policy};
use crate::allocators::{executable_files, in_use, is_runtime, known_file};
use crate::huge_pages::{Choice, Switches};
use crate::prepare::malloc_in;
use crate::prepare::own_malloc::{imports_malloc, own_malloc};
use crate::threads::obstacle_of;
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
}

impl Process {
    /// Opens the process with this id. Returns `None` if it has ended or has no program.
    pub fn open(pid: i32, age: Duration) -> Option<Self> {
        let image = |task: i32| fs::read_link(format!("/proc/{task}/exe"));
        // Searching a living thread takes long in a process with thousands of threads.
        let (task, image) = match image(pid) {
            Ok(image) => (pid, image),
            Err(_) => {
                let task = task_with_memory(pid);
                (task, image(task).ok()?)
            }
        };
        Some(Self { pid, task, image, age })
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
        let placed = all.iter().filter(|cpus| cpus.is_subset(order) && cpus.len() == 1).count();
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

    fn allocator(&self, library: &Path) -> Result<Verdict, Verdict> {
        let maps = self.text("maps")?;
        let exe = PathBuf::from(self.path("exe"));
        let name = self.name();
        // `maps` shows the real path of a file.
        let real = fs::canonicalize(library);
        let real = real.as_deref().unwrap_or(library).to_string_lossy().into_owned();
        if maps.lines().any(|line| line.ends_with(&real)) {
            if let Some(other) = self.malloc_before(library) {
                return Ok(not(
                    format!("LD_PRELOAD of {name} names {other} first, so that one is used"),
                    "look for a wrapper that adds another library to LD_PRELOAD",
                ));
            }
            return Ok(self.own_malloc(&exe).unwrap_or_else(|| self.users(&exe, &maps, library)));
        }
        // The loader maps preloaded libraries before the C library.
        if let Some(verdict) = self.without_c_library(&exe, &maps) {
            return Ok(verdict);
        }
        Ok(not(
            format!("{name} runs without it"),
            "see what its dynamic loader says with LD_DEBUG=libs, and whether LD_PRELOAD reaches \
             it (sudo and env -i remove it)",
        ))
    }

    /// The C library's own malloc.
    fn glibc(&self) -> Result<Verdict, Verdict> {
        let maps = self.text("maps")?;
        let exe = PathBuf::from(self.path("exe"));
        if let Some(verdict) = self.without_c_library(&exe, &maps).or_else(|| self.own_malloc(&exe))
        {
            return Ok(verdict);
        }
        let malloc = in_use(self.pid).map_err(|error| unreadable(&self.path("maps"), &error))?;
        Ok(match (malloc.path, self.preload()) {
            (None, _) => Verdict::Held("no other malloc comes before it".to_owned()),
            // A program that writes its state into its command line may overwrite its environment.
            (Some(_), None) => Verdict::Unseen(format!(
                "{} is linked with {}, and its environment does not show whether the C library was \
                 preloaded",
                self.name(),
                malloc.name
            )),
            (Some(_), Some(_)) => not(
                format!("{} uses {}", self.name(), malloc.name),
                "look for a wrapper that changes LD_PRELOAD",
            ),
        })
    }

    /// The verdict on a program that has its own malloc.
    fn own_malloc(&self, exe: &Path) -> Option<Verdict> {
        let own = own_malloc_of(exe)?;
        Some(Verdict::Not(Cause {
            text: format!(
                "{} has its own malloc (it defines {own}), which a preloaded one does not replace",
                self.name()
            ),
            remedy: "build it without its own allocator",
            is_of_program: true,
        }))
    }

    /// The verdict on a program that never loads preloaded libraries, or has not yet loaded the C
    /// library.
    fn without_c_library(&self, exe: &Path, maps: &str) -> Option<Verdict> {
        let name = self.name();
        if let Some(obstacle) = obstacle_of(exe) {
            return Some(Verdict::Not(Cause {
                text: format!("{name} does not load it: {obstacle}"),
                remedy: "use a dynamically linked build for glibc, or link the allocator into the \
                         program",
                is_of_program: true,
            }));
        }
        let is_loaded = maps.contains("/libc.so.6") || maps.contains("/libc-");
        (!is_loaded).then(|| Verdict::Unseen(format!("{name} is still being loaded")))
    }

    /// The malloc of a library that the process preloads before this one, from the environment at
    /// exec, which its loader used.
    fn malloc_before(&self, library: &Path) -> Option<String> {
        let preload = self.preload()?;
        let ours = library.as_os_str().as_bytes();
        let at = preload.windows(ours.len()).position(|part| part == ours)?;
        malloc_in(OsStr::from_bytes(&preload[..at]))
    }

    /// The value of `LD_PRELOAD` at exec, or what the program has made of it.
    fn preload(&self) -> Option<Vec<u8>> {
        let environment = fs::read(self.path("environ")).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        variables.find_map(|v| v.strip_prefix(b"LD_PRELOAD=")).map(<[u8]>::to_vec)
    }

    /// Whether a file of a process that has mapped the library allocates from it. A program with a
    /// hidden malloc, or one that maps memory itself, imports no malloc.
    fn users(&self, exe: &Path, maps: &str, library: &Path) -> Verdict {
        let has = "its library is mapped";
        if imports(exe) {
            return Verdict::Held(has.to_owned());
        }
        let is_other = |file: &PathBuf| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            *file != self.image
                && file.file_name() != library.file_name()
                && !is_runtime(file)
                && !name.starts_with("libnumapilot_")
                && known_file(&name).is_none()
        };
        let mut others = executable_files(maps.as_bytes()).into_iter().filter(is_other);
        match others.find(|file| imports(file)) {
            Some(file) => {
                let file = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Verdict::Held(format!("{has}, and {file} allocates from it"))
            }
            None => Verdict::Unseen(format!(
                "its library is loaded, but {} imports no malloc: it has its own malloc, maps its \
                 memory itself, or needs none",
                self.name()
            )),
        }
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

/// The program's own malloc. `None` also if the file can no longer be read.
fn own_malloc_of(exe: &Path) -> Option<&'static str> {
    thread_local!(static KNOWN: Known<Option<&'static str>> = Known::default());
    KNOWN.with(|known| once(known, exe, || own_malloc(exe).ok().flatten())).flatten()
}

/// Whether a file imports malloc. False also if the file can no longer be read.
fn imports(file: &Path) -> bool {
    thread_local!(static KNOWN: Known<bool> = Known::default());
    KNOWN.with(|known| once(known, file, || imports_malloc(file).unwrap_or(false))) == Some(true)
}

/// Cached results for files, by device and inode.
type Known<T> = RefCell<HashMap<(u64, u64), T>>;

/// Inspects each file once. Returns `None` if it does not exist.
fn once<T: Copy>(known: &Known<T>, file: &Path, look: impl FnOnce() -> T) -> Option<T> {
    let about = fs::metadata(file).ok()?;
    Some(*known.borrow_mut().entry((about.dev(), about.ino())).or_insert_with(look))
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
        use std::process::{Command, Stdio};
        let script = include_str!("../../../observe/tests/first_thread_ends.py");
        let mut command = Command::new("python3");
        command
            .args(["-c", script, &libc::SYS_exit.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            println!("skipped: no python3");
            return;
        };
        io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert_ne!(task_with_memory(pid), pid);
        let process = Process::open(pid, Duration::ZERO).unwrap();
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
        assert!(Process::open(i32::MAX, Duration::ZERO).is_none());
    }
}

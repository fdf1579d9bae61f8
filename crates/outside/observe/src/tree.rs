//! A process and its descendants: who belongs to it, and what they have used so far.
//!
//! Source: proc_pid_stat(5), proc_pid_task(5). Every member is read through a descriptor
//! of its `/proc/PID` directory, which the kernel ties to that one process: when the
//! number is given to another process, reading fails instead of showing the stranger.
//!
//! A parent that waits for a child takes over what the child has used (`cutime` and the
//! like), so the sum over living members plus what each has taken over goes on without a
//! step when one of them ends. Only what ends outside of a living member's care (the root
//! itself) is kept here.

use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::time::Duration;

use numapilot_sys::{open_files, prctl, process};
use procfs::ProcError;
use procfs::process::{Process, Stat};

use crate::newcomers::{Born, Newcomers};
use crate::numa_maps::{self, NodeBytes};
use crate::thread_group::{has_ended, lost_its_first, open_memory_file, tids};
use crate::{Footprint, ObserveError, Resident, orphans};

/// CPU time and faults so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// In user mode, in clock ticks.
    user_ticks: u64,
    /// In the kernel, in clock ticks.
    system_ticks: u64,
    /// Faults without I/O.
    pub minor_faults: u64,
    /// Faults with I/O.
    pub major_faults: u64,
}

impl Used {
    /// What this process has used and taken over from children it waited for.
    fn of(stat: &Stat) -> Self {
        let taken = |n: i64| u64::try_from(n).unwrap_or(0);
        Self {
            user_ticks: stat.utime + taken(stat.cutime),
            system_ticks: stat.stime + taken(stat.cstime),
            minor_faults: stat.minflt + stat.cminflt,
            major_faults: stat.majflt + stat.cmajflt,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            user_ticks: self.user_ticks + other.user_ticks,
            system_ticks: self.system_ticks + other.system_ticks,
            minor_faults: self.minor_faults + other.minor_faults,
            major_faults: self.major_faults + other.major_faults,
        }
    }

    /// CPU time that this process has taken over from children it waited for.
    fn taken_over(stat: &Stat) -> Duration {
        ticks(u64::try_from(stat.cutime + stat.cstime).unwrap_or(0))
    }

    /// CPU time in user mode.
    #[must_use]
    pub fn user(self) -> Duration {
        ticks(self.user_ticks)
    }

    /// CPU time in the kernel.
    #[must_use]
    pub fn system(self) -> Duration {
        ticks(self.system_ticks)
    }
}

fn ticks(n: u64) -> Duration {
    Duration::from_secs_f64(n as f64 / procfs::ticks_per_second() as f64)
}

#[derive(Debug)]
struct Member {
    process: Process,
    parent: i32,
    used: Used,
    taken_over: Duration,
    /// It has ended, and its parent has not waited for it yet.
    zombie: bool,
    /// Its first thread has ended, and others run.
    lost_its_first: bool,
}

impl Member {
    fn see(&mut self, stat: &Stat) {
        self.parent = stat.ppid;
        self.used = Used::of(stat);
        self.taken_over = Used::taken_over(stat);
        self.zombie = has_ended(stat);
        self.lost_its_first = lost_its_first(stat);
    }

    /// Waits for it where nobody else will: an orphan that has ended, and whose parent this process
    /// is.
    fn reap(&self, root: Option<i32>, adopter: Option<i32>) {
        let is_orphan = adopter == Some(self.parent) && root != Some(self.process.pid);
        if self.zombie && is_orphan {
            orphans::reap_orphan(self.process.pid);
        }
    }

    /// Whether it runs at this moment.
    fn runs_now(&self) -> bool {
        self.process.stat().is_ok_and(|stat| !has_ended(&stat))
    }

    /// Its threads that run.
    fn threads(&self) -> impl Iterator<Item = i32> + use<'_> {
        let first = self.process.pid;
        let ended = move |tid: &i32| self.lost_its_first && *tid == first;
        tids(&self.process).into_iter().filter(move |tid| !ended(tid))
    }
}

/// The named processes and all that descend from them.
#[derive(Debug, Default)]
pub struct Tree {
    members: BTreeMap<i32, Member>,
    /// What members used that no living member has taken over.
    departed: Used,
    newcomers: Newcomers,
    /// The child of this process that it follows.
    root: Option<i32>,
    /// This process, where descendants whose parents have ended become children of it.
    adopter: Option<i32>,
}

impl Tree {
    /// Follows these processes. All of them must exist and be readable.
    ///
    /// # Errors
    /// [`ObserveError`] naming the first that is not.
    pub fn of(roots: &[i32]) -> Result<Self, ObserveError> {
        // One for every process.
        open_files::raise();
        let mut tree = Self::default();
        for &pid in roots {
            tree.insert(open(pid)?).map_err(|_| ObserveError::NoProcess { pid })?;
        }
        tree.refresh();
        Ok(tree)
    }

    /// Follows a child of this process, which may have ended already or become another
    /// user's (setuid): then there is less to see, and that is said figure by figure.
    #[must_use]
    pub fn of_child(pid: i32) -> Self {
        open_files::raise();
        let adopter = prctl::adopts_orphans().then(|| std::process::id().cast_signed());
        let newcomers = Newcomers::after(pid);
        let mut tree = Self { newcomers, root: Some(pid), adopter, ..Self::default() };
        // The child is not waited for yet: its number is still its own.
        let _ = Process::new(pid).and_then(|process| tree.insert(process));
        tree.refresh();
        tree
    }

    fn insert(&mut self, process: Process) -> procfs::ProcResult<()> {
        let stat = process.stat()?;
        let mut member = Member {
            parent: 0,
            used: Used::default(),
            taken_over: Duration::ZERO,
            zombie: false,
            lost_its_first: false,
            process,
        };
        member.see(&stat);
        self.members.insert(member.process.pid, member);
        Ok(())
    }

    /// Threads of all living members.
    pub fn threads(&self) -> impl Iterator<Item = i32> + '_ {
        self.members.values().flat_map(Member::threads)
    }

    /// Looks again: drops those that ended, finds new children, reads what all have used.
    pub fn refresh(&mut self) {
        // When somebody is gone all are read again: its parent has its figures by then.
        while self.drop_gone() {}
        let mut born = self.newcomers.find_newcomers();
        // A child may have a lower number than its parent once numbers have wrapped.
        while self.adopt(&mut born) {}
    }

    /// Reads what all have used and drops those that are gone; whether there were any.
    fn drop_gone(&mut self) -> bool {
        let mut gone = Vec::new();
        for (pid, member) in &mut self.members {
            // A zombie still answers, with its final figures.
            match member.process.stat() {
                Ok(stat) => {
                    member.see(&stat);
                    member.reap(self.root, self.adopter);
                }
                Err(_) => gone.push(*pid),
            }
        }
        for pid in &gone {
            if let Some(member) = self.members.remove(pid)
                && !self.members.contains_key(&member.parent)
            {
                self.departed = self.departed.plus(member.used);
            }
        }
        !gone.is_empty()
    }

    /// Adds those whose parent is a member; whether there were any.
    fn adopt(&mut self, born: &mut Vec<Born>) -> bool {
        let before = born.len();
        born.retain(|b| {
            let is_related = self.members.contains_key(&b.parent) || Some(b.parent) == self.adopter;
            let ours = is_related && !self.members.contains_key(&b.pid);
            if ours {
                // It may have ended since it was seen.
                let _ = Process::new(b.pid).and_then(|process| self.insert(process));
            }
            !ours
        });
        born.len() < before
    }

    /// What all of them have used, those that ended included.
    #[must_use]
    pub fn used(&self) -> Used {
        self.members.values().fold(self.departed, |sum, m| sum.plus(m.used))
    }

    /// CPU time of all of them, for differences over intervals too short for the clock ticks
    /// of [`Tree::used`].
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        let of = |(pid, member): (&i32, &Member)| match process::cpu_time(*pid) {
            Ok(own) => own + member.taken_over,
            // It has ended since the last look.
            Err(_) => member.used.user() + member.used.system(),
        };
        let departed = self.departed.user() + self.departed.system();
        self.members.iter().map(of).sum::<Duration>() + departed
    }

    /// Nanoseconds that each living thread has waited for a CPU so far (`run_delay`,
    /// Documentation/scheduler/sched-stats.rst); none on a kernel without CONFIG_SCHED_INFO.
    pub fn run_delays(&self) -> impl Iterator<Item = (i32, u64)> + '_ {
        self.thread_files("schedstat")
            .filter_map(|(tid, text)| Some((tid, text.split_whitespace().nth(1)?.parse().ok()?)))
    }

    /// Resident bytes of all living members, huge pages of hugetlbfs included; pages shared among
    /// them count for each.
    #[must_use]
    pub fn rss_bytes(&self) -> u64 {
        self.resident().map(|resident| resident.now_bytes).sum()
    }

    /// What each living member has resident.
    pub fn resident(&self) -> impl Iterator<Item = Resident> + '_ {
        self.members.values().filter_map(|member| Resident::of(&member.process))
    }

    /// Memory of all living members, what they share counted once where the kernel tells
    /// shares (`pss_bytes`). A member that ends meanwhile adds nothing.
    ///
    /// # Errors
    /// Why there is no figure: members that this user may not look at, or a kernel before
    /// 4.14.
    pub fn footprint(&self) -> Result<Footprint, String> {
        let mut total = Footprint::default();
        for member in self.members.values() {
            let text = match open_memory_file(&member.process, "smaps_rollup") {
                // Reading fails when the process ends, and a zombie has nothing to read.
                Ok(file) => io::read_to_string(file).unwrap_or_default(),
                Err(ProcError::PermissionDenied(_)) => {
                    return Err(format!(
                        "/proc/{}/smaps_rollup may not be read: run numapilot as root \
                         (CAP_SYS_PTRACE)",
                        member.process.pid
                    ));
                }
                Err(_) if member.runs_now() => {
                    return Err("this kernel has no smaps_rollup (Linux 4.14 has)".to_owned());
                }
                Err(_) => continue,
            };
            total = total.plus(Footprint::parse(&text));
        }
        Ok(total)
    }

    /// The living members.
    pub fn pids(&self) -> impl Iterator<Item = i32> + '_ {
        self.members.keys().copied()
    }

    /// Whether any member still runs, as of the last look: one that has ended is a member
    /// until its parent has waited for it.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.members.values().any(|member| !member.zombie)
    }

    /// Largest resident size that any one living member is known to have had: [`Resident`].
    #[must_use]
    pub fn peak_rss_bytes(&self) -> Option<u64> {
        self.resident().map(|resident| resident.peak_bytes).max()
    }

    /// Whether any member runs at this moment, for whom the last look is too old.
    #[must_use]
    pub fn runs_now(&self) -> bool {
        self.members.values().any(Member::runs_now)
    }

    /// Bytes of all living members on each node. A member that ends meanwhile adds
    /// nothing.
    ///
    /// # Errors
    /// Why there is no figure: a kernel without NUMA support, or members that this user
    /// may not look at.
    pub fn node_bytes(&self) -> Result<NodeBytes, String> {
        let mut total = NodeBytes::new();
        for member in self.members.values() {
            let file = match open_memory_file(&member.process, "numa_maps") {
                Ok(file) => file,
                Err(ProcError::PermissionDenied(_)) => {
                    return Err(format!(
                        "/proc/{}/numa_maps may not be read: run numapilot as root \
                         (CAP_SYS_PTRACE)",
                        member.process.pid
                    ));
                }
                Err(_) if member.runs_now() => {
                    return Err(
                        "this kernel is built without NUMA support (CONFIG_NUMA)".to_owned()
                    );
                }
                Err(_) => continue,
            };
            // Reading fails when the process ends: what it had is gone by then.
            if let Ok(bytes) = numa_maps::sum(BufReader::with_capacity(1 << 16, file)) {
                for (node, bytes) in bytes {
                    *total.entry(node).or_default() += bytes;
                }
            }
        }
        Ok(total)
    }

    /// A file of every thread (`/proc/PID/task/TID/NAME`).
    pub(crate) fn thread_files(
        &self,
        name: &'static str,
    ) -> impl Iterator<Item = (i32, String)> + '_ {
        self.members.values().flat_map(move |member| {
            member.threads().filter_map(move |tid| {
                let path = format!("task/{tid}/{name}");
                let file = member.process.open_relative(path).ok()?;
                Some((tid, io::read_to_string(file).ok()?))
            })
        })
    }
}

/// `PF_KTHREAD` of include/linux/sched.h, which proc_pid_stat(5) shows in field 9.
const fn is_kernel_thread(stat: &Stat) -> bool {
    const PF_KTHREAD: u32 = 0x0020_0000;
    stat.flags & PF_KTHREAD != 0
}

/// Opens a process whose memory may be looked at.
fn open(pid: i32) -> Result<Process, ObserveError> {
    let no_process = || ObserveError::NoProcess { pid };
    let process = Process::new(pid).map_err(|_| no_process())?;
    let stat = process.stat().map_err(|_| no_process())?;
    if has_ended(&stat) {
        return Err(no_process());
    }
    if is_kernel_thread(&stat) {
        return Err(ObserveError::KernelThread { pid, name: stat.comm });
    }
    match open_memory_file(&process, "numa_maps") {
        Err(ProcError::PermissionDenied(_)) => {
            let owner = process.uid().map_err(|_| no_process())?;
            let me = rustix::process::geteuid().as_raw();
            Err(match owner == me {
                true => ObserveError::Protected { pid },
                false => ObserveError::NotPermitted { pid, owner, me },
            })
        }
        // A kernel without NUMA, or a process that has just ended: found out when read.
        _ => Ok(process),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A child that ends when the test does.
    struct Guard(Child);

    impl Guard {
        fn spawn(script: &str) -> Self {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
            Self(command.spawn().unwrap())
        }

        fn pid(&self) -> i32 {
            i32::try_from(self.0.id()).unwrap()
        }

        /// Waits for the child to write a line.
        fn line(&mut self) {
            use std::io::BufRead;
            BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        }
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn descendants_are_found_and_their_memory_is_on_nodes() {
        let mut child = Guard::spawn("exec 3<&0; cat <&3 & echo; wait");
        child.line();
        let tree = Tree::of(&[child.pid()]).unwrap();
        assert!(tree.members.len() >= 2, "{tree:?}");
        assert!(tree.threads().count() >= 2);
        let nodes = tree.node_bytes().unwrap();
        assert!(nodes.values().sum::<u64>() > 100 << 10, "{nodes:?}");
        assert!(tree.peak_rss_bytes().unwrap() > 100 << 10);
        assert!(tree.rss_bytes() > 100 << 10);
    }

    #[test]
    fn what_ended_is_dropped_and_what_it_used_is_kept() {
        let mut child = Guard::spawn("echo; read x");
        child.line();
        let mut tree = Tree::of(&[child.pid()]).unwrap();
        let before = tree.used();
        assert!(before.minor_faults > 0);
        drop(child);
        tree.refresh();
        assert!(tree.members.is_empty());
        assert!(tree.used().minor_faults >= before.minor_faults);
    }

    #[test]
    fn a_process_that_is_not_there_is_named() {
        let error = Tree::of(&[i32::MAX]).unwrap_err().to_string();
        assert!(error.contains("2147483647 does not exist"), "{error}");
        assert!(Tree::of(&[-1]).is_err());
        let mut child = Command::new("true").stdout(Stdio::null()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        child.wait().unwrap();
        assert!(matches!(Tree::of(&[pid]), Err(ObserveError::NoProcess { .. })));
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_lives() {
        let script = include_str!("../tests/first_thread_ends.py");
        let mut command = Command::new("python3");
        command
            .args(["-c", script, &libc::SYS_exit.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let Ok(child) = command.spawn() else {
            println!("skipped: no python3");
            return;
        };
        let mut child = Guard(child);
        child.line();
        let held = 32 << 20;
        let mut tree = Tree::of(&[child.pid()]).unwrap();
        assert!(tree.runs() && tree.runs_now());
        assert!(tree.rss_bytes() > held && tree.peak_rss_bytes().unwrap() > held);
        assert!(tree.footprint().unwrap().rss_bytes > held);
        assert!(tree.node_bytes().unwrap().values().sum::<u64>() > held);
        assert!(!tree.threads().any(|tid| tid == child.pid()) && tree.threads().count() > 0);
        assert!(!crate::thread_group::maps(child.pid()).unwrap().is_empty());
        let task = crate::thread_group::task_with_memory(child.pid());
        assert!(task != child.pid() && std::fs::read_link(format!("/proc/{task}/exe")).is_ok());
        drop(child.0.stdin.take());
        child.0.wait().unwrap();
        tree.refresh();
        assert!(!tree.runs());
    }

    /// The kernel cuts names at 15 bytes, within a character.
    #[test]
    fn a_descendant_with_a_name_that_is_not_utf8_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("долгоеимя");
        std::os::unix::fs::symlink("/bin/cat", &name).unwrap();
        let mut child = Guard::spawn(&format!("exec 3<&0; '{}' <&3 & echo; wait", name.display()));
        child.line();
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        let cut = |pid: i32| {
            let name = std::fs::read(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| str::from_utf8(&name).is_err())
        };
        loop {
            let tree = Tree::of(&[child.pid()]).unwrap();
            if tree
                .pids()
                .any(|pid| cut(pid) && Resident::of(&tree.members[&pid].process).is_some())
            {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "{tree:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The first is kthreadd, where the PID namespace is the first one.
    #[test]
    fn a_kernel_thread_is_refused_by_its_name() {
        let kthreadd = Process::new(2).and_then(|process| process.stat());
        if !kthreadd.is_ok_and(|stat| is_kernel_thread(&stat)) {
            println!("skipped: no kernel threads in this PID namespace");
            return;
        }
        let error = Tree::of(&[2]).unwrap_err().to_string();
        assert!(error.starts_with("PID 2 is a kernel thread (kthreadd): "), "{error}");
        let me = Process::myself().and_then(|process| process.stat()).unwrap();
        assert!(!is_kernel_thread(&me));
    }
}

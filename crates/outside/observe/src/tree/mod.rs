//! The process tree: processes and their descendants, and the resources that they have used.
//!
//! Source: proc_pid_stat(5), proc_pid_task(5). Every member is read through a descriptor of its
//! `/proc/PID` directory, which the kernel ties to that process: after its id is reused, reading
//! fails and does not show the other process.
//!
//! A parent that waits for a child takes over the child's usage (`cutime` and the like), so the sum
//! over the members, including what they have taken over, does not jump when one of them ends. Only
//! the usage of members without a parent in the tree (such as the root) is kept here.

mod ancestors;
mod figures;
mod member;
mod orphans;
mod root;
mod used;

use std::collections::BTreeMap;

use numapilot_sys::{open_files, prctl};
use procfs::process::Process;

pub use self::ancestors::ancestors;
use self::member::Member;
use self::orphans::Belongs;
pub use self::orphans::Orphans;
pub use self::root::is_kernel_thread;
pub use self::used::Used;
use crate::ObserveError;
use crate::newcomers::{Born, Newcomers};

/// Some processes and all of their descendants.
#[derive(Debug, Default)]
pub struct Tree {
    members: BTreeMap<i32, Member>,
    /// Usage of ended members that no other member has taken over.
    departed: Used,
    newcomers: Newcomers,
    /// The child of this process at the root.
    root: Option<i32>,
    orphans: Orphans,
}

impl Tree {
    /// Follows these processes. All of them must exist and be readable.
    ///
    /// # Errors
    /// [`ObserveError`] for the first that is not.
    pub fn of(roots: &[i32]) -> Result<Self, ObserveError> {
        // Each process needs a descriptor.
        open_files::raise();
        let mut tree = Self::default();
        for &pid in roots {
            tree.insert(root::open(pid)?).map_err(|_| ObserveError::NoProcess { pid })?;
        }
        tree.refresh();
        Ok(tree)
    }

    /// Follows a child of this process, with its orphans if this process adopts them. The child may
    /// have ended already, or have become another user's (setuid). Then some figures are missing,
    /// each with its reason.
    #[must_use]
    pub fn of_child(pid: i32) -> Self {
        let orphans = match prctl::adopts_orphans() {
            true => Orphans::Adopted,
            false => Orphans::Ignored,
        };
        Self::of_child_with(pid, orphans)
    }

    /// As [`Tree::of_child`], with these orphans.
    #[must_use]
    pub fn of_child_with(pid: i32, orphans: Orphans) -> Self {
        open_files::raise();
        let newcomers = Newcomers::after(pid);
        let mut tree = Self { newcomers, root: Some(pid), orphans, ..Self::default() };
        // The child is not reaped yet, so its id is not reused.
        let _ = Process::new(pid).and_then(|process| tree.insert(process));
        tree.refresh();
        tree
    }

    fn insert(&mut self, process: Process) -> procfs::ProcResult<()> {
        let member = Member::open(process)?;
        self.members.insert(member.process.pid, member);
        Ok(())
    }

    /// Whether a process or thread was created on this machine since the last look.
    #[must_use]
    pub fn has_new_tasks(&self) -> bool {
        self.newcomers.has_new_tasks()
    }

    /// Updates the tree: reads the usage of all members, removes those that are gone, and adds new
    /// descendants. Returns the members that have ended since the last look.
    pub fn refresh(&mut self) -> Vec<i32> {
        let mut ended = Vec::new();
        // After a member is gone, all are read again, because its parent has taken over its usage.
        while self.update_members(&mut ended) {}
        let mut born = self.newcomers.find_newcomers();
        // A child may have a lower id than its parent after ids have wrapped.
        while self.add_descendants(&mut born) {}
        if self.add_orphans(&mut born) {
            while self.add_descendants(&mut born) {}
        }
        ended
    }

    /// Reads all members and removes those that are gone. Returns whether there were any.
    fn update_members(&mut self, ended: &mut Vec<i32>) -> bool {
        let mut gone = Vec::new();
        for (pid, member) in &mut self.members {
            let was_zombie = member.is_zombie;
            // A zombie can still be read, with its final usage.
            let is_gone = match member.process.stat() {
                Ok(stat) => {
                    member.update(&stat);
                    if member.is_zombie && self.root != Some(*pid) {
                        self.orphans.reap(*pid, member.parent);
                    }
                    false
                }
                Err(_) => {
                    gone.push(*pid);
                    true
                }
            };
            if !was_zombie && (member.is_zombie || is_gone) {
                ended.push(*pid);
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

    /// Adds the processes whose parent is a member. Returns whether there were any.
    fn add_descendants(&mut self, born: &mut Vec<Born>) -> bool {
        let before = born.len();
        born.retain(|b| {
            let is_new = self.members.contains_key(&b.parent) && !self.members.contains_key(&b.pid);
            if is_new {
                // An error is ignored: it may have ended since it was found.
                let _ = Process::new(b.pid).and_then(|process| self.insert(process));
            }
            !is_new
        });
        born.len() < before
    }

    /// Adds the orphans that belong to the tree. Returns whether there were any.
    fn add_orphans(&mut self, born: &mut Vec<Born>) -> bool {
        if born.is_empty() {
            return false;
        }
        let (adopters, before) = (self.orphans.adopters(), born.len());
        born.retain(|b| {
            if !adopters.contains(&b.parent) || self.members.contains_key(&b.pid) {
                return true;
            }
            match self.orphans.include(b.pid) {
                Belongs::Yes => {
                    let _ = Process::new(b.pid).and_then(|process| self.insert(process));
                    false
                }
                Belongs::No => true,
                Belongs::Undecided => {
                    self.newcomers.look_again(b.pid);
                    true
                }
            }
        });
        born.len() < before
    }

    /// Threads of all members that run.
    pub fn threads(&self) -> impl Iterator<Item = i32> + '_ {
        self.members.values().flat_map(Member::threads)
    }

    /// The members, including those that have ended and are not reaped yet.
    pub fn pids(&self) -> impl Iterator<Item = i32> + '_ {
        self.members.keys().copied()
    }

    /// The members, each with the descriptor that the kernel ties to it.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.members.values().map(|member| &member.process)
    }

    /// The members that were running at the last look, each with its parent.
    pub fn running_with_parents(&self) -> impl Iterator<Item = (i32, i32)> + '_ {
        let running = self.members.iter().filter(|(_, member)| !member.is_zombie);
        running.map(|(pid, member)| (*pid, member.parent))
    }

    /// Whether any member was running at the last look.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.running_with_parents().next().is_some()
    }

    /// Whether any member runs at this moment.
    #[must_use]
    pub fn runs_now(&self) -> bool {
        self.members.values().any(Member::runs_now)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;
    use std::os::unix::fs::symlink;
    use std::process::{Child, Command, Stdio};

    use numapilot_sys::process::PidFd;
    use numapilot_test_kit::wait_until;

    use super::*;
    use crate::Resident;

    /// A child that is killed at the end of the test.
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
        let Ok(child) = numapilot_test_kit::first_thread_ends().spawn() else {
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

    /// The kernel truncates names to 15 bytes, which may split a character.
    #[test]
    fn a_descendant_with_a_name_that_is_not_utf8_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("долгоеимя");
        symlink("/bin/cat", &name).unwrap();
        let mut child = Guard::spawn(&format!("exec 3<&0; '{}' <&3 & echo; wait", name.display()));
        child.line();
        let is_cut = |pid: i32| {
            let name = std::fs::read(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| str::from_utf8(&name).is_err())
        };
        wait_until("no descendant with a truncated name", || {
            let tree = Tree::of(&[child.pid()]).unwrap();
            let mut cut = tree.members.values().filter(|member| is_cut(member.process.pid));
            cut.any(|member| Resident::of(&member.process).is_some())
        });
    }

    /// PID 2 is kthreadd in the first PID namespace.
    #[test]
    fn a_kernel_thread_is_refused_by_its_name() {
        let kthreadd = Process::new(2).and_then(|process| process.stat());
        if !kthreadd.is_ok_and(|stat| root::is_kernel_thread(&stat)) {
            println!("skipped: no kernel threads in this PID namespace");
            return;
        }
        let error = Tree::of(&[2]).unwrap_err().to_string();
        assert!(error.starts_with("PID 2 is a kernel thread (kthreadd): "), "{error}");
        let me = Process::myself().and_then(|process| process.stat()).unwrap();
        assert!(!root::is_kernel_thread(&me));
    }

    #[test]
    fn children_join_and_the_dead_leave() {
        let mut shell = Guard::spawn("sleep 600; true");
        let mut tree = Tree::of_child_with(shell.pid(), Orphans::Ignored);
        let mut ended = Vec::new();
        wait_until("the child does not join", || {
            ended.extend(tree.refresh());
            tree.running_with_parents().count() == 2
        });
        let (sleeper, parent) =
            tree.running_with_parents().find(|(pid, _)| *pid != shell.pid()).unwrap();
        assert_eq!((parent, ended.len()), (shell.pid(), 0));
        PidFd::open(sleeper).unwrap().signal(libc::SIGKILL).unwrap();
        // The shell is a zombie until it is waited for.
        wait_until("the dead do not leave", || {
            ended.extend(tree.refresh());
            !tree.runs()
        });
        ended.sort_unstable();
        let mut both = [sleeper, shell.pid()];
        both.sort_unstable();
        assert_eq!(ended, both);
        shell.0.wait().unwrap();
        assert_eq!((tree.refresh(), tree.pids().count()), (Vec::new(), 0));
    }

    #[test]
    fn a_daemon_that_forked_twice_is_known_by_its_mark() {
        const NAME: &str = "NUMAPILOT_TEST_MARK";
        let directory = tempfile::tempdir().unwrap();
        let daemon = directory.path().join("daemon");
        // The intermediate process has ended when the file with the id exists.
        let script = "sh -c 'sleep 60 & echo $!' >\"$0.new\"; mv \"$0.new\" \"$0\"; exec sleep 60";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&daemon).env(NAME, "this run");
        let root = Guard(command.stdout(Stdio::null()).spawn().unwrap());
        wait_until("the daemon does not start", || daemon.exists());
        let daemon: i32 = std::fs::read_to_string(daemon).unwrap().trim().parse().unwrap();
        let fd = PidFd::open(daemon).unwrap();
        let tree = |orphans| Tree::of_child_with(root.pid(), orphans);
        let knows = |tree: &Tree| tree.pids().any(|pid| pid == daemon);
        // During its execve the daemon has no environment.
        let mut marked = tree(Orphans::marked(NAME, "this run".as_ref()));
        wait_until("the daemon is not found", || {
            marked.refresh();
            knows(&marked)
        });
        let others = [Orphans::marked(NAME, "another run".as_ref()), Orphans::Ignored];
        let known = others.map(|orphans| knows(&tree(orphans)));
        fd.signal(libc::SIGKILL).unwrap();
        assert_eq!(known, [false, false]);
    }

    #[test]
    fn a_process_descends_from_its_parent() {
        let child = Guard::spawn("read x");
        let ancestors = ancestors(child.pid());
        assert_eq!(ancestors[0], std::process::id().cast_signed());
        assert!(ancestors.len() > 1 || std::process::id() == 1);
    }
}

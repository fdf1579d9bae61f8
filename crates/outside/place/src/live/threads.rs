//! Changes the settings of each thread, and reads them back.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use numapilot_observe::thread_group::has_thread_ended;
use numapilot_sys::affinity;
use numapilot_sys::prctl::ThpSwitch;
use numapilot_sys::remote::{self, Remote};
use numapilot_topology::CpuSet;
use procfs::process::{Process, Stat};

use super::known::{Identity, Setter, Threads};
use super::{Live, State};
use crate::PlaceError;
use crate::effect::Policy;
use crate::prepare::memory::mode_name;

/// The longest time for a change. A program that creates threads all the time has inherited the
/// change long before.
const LIMIT: Duration = Duration::from_secs(10);

/// `PF_IO_WORKER`, `PF_USER_WORKER` and `PF_KTHREAD` of proc_pid_stat(5): threads of the kernel in a
/// process, such as those of io_uring, which run no code of the program.
const KERNEL_THREADS: u32 = 0x0020_4010;

impl Live {
    /// Changes all threads of all processes, also those that are created meanwhile: such a thread
    /// has inherited what its creator had. It is done when no thread had to be changed.
    pub(super) fn change_threads(
        &mut self,
        wanted: &State,
        is_interrupted: &AtomicBool,
    ) -> Result<(), PlaceError> {
        if self.now.as_ref() == Some(wanted) {
            return Ok(());
        }
        // If this fails, some threads have what they should and others do not.
        let now = self.now.take();
        let differs = |is_equal: fn(&State, &State) -> bool| {
            now.as_ref().is_none_or(|now| !is_equal(now, wanted))
        };
        let mut change = Change {
            start: &self.start,
            cpus: differs(|now, wanted| now.cpus == wanted.cpus).then_some(&wanted.cpus),
            policy: differs(|now, wanted| now.policy == wanted.policy).then_some(&wanted.policy),
            thp: wanted.thp.filter(|_| differs(|now, wanted| now.thp == wanted.thp)),
            threads: &mut self.threads,
        };
        let began = Instant::now();
        let mut changed = HashSet::new();
        loop {
            self.tree.refresh();
            // All are known before the first is changed: no other has inherited the change then.
            let stats = |process: &Process| {
                // A process that has ended has no threads.
                let tasks = process.tasks().into_iter().flatten().flatten();
                tasks.filter_map(|task| task.stat().ok()).collect::<Vec<Stat>>()
            };
            let found: Vec<(&Process, Stat)> = self
                .tree
                .processes()
                .flat_map(|process| stats(process).into_iter().map(move |stat| (process, stat)))
                .collect();
            let identity = |process: &Process, stat: &Stat| (process.pid, stat.pid, stat.starttime);
            let mut has_changed = false;
            for (process, stat) in &found {
                let thread = identity(process, stat);
                if has_thread_ended(stat) || is_of_kernel(stat) || !changed.insert(thread) {
                    continue;
                }
                if is_interrupted.load(Ordering::Relaxed) {
                    return Err(broken_off("it was interrupted"));
                }
                if began.elapsed() > LIMIT {
                    return Err(broken_off(
                        "10 s are over: it creates threads faster than they can be changed, or they \
                         get too little CPU time to stop; try again",
                    ));
                }
                has_changed |= change.thread(process, thread)?;
            }
            let alive: HashSet<Identity> =
                found.iter().map(|(process, stat)| identity(process, stat)).collect();
            change.threads.has_looked(|thread| alive.contains(thread));
            if !has_changed {
                break;
            }
        }
        self.now = Some(wanted.clone());
        Ok(())
    }
}

fn broken_off(cause: &str) -> PlaceError {
    PlaceError::Live { setting: "the plan".to_owned(), cause: cause.to_owned() }
}

/// What changes.
struct Change<'a> {
    start: &'a State,
    cpus: Option<&'a CpuSet>,
    policy: Option<&'a Policy>,
    thp: Option<ThpSwitch>,
    threads: &'a mut Threads,
}

impl Change<'_> {
    /// Changes one thread. Returns whether it had to be changed.
    fn thread(&mut self, process: &Process, thread: Identity) -> Result<bool, PlaceError> {
        let (_, tid, _) = thread;
        let mut setting = String::new();
        match self.settings(process, thread, &mut setting) {
            Ok(has_changed) => Ok(has_changed),
            Err(error) if is_gone(process, tid, &error) => Ok(false),
            Err(error) => {
                let setting = format!("{setting} of thread {tid}");
                Err(PlaceError::Live { setting, cause: cause(&error) })
            }
        }
    }

    /// Changes one thread; `setting` becomes the name of the setting that is being changed.
    fn settings(
        &mut self,
        process: &Process,
        thread: Identity,
        setting: &mut String,
    ) -> io::Result<bool> {
        let (_, tid, _) = thread;
        let mut has_changed = false;
        if let Some(cpus) = self.cpus {
            *setting = format!("CPUs {cpus}");
            has_changed |= self.cpus(thread, cpus)?;
        }
        let (thp, policy) = (self.thp, self.policy);
        if thp.is_none() && policy.is_none() {
            return Ok(has_changed);
        }
        let Self { start, threads, .. } = self;
        *setting = "memory policy".to_owned();
        let gone = |_| io::Error::from_raw_os_error(libc::ESRCH);
        let changed = remote::within(tid, |stopped| {
            // While it is stopped, its number is not given to another one.
            process.task_from_tid(tid).map_err(gone)?;
            let mut has_changed = false;
            if let Some(switch) = thp {
                *setting = "thp".to_owned();
                // The switch is that of the process, which its first thread stands for.
                let first = process.stat().map_err(gone)?;
                let first = (first.pid, first.pid, first.starttime);
                has_changed |= change_thp(stopped, threads, first, start.thp, switch)?;
            }
            if let Some(policy) = policy {
                *setting = format!("memory {}", mode_name(policy.mode));
                has_changed |= change_policy(stopped, threads, thread, &start.policy, policy)?;
            }
            Ok(has_changed)
        })?;
        Ok(has_changed || changed)
    }

    /// Changes the affinity of a thread that the program has not set.
    fn cpus(&mut self, thread: Identity, wanted: &CpuSet) -> io::Result<bool> {
        let (_, tid, _) = thread;
        let now = CpuSet::from_words(&affinity::get(tid)?);
        let values = &mut self.threads.cpus;
        if values.setter(thread, &self.start.cpus, &now) == Setter::Program {
            return Ok(false);
        }
        if now != *wanted {
            affinity::set(tid, wanted.as_words())?;
            if CpuSet::from_words(&affinity::get(tid)?) != *wanted {
                return Err(io::Error::other(NO_EFFECT));
            }
        }
        values.set(thread, wanted.clone());
        Ok(now != *wanted)
    }
}

const NO_EFFECT: &str = "it was accepted but reads back otherwise";

/// Changes the switch of huge pages of a process that has not set it itself.
fn change_thp(
    stopped: &mut Remote,
    threads: &mut Threads,
    process: Identity,
    start: Option<ThpSwitch>,
    wanted: ThpSwitch,
) -> io::Result<bool> {
    let now = stopped.thp_switch()?;
    if threads.thp.setter(process, &start.unwrap_or(now), &now) == Setter::Program {
        return Ok(false);
    }
    if now != wanted {
        stopped.set_thp_switch(wanted)?;
        if stopped.thp_switch()? != wanted {
            return Err(io::Error::other(NO_EFFECT));
        }
    }
    threads.thp.set(process, wanted);
    Ok(now != wanted)
}

/// Changes the policy of a thread that the program has not set.
fn change_policy(
    stopped: &mut Remote,
    threads: &mut Threads,
    thread: Identity,
    start: &Policy,
    wanted: &Policy,
) -> io::Result<bool> {
    let policy = |stopped: &mut Remote| {
        let (mode, nodes) = stopped.mempolicy()?;
        Ok::<_, io::Error>(Policy::of_raw(mode, &nodes))
    };
    // A mode that is not known here is the program's.
    let now = policy(stopped)?;
    if threads.policy.setter(thread, &Some(start.clone()), &now) == Setter::Program {
        return Ok(false);
    }
    // The kernel leaves out nodes that the cpuset does not have.
    let is_wanted = |got: &Policy| {
        (got.mode, got.flags) == (wanted.mode, wanted.flags)
            && got.nodes.is_subset(&wanted.nodes)
            && got.nodes.is_empty() == wanted.nodes.is_empty()
    };
    if now.as_ref().is_some_and(is_wanted) {
        threads.policy.set(thread, now);
        return Ok(false);
    }
    stopped.set_mempolicy(wanted.mode, wanted.flags, wanted.nodes.as_words())?;
    let got = policy(stopped)?.filter(is_wanted).ok_or_else(|| io::Error::other(NO_EFFECT))?;
    threads.policy.set(thread, Some(got));
    Ok(true)
}

fn is_of_kernel(stat: &Stat) -> bool {
    stat.flags & KERNEL_THREADS != 0
}

/// Whether the error is that of a thread that has ended meanwhile. One that nobody has waited for
/// cannot be traced (`EPERM`).
fn is_gone(process: &Process, tid: i32, error: &io::Error) -> bool {
    let has_ended = || {
        let stat = process.task_from_tid(tid).and_then(|task| task.stat());
        stat.map_or(true, |stat| has_thread_ended(&stat))
    };
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EPERM | libc::EINVAL)) && has_ended()
}

/// The error, with the remedy if there is one.
fn cause(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => format!(
            "{error}; the program must belong to this user, or this process to root, \
             kernel.yama.ptrace_scope must be 0 or 1, no debugger may trace the program, and no \
             seccomp filter may refuse the call"
        ),
        Some(libc::ETIMEDOUT) => "the thread does not stop: it waits for a device, for a child \
                                  after vfork, or for its share of CPU time; try again"
            .to_owned(),
        _ => error.to_string(),
    }
}

//! Changes the settings of each thread, and reads them back.

use std::collections::HashSet;
use std::io;

use numapilot_observe::thread_group;
use numapilot_sys::affinity;
use numapilot_sys::prctl::ThpSwitch;
use numapilot_sys::remote::{self, Remote};
use numapilot_topology::CpuSet;
use procfs::process::Process;

use super::{Live, State};
use crate::PlaceError;
use crate::effect::Policy;
use crate::prepare::memory::mode_name;

impl Live {
    /// Changes all threads of all processes, also those that are created meanwhile: such a thread
    /// has inherited what its creator had.
    pub(super) fn change_threads(&mut self, wanted: &State) -> Result<(), PlaceError> {
        if self.now.as_ref() == Some(wanted) {
            return Ok(());
        }
        // If this fails, some threads have what they should and others do not.
        let now = self.now.take();
        let differs = |is_equal: fn(&State, &State) -> bool| {
            now.as_ref().is_none_or(|now| !is_equal(now, wanted))
        };
        let change = Change {
            cpus: differs(|now, wanted| now.cpus == wanted.cpus).then_some(&wanted.cpus),
            policy: differs(|now, wanted| now.policy == wanted.policy).then_some(&wanted.policy),
            thp: wanted.thp.filter(|_| differs(|now, wanted| now.thp == wanted.thp)),
        };
        if change.policy.is_some() {
            self.own_policy = 0;
        }
        if !self.cpus.contains(&wanted.cpus) {
            self.cpus.push(wanted.cpus.clone());
        }
        let mut changed = HashSet::new();
        loop {
            self.tree.refresh();
            // A process that has ended has no threads.
            let threads = |process: &Process| process.tasks().into_iter().flatten().flatten();
            let fresh: Vec<(&Process, i32)> = self
                .tree
                .processes()
                .flat_map(|process| threads(process).map(move |task| (process, task.tid)))
                .filter(|(process, tid)| changed.insert((process.pid, *tid)))
                .collect();
            if fresh.is_empty() {
                break;
            }
            let mut found = Vec::new();
            let mut failed = None;
            for (process, tid) in fresh {
                match self.change_thread(process, tid, &change) {
                    Ok(one) => found.push(one),
                    Err((_, error)) if has_ended(process, tid, &error) => {}
                    Err((setting, error)) => {
                        let setting = format!("{setting} of thread {tid}");
                        failed = Some(PlaceError::Live { setting, cause: cause(&error) });
                        break;
                    }
                }
            }
            // Threads that are created from now on have these policies.
            for one in found {
                match one {
                    Found::Nothing => {}
                    Found::OwnPolicy => self.own_policy += 1,
                    Found::Policy(policy) if self.policies.contains(&policy) => {}
                    Found::Policy(policy) => self.policies.push(policy),
                }
            }
            if let Some(error) = failed {
                return Err(error);
            }
        }
        self.now = Some(wanted.clone());
        Ok(())
    }

    /// Changes one thread. An error is that of the setting with this name.
    fn change_thread(
        &self,
        process: &Process,
        tid: i32,
        change: &Change<'_>,
    ) -> Result<Found, (String, io::Error)> {
        if let Some(cpus) = change.cpus {
            let result = change_cpus(tid, &self.cpus, cpus);
            result.map_err(|error| (format!("CPUs {cpus}"), error))?;
        }
        if change.policy.is_none() && change.thp.is_none() {
            return Ok(Found::Nothing);
        }
        let mut setting = "memory policy".to_owned();
        let policies = &self.policies;
        let found = remote::within(tid, |thread| {
            // While it is stopped, its number is not given to another one.
            process.task_from_tid(tid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
            if let Some(switch) = change.thp {
                setting = "thp".to_owned();
                thread.set_thp_switch(switch)?;
                if thread.thp_switch()? != switch {
                    return Err(io::Error::other(NO_EFFECT));
                }
            }
            let Some(policy) = change.policy else { return Ok(Found::Nothing) };
            setting = format!("memory {}", mode_name(policy.mode));
            change_policy(thread, policies, policy)
        });
        found.map_err(|error| (setting, error))
    }
}

/// What changes.
#[derive(Debug)]
struct Change<'a> {
    cpus: Option<&'a CpuSet>,
    policy: Option<&'a Policy>,
    thp: Option<ThpSwitch>,
}

/// What changing a thread has shown.
enum Found {
    /// Its policy was not asked for.
    Nothing,
    /// It has set its policy itself.
    OwnPolicy,
    /// Its new policy, as the kernel tells it.
    Policy(Policy),
}

const NO_EFFECT: &str = "it was accepted but reads back otherwise";

/// Changes the policy of a stopped thread, unless it has one that is not among `ours`.
fn change_policy(thread: &mut Remote, ours: &[Policy], wanted: &Policy) -> io::Result<Found> {
    let (mode, nodes) = thread.mempolicy()?;
    if !Policy::of_raw(mode, &nodes).is_some_and(|before| ours.contains(&before)) {
        return Ok(Found::OwnPolicy);
    }
    thread.set_mempolicy(wanted.mode, wanted.flags, wanted.nodes.as_words())?;
    let (mode, nodes) = thread.mempolicy()?;
    // The kernel leaves out nodes that the cpuset does not have.
    let is_wanted = |got: &Policy| {
        (got.mode, got.flags) == (wanted.mode, wanted.flags)
            && got.nodes.is_subset(&wanted.nodes)
            && got.nodes.is_empty() == wanted.nodes.is_empty()
    };
    let got = Policy::of_raw(mode, &nodes).filter(is_wanted);
    got.map(Found::Policy).ok_or_else(|| io::Error::other(NO_EFFECT))
}

/// Changes the affinity of a thread, unless it has one that is not among `ours`.
fn change_cpus(tid: i32, ours: &[CpuSet], wanted: &CpuSet) -> io::Result<()> {
    if !ours.contains(&CpuSet::from_words(&affinity::get(tid)?)) {
        return Ok(());
    }
    affinity::set(tid, wanted.as_words())?;
    match CpuSet::from_words(&affinity::get(tid)?) == *wanted {
        true => Ok(()),
        false => Err(io::Error::other(NO_EFFECT)),
    }
}

/// Whether the error is that of a thread that has ended. One that nobody has waited for yet cannot be
/// traced (`EPERM`).
fn has_ended(process: &Process, tid: i32, error: &io::Error) -> bool {
    let is_waited_for = || {
        let stat = process.task_from_tid(tid).and_then(|task| task.stat());
        stat.map_or(true, |stat| thread_group::has_ended(&stat))
    };
    match error.raw_os_error() {
        Some(libc::ESRCH) => true,
        Some(libc::EPERM) => is_waited_for(),
        _ => false,
    }
}

/// The error, with the remedy if there is one.
fn cause(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => format!(
            "{error}; the program must belong to this user, or this process to root, \
             kernel.yama.ptrace_scope must be 0 or 1, and no debugger may trace the program"
        ),
        Some(libc::ETIMEDOUT) => "the thread waits for a device, and does not stop".to_owned(),
        _ => error.to_string(),
    }
}

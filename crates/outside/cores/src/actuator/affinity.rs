//! CPUs by the affinity of every thread: where no group may be written.
//!
//! Source: sched_setaffinity(2). A new thread inherits the affinity of its creator, so what
//! has to be watched for is only threads that are created while it is changed. A thread whose
//! affinity is neither the one that the target came with nor one that was set here has been
//! pinned by the program: it is left alone.

use std::collections::BTreeSet;

use numapilot_observe::Tree;
use numapilot_place::journal::{Owner, State};
use numapilot_sys::affinity;
use numapilot_topology::CpuSet;
use serde::{Deserialize, Serialize};

use crate::CoresError;

/// Passes over all threads: they may create others meanwhile.
const PASSES: u32 = 20;

/// What threads had before, and what was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affinity {
    before: CpuSet,
    /// What was set last, and, until that is done, what was set before it.
    held: Vec<CpuSet>,
    /// The target's processes.
    members: Vec<Owner>,
    /// Threads that the program has pinned.
    pinned: BTreeSet<i32>,
}

impl Affinity {
    pub(super) fn plan(root: i32, tree: &Tree) -> Result<Self, String> {
        let fail = |error: std::io::Error| format!("affinity: {error}");
        let words = affinity::get(root).map_err(fail)?;
        // To its own, which changes nothing, and tells whether it may be set.
        affinity::set(root, &words).map_err(fail)?;
        let before = CpuSet::from_words(&words);
        let is_pinned = |tid: &i32| mask_of(*tid).is_some_and(|mask| mask != before);
        let pinned = tree.threads().filter(is_pinned).collect();
        Ok(Self { before, held: Vec::new(), members: Vec::new(), pinned })
    }

    pub(super) const fn before(&self) -> &CpuSet {
        &self.before
    }

    pub(super) fn announce(&mut self, cpus: &CpuSet, tree: &Tree) {
        self.held.retain(|held| held != cpus);
        self.held.push(cpus.clone());
        if self.is_behind(tree) {
            self.members = numbers(tree).filter_map(|pid| Owner::of(pid).ok()).collect();
        }
    }

    /// Whether there are other processes than are known.
    pub(super) fn is_behind(&self, tree: &Tree) -> bool {
        !numbers(tree).eq(self.members.iter().map(|member| member.pid))
    }

    /// Threads that the program has pinned are counted.
    pub(super) fn set(&mut self, cpus: &CpuSet, tree: &Tree) -> Result<usize, CoresError> {
        let threads = || tree.threads().collect::<Vec<i32>>();
        let living: BTreeSet<i32> = threads().into_iter().collect();
        self.pinned.retain(|tid| living.contains(tid));
        let is_ours = |mask: &CpuSet| *mask == self.before || self.held.contains(mask);
        assign(threads, cpus, &mut self.pinned, is_ours)?;
        self.held = vec![cpus.clone()];
        Ok(self.pinned.len())
    }

    pub(super) fn put_back(&self) -> Result<(), CoresError> {
        let mut living = Vec::new();
        for member in &self.members {
            if matches!(member.state(), Ok(State::Alive)) {
                living.extend(i32::try_from(member.pid).ok());
            }
        }
        let is_ours = |mask: &CpuSet| self.held.contains(mask);
        let threads = || living.iter().flat_map(|pid| with_descendants(*pid)).collect();
        assign(threads, &self.before, &mut self.pinned.clone(), is_ours)
    }
}

fn mask_of(tid: i32) -> Option<CpuSet> {
    affinity::get(tid).ok().map(|words| CpuSet::from_words(&words))
}

/// In ascending order.
fn numbers(tree: &Tree) -> impl Iterator<Item = u32> + '_ {
    tree.pids().filter_map(|pid| u32::try_from(pid).ok())
}

/// Gives all threads an affinity but those that are pinned, and notes those that have become so.
fn assign(
    threads: impl Fn() -> Vec<i32>,
    cpus: &CpuSet,
    pinned: &mut BTreeSet<i32>,
    is_ours: impl Fn(&CpuSet) -> bool,
) -> Result<(), CoresError> {
    for _ in 0..PASSES {
        let mut changed = false;
        for tid in threads() {
            let Some(mask) = mask_of(tid).filter(|_| !pinned.contains(&tid)) else { continue };
            if mask == *cpus {
                continue;
            }
            if !is_ours(&mask) {
                pinned.insert(tid);
                continue;
            }
            match affinity::set(tid, cpus.as_words()) {
                Ok(()) => changed = true,
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(source) => return Err(CoresError::Affinity { tid, source }),
            }
        }
        if !changed {
            break;
        }
    }
    Ok(())
}

/// Threads of a process and of all that descend from it.
fn with_descendants(pid: i32) -> Vec<i32> {
    let Ok(tree) = Tree::of(&[pid]) else { return Vec::new() };
    tree.threads().collect()
}

/// Threads of a target that may use only a part of these CPUs.
pub(super) fn pinned(tree: &Tree, cpus: &CpuSet) -> usize {
    let is_pinned =
        |tid: &i32| mask_of(*tid).is_some_and(|mask| mask != *cpus && mask.is_subset(cpus));
    tree.threads().filter(is_pinned).count()
}

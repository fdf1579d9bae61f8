//! Holds a target on its CPUs, and releases it.
//!
//! ```text
//!  cgroup v2   its own group if it is alone in it, else (at the root) a child group
//!  cgroup v1   a child group of the cpuset hierarchy
//!  affinity    sched_setaffinity over every thread
//! ```
//!
//! A [`Hold`] describes what was changed, which is all that is needed to put it back. It is kept in
//! a record on disk, so the changes of a daemon that was killed can be put back too.

mod affinity;
mod cpuset;
mod groups;

pub use affinity::Affinity;
pub use cpuset::Cpuset;
pub use groups::Version;

use std::path::PathBuf;

use numapilot_observe::Tree;
use numapilot_topology::CpuSet;
use serde::{Deserialize, Serialize};

use crate::CoresError;

/// What could not be put back exactly, and why, as text for people.
pub type Notes = Vec<String>;

/// All possible CPUs, including those that can be added later.
const POSSIBLE: &str = "/sys/devices/system/cpu/possible";
/// CPUs that are online.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// The ways to hold a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The cpuset controller of cgroup v2.
    CgroupV2,
    /// The cpuset hierarchy of cgroup v1.
    CgroupV1,
    /// The affinity of every thread.
    Affinity,
}

impl Way {
    /// All ways, in the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::CgroupV2, Self::CgroupV1, Self::Affinity];
}

/// What was changed for a target, and how it is put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// The CPUs of a group.
    Cpuset(Cpuset),
    /// The affinity of the threads.
    Affinity(Affinity),
}

impl Hold {
    /// Plans the first way that works for a target, or the one that is asked for. Nothing is
    /// changed yet, because a record has to be written first.
    ///
    /// # Errors
    /// [`CoresError::NoWay`] with the cause for each way.
    pub fn plan(root: i32, tree: &Tree, asked: Option<Way>) -> Result<Self, CoresError> {
        let ways: Vec<Way> = asked.map_or(Way::ALL.to_vec(), |way| vec![way]);
        let mut causes = Vec::new();
        for way in ways {
            let planned = match way {
                Way::Affinity => Affinity::plan(root, tree).map(Self::Affinity),
                Way::CgroupV2 => Cpuset::plan(Version::V2, root, tree).map(Self::Cpuset),
                Way::CgroupV1 => Cpuset::plan(Version::V1, root, tree).map(Self::Cpuset),
            };
            match planned {
                Ok(hold) => return Ok(hold),
                Err(cause) => causes.push(cause),
            }
        }
        Err(CoresError::NoWay { pid: root, causes: causes.join("; ") })
    }

    /// Takes hold of the target. The record must be on disk.
    ///
    /// # Errors
    /// [`CoresError`]; the caller has to put back what was changed.
    pub fn begin(&self, tree: &Tree) -> Result<(), CoresError> {
        match self {
            Self::Cpuset(cpuset) => cpuset.begin(tree),
            Self::Affinity(_) => Ok(()),
        }
    }

    /// Describes the way, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Cpuset(cpuset) => cpuset.describe(),
            Self::Affinity(_) => "the affinity of every thread".to_owned(),
        }
    }

    /// CPUs that the target may use at the moment: those that are online and that it was allowed
    /// before.
    ///
    /// # Errors
    /// [`CoresError`].
    pub fn available(&self) -> Result<CpuSet, CoresError> {
        let online = groups::read_set(ONLINE.as_ref())?;
        let allowed = match self {
            Self::Cpuset(cpuset) => cpuset.available()?,
            Self::Affinity(affinity) => affinity.available()?,
        };
        Ok(allowed.intersection(&online))
    }

    /// The files whose text changes when [`Hold::available`] does, or when the target is no longer
    /// where it was put.
    #[must_use]
    pub fn watched(&self, root: i32) -> Vec<PathBuf> {
        let mut paths = vec![PathBuf::from(ONLINE)];
        match self {
            Self::Cpuset(cpuset) => paths.extend(cpuset.watched(root)),
            Self::Affinity(affinity) => paths.push(affinity.watched()),
        }
        paths
    }

    /// Notes which CPUs come next. The record has to be saved before [`Hold::set`].
    pub fn announce(&mut self, cpus: &CpuSet, tree: &Tree) {
        match self {
            Self::Cpuset(cpuset) => cpuset.announce(cpus),
            Self::Affinity(affinity) => affinity.announce(cpus, tree),
        }
    }

    /// Takes in processes that the target has started since. The record has to be saved afterwards.
    pub fn take_in(&mut self, tree: &Tree) {
        match self {
            Self::Cpuset(_) => {}
            Self::Affinity(affinity) => affinity.take_in(tree),
        }
    }

    /// Puts the target on these CPUs. Returns the number of threads that have an affinity of their
    /// own.
    ///
    /// # Errors
    /// [`CoresError`].
    pub fn set(&mut self, root: i32, cpus: &CpuSet, tree: &Tree) -> Result<usize, CoresError> {
        match self {
            Self::Cpuset(cpuset) => cpuset.set(root, cpus, tree).map(|()| 0),
            Self::Affinity(affinity) => affinity.set(cpus, tree),
        }
    }

    /// Puts threads on these CPUs that were being created when the CPUs were set. Returns the
    /// number of threads that have an affinity of their own.
    ///
    /// # Errors
    /// [`CoresError`].
    pub fn place_new_threads(&mut self, cpus: &CpuSet, tree: &Tree) -> Result<usize, CoresError> {
        match self {
            Self::Cpuset(_) => Ok(affinity::pinned(tree, cpus)),
            Self::Affinity(affinity) => affinity.set(cpus, tree),
        }
    }

    /// Checks that the target is still where it was put, and puts it there again otherwise.
    ///
    /// # Errors
    /// [`CoresError`].
    pub fn keep(&mut self, root: i32, cpus: &CpuSet, tree: &Tree) -> Result<(), CoresError> {
        match self {
            Self::Cpuset(cpuset) => cpuset.set(root, cpus, tree),
            // New threads inherit the affinity.
            Self::Affinity(_) => Ok(()),
        }
    }

    /// Whether the target has processes that are not recorded.
    #[must_use]
    pub fn is_behind(&self, tree: &Tree) -> bool {
        match self {
            Self::Cpuset(_) => false,
            Self::Affinity(affinity) => affinity.is_behind(tree),
        }
    }

    /// Puts back what was changed. Returns what could not be put back exactly.
    ///
    /// # Errors
    /// [`CoresError`]; the caller can try again.
    pub fn put_back(&self) -> Result<Notes, CoresError> {
        match self {
            Self::Cpuset(cpuset) => cpuset.put_back(),
            Self::Affinity(affinity) => affinity.put_back().map(|()| Notes::new()),
        }
    }

    /// The directory in which the kernel accounts for the target alone: its group in cgroup v2.
    #[must_use]
    pub fn accounts(&self) -> Option<PathBuf> {
        match self {
            Self::Cpuset(cpuset) => cpuset.accounts(),
            Self::Affinity(_) => None,
        }
    }
}

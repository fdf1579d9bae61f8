//! Holding a target on its CPUs, and letting it go again.
//!
//! ```text
//!  cgroup v2   its own group if it is alone in it, else (at the root) a child group
//!  cgroup v1   a child group of the cpuset hierarchy
//!  affinity    sched_setaffinity over every thread
//! ```
//!
//! A [`Hold`] says what was changed, and is all that it takes to put it back: it is kept in
//! a record on disk, so that it can be put back for a daemon that was killed, too.

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

/// What is not exactly as it was before, and why; for people.
pub type Notes = Vec<String>;

/// CPUs that may ever be there.
const POSSIBLE: &str = "/sys/devices/system/cpu/possible";
/// CPUs that are switched on.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// The ways.
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
    /// In the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::CgroupV2, Self::CgroupV1, Self::Affinity];
}

/// What was changed for a target, and how it is put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// A group's CPUs.
    Cpuset(Cpuset),
    /// Threads' affinity.
    Affinity(Affinity),
}

impl Hold {
    /// The first way that works for a target, or the one that is asked for. Nothing but
    /// groups is made yet: a record of it has to be written first.
    ///
    /// # Errors
    /// [`CoresError::NoWay`] with the cause of each.
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

    /// Takes hold; the record is on disk by now.
    ///
    /// # Errors
    /// [`CoresError`]; what was changed has to be put back.
    pub fn begin(&self, tree: &Tree) -> Result<(), CoresError> {
        match self {
            Self::Cpuset(cpuset) => cpuset.begin(tree),
            Self::Affinity(_) => Ok(()),
        }
    }

    /// Its way, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Cpuset(cpuset) => cpuset.describe(),
            Self::Affinity(_) => "the affinity of every thread".to_owned(),
        }
    }

    /// CPUs that the target may have at this moment: online, and what it was allowed before.
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

    /// The files whose text changes when [`Hold::available`] does, or when the target is no more
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

    /// Says which CPUs come next; to be recorded before [`Hold::set`].
    pub fn announce(&mut self, cpus: &CpuSet, tree: &Tree) {
        match self {
            Self::Cpuset(cpuset) => cpuset.announce(cpus),
            Self::Affinity(affinity) => affinity.announce(cpus, tree),
        }
    }

    /// Takes in processes that the target has got since; to be recorded.
    pub fn take_in(&mut self, tree: &Tree) {
        match self {
            Self::Cpuset(_) => {}
            Self::Affinity(affinity) => affinity.take_in(tree),
        }
    }

    /// Puts the target on these CPUs and sees to it that it stays there; threads that have an
    /// affinity of their own.
    ///
    /// # Errors
    /// [`CoresError`].
    pub fn set(&mut self, root: i32, cpus: &CpuSet, tree: &Tree) -> Result<usize, CoresError> {
        match self {
            Self::Cpuset(cpuset) => cpuset.set(root, cpus, tree).map(|()| 0),
            Self::Affinity(affinity) => affinity.set(cpus, tree),
        }
    }

    /// How many threads have an affinity of their own. One that was begun while the target was put
    /// on these CPUs, and is not there yet, is put there.
    ///
    /// # Errors
    /// [`CoresError`].
    pub fn place_new_threads(&mut self, cpus: &CpuSet, tree: &Tree) -> Result<usize, CoresError> {
        match self {
            Self::Cpuset(_) => Ok(affinity::pinned(tree, cpus)),
            Self::Affinity(affinity) => affinity.set(cpus, tree),
        }
    }

    /// Whether the target is still where it was put; else it is put there again.
    ///
    /// # Errors
    /// [`CoresError`].
    pub fn keep(&mut self, root: i32, cpus: &CpuSet, tree: &Tree) -> Result<(), CoresError> {
        match self {
            Self::Cpuset(cpuset) => cpuset.set(root, cpus, tree),
            // New threads inherit it.
            Self::Affinity(_) => Ok(()),
        }
    }

    /// Whether the target has processes that the record does not know.
    #[must_use]
    pub fn is_behind(&self, tree: &Tree) -> bool {
        match self {
            Self::Cpuset(_) => false,
            Self::Affinity(affinity) => affinity.is_behind(tree),
        }
    }

    /// Puts back what was changed; what is not as it was for all that.
    ///
    /// # Errors
    /// [`CoresError`]; it can be tried again.
    pub fn put_back(&self) -> Result<Notes, CoresError> {
        match self {
            Self::Cpuset(cpuset) => cpuset.put_back(),
            Self::Affinity(affinity) => affinity.put_back().map(|()| Notes::new()),
        }
    }

    /// The directory where the kernel keeps the target's accounts, and no one else's: its
    /// group in cgroup v2.
    #[must_use]
    pub fn accounts(&self) -> Option<PathBuf> {
        match self {
            Self::Cpuset(cpuset) => cpuset.accounts(),
            Self::Affinity(_) => None,
        }
    }
}

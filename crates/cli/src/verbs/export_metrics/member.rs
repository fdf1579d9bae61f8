//! What is read of one process.

use std::collections::BTreeMap;

use numapilot_observe::{NodeMemoryError, node_bytes, thread_group};
use numapilot_topology::NodeId;
use procfs::process::{Process, Stat};

use super::plans::{Plan, plan};
use crate::verbs::selection::cgroup_of;

/// The labels that processes share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    pub cgroup: String,
    pub command: String,
}

/// An ID and a start time, which no other process has.
pub type Identity = (i32, u64);

/// A process at one moment.
pub struct Member {
    pub identity: Identity,
    pub parent: i32,
    /// The user to whom it belongs.
    pub user: u32,
    pub group: Group,
    pub tids: Vec<i32>,
    pub bytes: Result<BTreeMap<NodeId, u64>, NodeMemoryError>,
    pub plan: Plan,
}

/// Reads a process, unless it has ended.
pub fn member(process: &Process) -> Option<Member> {
    let stat: Stat = process.stat().ok().filter(|stat| !thread_group::has_ended(stat))?;
    let tids: Vec<i32> = process.tasks().ok()?.flatten().map(|task| task.tid).collect();
    Some(Member {
        identity: (process.pid, stat.starttime),
        parent: stat.ppid,
        bytes: node_bytes(process),
        plan: plan(process, &tids),
        tids,
        user: process.uid().ok()?,
        group: Group { cgroup: cgroup_of(process).unwrap_or_default(), command: stat.comm },
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A process with this command and memory.
    pub fn member(command: &str, bytes: Result<u64, NodeMemoryError>) -> Member {
        Member {
            identity: (1, 1),
            parent: 0,
            user: 0,
            group: Group { cgroup: "/a".to_owned(), command: command.to_owned() },
            tids: Vec::new(),
            bytes: bytes.map(|bytes| BTreeMap::from([(NodeId(0), bytes)])),
            plan: Ok(None),
        }
    }
}

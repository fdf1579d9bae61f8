//! Node and CPU strings as numactl(8) takes them.
//!
//! `all` is what the process may use, and `!` negates a string. `+LIST` counts within what the
//! process may use (`+0` = its first node), which scripts in containers need; `!+LIST` combines
//! both. numactl's `same` (the nodes of the previous option) and its device names (`pci:`,
//! `block:`, `netdev:`, `file:`, `ip:`) depend on more than the machine. A caller that accepts them
//! first replaces them by a list.

use thiserror::Error;

use crate::{CpuSet, IdSet, ListError, Machine, NodeSet};

/// Why a nodestring or CPU string cannot be used on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NodestringError {
    /// The text is not a list.
    #[error("bad {what} string '{text}'")]
    Malformed {
        /// `"node"` or `"CPU"`.
        what: &'static str,
        /// The whole text.
        text: String,
        /// Which part, and why.
        source: ListError,
    },
    /// Ids that the machine does not have.
    #[error("{} not on this machine, which has {present}", are(what, missing))]
    Unknown {
        /// `"node"` or `"CPU"`.
        what: &'static str,
        /// The requested ids that are absent.
        missing: String,
        /// The ids that are present: `nodes 0-3`, `node 0 only`.
        present: String,
    },
    /// CPUs that the machine has and that are offline.
    #[error("{} offline; {}", are("CPU", &offline.to_string()), start_cpus(.offline))]
    Offline {
        /// The requested CPUs that are offline.
        offline: CpuSet,
    },
    /// Ids that exist but are outside the cpuset or affinity of this process.
    #[error(
        "{} outside what this process may use ({allowed}); widen its cpuset or affinity",
        are(what, denied)
    )]
    NotAllowed {
        /// `"node"` or `"CPU"`.
        what: &'static str,
        /// The requested ids that are denied.
        denied: String,
        /// Ids that may be used.
        allowed: String,
    },
    /// A string such as `!0` on a machine with one node.
    #[error("{what} string '{text}' selects nothing on this machine")]
    Empty {
        /// `"node"` or `"CPU"`.
        what: &'static str,
        /// The whole text.
        text: String,
    },
}

/// The subject and the verb of a sentence about these ids: `node 7 is`, `nodes 1-3 are`.
fn are(what: &str, ids: &str) -> String {
    match ids.contains([',', '-']) {
        false => format!("{what} {ids} is"),
        true => format!("{what}s {ids} are"),
    }
}

/// The command that brings offline CPUs up, for an error.
fn start_cpus(offline: &CpuSet) -> String {
    let first = offline.first().unwrap_or_default();
    let it = if offline.len() > 1 { "the first one" } else { "it" };
    format!("to start {it}: echo 1 | sudo tee /sys/devices/system/cpu/cpu{first}/online")
}

/// Resolves a nodestring (`0-2,4`, `!0`, `+0`, `!+0`, `all`) to nodes to allocate on.
///
/// # Errors
/// [`NodestringError`] when it is malformed, names unknown or denied nodes or one without
/// memory, or selects nothing.
pub fn parse_nodes(text: &str, machine: &Machine) -> Result<NodeSet, NodestringError> {
    resolve("node", text, &machine.node_ids(), &machine.allowed.nodes)
}

/// Resolves a nodestring to nodes to run on: those that have a CPU this process may use,
/// with or without memory.
///
/// # Errors
/// [`NodestringError`] when it is malformed, names unknown or denied nodes or one without
/// CPUs, or selects nothing.
pub fn parse_cpu_nodes(text: &str, machine: &Machine) -> Result<NodeSet, NodestringError> {
    let usable = |cpus: &CpuSet| !cpus.intersection(&machine.allowed.cpus).is_empty();
    let allowed = machine.nodes.iter().filter(|node| usable(&node.cpus)).map(|node| node.id);
    resolve("node", text, &machine.node_ids(), &allowed.collect())
}

/// Resolves a CPU string (`0-2,4`, `!0`, `+0-4`, `all`) against a machine.
///
/// # Errors
/// [`NodestringError`] when it is malformed, names unknown, offline or denied CPUs, or
/// selects nothing.
pub fn parse_cpus(text: &str, machine: &Machine) -> Result<CpuSet, NodestringError> {
    let online = machine.online_cpus();
    let present: CpuSet = machine.cpus.iter().map(|cpu| cpu.id).collect();
    match resolve("CPU", text, &online, &machine.allowed.cpus) {
        Err(NodestringError::Unknown { missing, .. }) if is_present(&missing, &present) => {
            let offline = CpuSet::parse_list(&missing).unwrap_or_default();
            Err(NodestringError::Offline { offline })
        }
        result => result,
    }
}

/// Whether every CPU in a printed list is a CPU of the machine.
fn is_present(list: &str, present: &CpuSet) -> bool {
    CpuSet::parse_list(list).is_ok_and(|cpus| cpus.is_subset(present))
}

fn resolve<T: From<u32> + Into<u32> + Copy>(
    what: &'static str,
    text: &str,
    present: &IdSet<T>,
    allowed: &IdSet<T>,
) -> Result<IdSet<T>, NodestringError> {
    let list = |t: &str| {
        IdSet::<T>::parse_list(t).map_err(|source| NodestringError::Malformed {
            what,
            text: text.to_owned(),
            source,
        })
    };
    let trimmed = text.trim();
    let (inverse, named) = match trimmed.strip_prefix('!') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, trimmed),
    };
    let named = if named == "all" {
        allowed.clone()
    } else if let Some(positions) = named.strip_prefix('+') {
        let ids: Vec<T> = allowed.iter().collect();
        let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let positions = known(what, list(positions)?, &(0..count).map(T::from).collect())?;
        positions.iter().map(|i| ids[i.into() as usize]).collect()
    } else {
        known(what, list(named)?, present)?
    };
    let wanted = if inverse { allowed.difference(&named) } else { named };
    if wanted.is_empty() {
        return Err(NodestringError::Empty { what, text: text.to_owned() });
    }
    let denied = wanted.difference(allowed);
    if !denied.is_empty() {
        return Err(NodestringError::NotAllowed {
            what,
            denied: denied.to_string(),
            allowed: allowed.to_string(),
        });
    }
    Ok(wanted)
}

fn known<T: From<u32> + Into<u32> + Copy>(
    what: &'static str,
    ids: IdSet<T>,
    present: &IdSet<T>,
) -> Result<IdSet<T>, NodestringError> {
    let missing = ids.difference(present);
    if missing.is_empty() {
        return Ok(ids);
    }
    Err(NodestringError::Unknown {
        what,
        missing: missing.to_string(),
        present: match present.len() {
            1 => format!("{what} {present} only"),
            _ => format!("{what}s {present}"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuId, NodeId};

    fn nodes(text: &str) -> Result<String, NodestringError> {
        parse_nodes(text, &Machine::uniform(4, 2)).map(|s| s.to_string())
    }

    #[test]
    fn every_numactl_form() {
        assert_eq!(nodes("0-2").unwrap(), "0-2");
        assert_eq!(nodes("0,3").unwrap(), "0,3");
        assert_eq!(nodes("!0").unwrap(), "1-3");
        assert_eq!(nodes("all").unwrap(), "0-3");
        assert_eq!(nodes("+0").unwrap(), "0");
        assert_eq!(nodes("+0-1,3").unwrap(), "0-1,3");
        assert_eq!(nodes("!0-1,3").unwrap(), "2");
        assert_eq!(nodes("!+0-1").unwrap(), "2-3");
        assert_eq!(nodes(" 1 , 3 ").unwrap(), "1,3");
    }

    #[test]
    fn relative_counts_inside_the_cpuset() {
        let mut machine = Machine::uniform(4, 2);
        machine.allowed.nodes = [NodeId(2), NodeId(3)].into_iter().collect();
        assert_eq!(parse_nodes("+0", &machine).unwrap().to_string(), "2");
        assert_eq!(parse_nodes("all", &machine).unwrap().to_string(), "2-3");
        assert_eq!(parse_nodes("!2", &machine).unwrap().to_string(), "3");
        assert!(matches!(parse_nodes("0", &machine), Err(NodestringError::NotAllowed { .. })));
        assert!(matches!(parse_nodes("+2", &machine), Err(NodestringError::Unknown { .. })));
    }

    #[test]
    fn bad_strings_say_what_is_there() {
        let error = nodes("7").unwrap_err().to_string();
        assert_eq!(error, "node 7 is not on this machine, which has nodes 0-3");
        let error = nodes("2-5").unwrap_err().to_string();
        assert_eq!(error, "nodes 4-5 are not on this machine, which has nodes 0-3");
        assert!(matches!(nodes("x"), Err(NodestringError::Malformed { .. })));
        assert!(matches!(nodes("!0-3"), Err(NodestringError::Empty { .. })));
        assert!(matches!(nodes("!all"), Err(NodestringError::Empty { .. })));
        for text in ["same", "!!0", "+!0", "0-", "-1", "0,,1", "+", "pci:0:1"] {
            let error = nodes(text).unwrap_err();
            let bad = matches!(error, NodestringError::Malformed { .. });
            assert!(
                bad || (text == "+" && matches!(error, NodestringError::Empty { .. })),
                "{text}"
            );
        }
        assert!(matches!(nodes(""), Err(NodestringError::Empty { .. })));
    }

    #[test]
    fn nodes_to_run_on_need_cpus_and_nodes_to_allocate_on_need_memory() {
        let mut machine = Machine::uniform(3, 2);
        machine.nodes[1].memory_bytes = 0;
        machine.nodes[2].cpus = CpuSet::new();
        machine.allowed.nodes = machine.memory_nodes();
        assert_eq!(parse_nodes("all", &machine).unwrap().to_string(), "0,2");
        assert_eq!(parse_cpu_nodes("all", &machine).unwrap().to_string(), "0-1");
        assert!(matches!(parse_nodes("1", &machine), Err(NodestringError::NotAllowed { .. })));
        assert!(matches!(parse_cpu_nodes("2", &machine), Err(NodestringError::NotAllowed { .. })));
    }

    #[test]
    fn offline_cpus_cannot_be_used() {
        let mut machine = Machine::uniform(1, 4);
        machine.cpus[3].online = false;
        let error = parse_cpus("2-3", &machine).unwrap_err().to_string();
        assert_eq!(
            error,
            "CPU 3 is offline; to start it: echo 1 | sudo tee /sys/devices/system/cpu/cpu3/online"
        );
        assert!(matches!(parse_cpus("3,9", &machine), Err(NodestringError::Unknown { .. })));
        let three: CpuSet = [CpuId(0), CpuId(1), CpuId(2)].into_iter().collect();
        machine.allowed.cpus = three.clone();
        assert_eq!(parse_cpus("all", &machine).unwrap(), three);
    }
}

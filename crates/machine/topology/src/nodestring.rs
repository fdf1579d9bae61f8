//! Node and CPU strings as numactl(8) takes them.
//!
//! `all` is what the process may use; `!LIST` is all but the list; `+LIST` counts inside
//! what the process may use (`+0` = its first node), which is what scripts in containers
//! need.

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
    /// Ids the machine does not have.
    #[error("{what} {missing} is not on this machine, which has {what}s {present}")]
    Unknown {
        /// `"node"` or `"CPU"`.
        what: &'static str,
        /// Ids asked for and not there.
        missing: String,
        /// Ids that are there.
        present: String,
    },
    /// Ids that exist but are outside the cpuset or affinity of this process.
    #[error(
        "{what} {denied} is outside what this process may use ({allowed}); \
             its cpuset or affinity would have to be widened"
    )]
    NotAllowed {
        /// `"node"` or `"CPU"`.
        what: &'static str,
        /// Ids asked for and denied.
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

/// Resolves a nodestring (`0-2,4`, `!0`, `+0`, `all`) against a machine.
///
/// # Errors
/// [`NodestringError`] when it is malformed, names unknown or denied nodes, or selects
/// nothing.
pub fn parse_nodes(text: &str, machine: &Machine) -> Result<NodeSet, NodestringError> {
    resolve("node", text, &machine.node_ids(), &machine.allowed.nodes)
}

/// Resolves a CPU string (`0-2,4`, `!0`, `+0-4`, `all`) against a machine.
///
/// # Errors
/// [`NodestringError`] when it is malformed, names unknown, offline or denied CPUs, or
/// selects nothing.
pub fn parse_cpus(text: &str, machine: &Machine) -> Result<CpuSet, NodestringError> {
    resolve("CPU", text, &machine.online_cpus(), &machine.allowed.cpus)
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
    let wanted = if trimmed == "all" {
        allowed.clone()
    } else if let Some(rest) = trimmed.strip_prefix('!') {
        allowed.difference(&known(what, list(rest)?, present)?)
    } else if let Some(rest) = trimmed.strip_prefix('+') {
        let ids: Vec<T> = allowed.iter().collect();
        let relative = list(rest)?;
        let positions = (0..u32::try_from(ids.len()).unwrap_or(u32::MAX)).map(T::from).collect();
        known(what, relative, &positions)?.iter().map(|i| ids[i.into() as usize]).collect()
    } else {
        known(what, list(trimmed)?, present)?
    };
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
        present: present.to_string(),
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
        assert!(matches!(nodes("x"), Err(NodestringError::Malformed { .. })));
        assert!(matches!(nodes("!0-3"), Err(NodestringError::Empty { .. })));
        assert!(matches!(nodes(""), Err(NodestringError::Empty { .. })));
    }

    #[test]
    fn offline_cpus_cannot_be_used() {
        let mut machine = Machine::uniform(1, 4);
        machine.cpus[3].online = false;
        assert!(matches!(parse_cpus("3", &machine), Err(NodestringError::Unknown { .. })));
        let three: CpuSet = [CpuId(0), CpuId(1), CpuId(2)].into_iter().collect();
        machine.allowed.cpus = three.clone();
        assert_eq!(parse_cpus("all", &machine).unwrap(), three);
    }
}

//! A hash that is the same in every version of numapilot and of Rust, for values that are kept in
//! files. It tells things apart; it does not protect against somebody who wants two to look alike.
//!
//! Source: the FNV-1a algorithm with 64 bits (RFC 9923).

use std::fmt;

use crate::{CpuSet, Machine};

const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// A hash, written as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StableHash(u64);

impl StableHash {
    /// The hash of texts in this order. `["ab"]` and `["a", "b"]` differ.
    pub fn of<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> Self {
        let mut hash = OFFSET_BASIS;
        let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        for text in texts {
            text.as_ref().iter().copied().for_each(&mut add);
            // Neither a command nor a line of a machine contains this byte.
            add(0);
        }
        Self(hash)
    }

    /// The hash with this text; `None` if the text is no hash.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_hash = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u64::from_str_radix(text, 16).ok().filter(|_| is_hash).map(Self)
    }
}

impl fmt::Display for StableHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Machine {
    /// The hash of the topology: which nodes there are and whether they have memory, their CPUs,
    /// which CPUs share a core and a package, and the distances. Sizes of memory and caches are not
    /// part of it, nor is anything that changes while the machine runs, except CPUs that go offline.
    /// [`crate::Extent::Cpus`] suffices.
    #[must_use]
    pub fn topology_hash(&self) -> StableHash {
        let nodes = self.nodes.iter().map(|node| {
            let memory = if node.memory_bytes > 0 { "memory" } else { "no memory" };
            format!("node {} {memory} cpus {}", node.id, node.cpus)
        });
        let cpus = self.cpus.iter().filter(|cpu| cpu.online).map(|cpu| {
            let siblings: &CpuSet = &cpu.siblings;
            format!("cpu {} package {:?} siblings {siblings}", cpu.id, cpu.package)
        });
        let distances = self.distances.iter().map(|row| format!("distances {row:?}"));
        StableHash::of(nodes.chain(cpus).chain(distances))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed expectation is what a test is for")]

    use std::path::Path;

    use super::*;
    use crate::{Extent, read, read_extent};

    #[test]
    fn a_hash_never_changes() {
        // The value of the algorithm for "a" followed by a zero byte.
        assert_eq!(StableHash::of(["a"]).to_string(), "089be207b544f1e4");
        assert_eq!(StableHash::of(["a"; 0]).to_string(), "cbf29ce484222325");
        assert_ne!(StableHash::of(["ab"]), StableHash::of(["a", "b"]));
        // Files hold this one.
        assert_eq!(Machine::uniform(2, 2).topology_hash().to_string(), "d96fa77203b3ba98");
    }

    #[test]
    fn a_hash_is_read_back() {
        let hash = StableHash::of(["a"]);
        assert_eq!(StableHash::parse(&hash.to_string()), Some(hash));
        for wrong in ["", "x", "+89be207b544f1e4", "089be207b544f1e", "089be207b544f1e4a"] {
            assert_eq!(StableHash::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_makes_another_topology_changes_the_hash() {
        let machine = Machine::uniform(2, 2);
        let hash = machine.topology_hash();
        let differs = |change: &dyn Fn(&mut Machine)| {
            let mut other = machine.clone();
            change(&mut other);
            other.topology_hash() != hash
        };
        assert!(differs(&|m| m.distances[0][1] = 32));
        assert!(differs(&|m| m.nodes[1].memory_bytes = 0));
        assert!(differs(&|m| m.cpus[1].package = Some(7)));
        assert!(differs(&|m| m.cpus[0].siblings = m.nodes[0].cpus.clone()));
        assert!(!differs(&|m| m.nodes[1].memory_bytes += 4096));
        assert!(!differs(&|m| m.nodes[1].free_bytes = Some(1)));
        assert!(!differs(&|m| m.name = "other".to_owned()));
        assert_ne!(Machine::uniform(1, 4).topology_hash(), hash);
    }

    #[test]
    fn the_part_that_run_reads_suffices() {
        let whole = read(Path::new("/")).unwrap().topology_hash();
        let part = read_extent(Path::new("/"), Extent::Cpus).unwrap().topology_hash();
        assert_eq!(part, whole);
    }
}

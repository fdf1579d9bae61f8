//! Finds out which malloc an engine's processes really use, whatever was requested.

use std::collections::{BTreeMap, BTreeSet};

use numapilot_observe::Tree;
use numapilot_place::allocators::{Embedded, in_use};
use serde::Serialize;

/// The mallocs of all processes of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Mallocs {
    /// Number of processes by the name of their malloc.
    pub processes: BTreeMap<String, usize>,
    /// Allocators inside the engine's own files, which a preloaded library cannot replace.
    pub embedded: BTreeSet<Embedded>,
}

impl Mallocs {
    /// Examines a process and all its descendants.
    ///
    /// # Errors
    /// Why the processes may not be examined.
    pub fn of(pid: i32) -> Result<Self, String> {
        let tree = Tree::of(&[pid]).map_err(|error| error.to_string())?;
        let mut all = Self::default();
        for pid in tree.pids() {
            // A process that has ended meanwhile uses nothing.
            let Ok(found) = in_use(pid) else { continue };
            *all.processes.entry(found.name).or_default() += 1;
            all.embedded.extend(found.embedded);
        }
        if all.processes.is_empty() {
            return Err(format!("/proc/{pid}/maps cannot be read: run numapilot as root"));
        }
        Ok(all)
    }

    /// Whether every process uses this malloc only.
    #[must_use]
    pub fn are_all(&self, name: &str) -> bool {
        self.processes.keys().all(|used| used == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_one() {
        let mallocs = Mallocs::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(mallocs.are_all("glibc"), "{mallocs:?}");
        assert!(Mallocs::of(i32::MAX).is_err());
    }
}

//! The peak of resident memory of a program while it runs.
//!
//! Source: getrusage(2) and proc_pid_status(5). `ru_maxrss` is exact and includes processes that the
//! program has waited for, but it begins with what the child had resident before it executed the
//! program: a copy of the parent's anonymous pages, and a few pages of code (`dup_mm` and `exec_mmap`
//! in the kernel). Below that, the high-water mark in `/proc` counts, as last read before the end, if
//! the program ran long enough to have its libraries loaded. Short processes are missed then.
//! Neither includes huge pages of hugetlbfs, and `ru_maxrss` lacks processes that the program does
//! not wait for, such as daemons. These are read while they run, and when the program has ended. If
//! this process adopts [orphans](numapilot_observe::orphans), the peak of each is read when it ends.

use std::collections::BTreeSet;

use numapilot_observe::{Resident, Tree};
use procfs::process::Process;

/// A program's high-water mark of resident memory.
#[derive(Debug)]
pub struct Peak {
    tree: Option<Tree>,
    /// Every process that was seen.
    pids: BTreeSet<i32>,
    /// The highest reading of any process, including huge pages of hugetlbfs.
    seen: Option<u64>,
    /// The highest peak of any process that outlived the program.
    left: u64,
    /// What the child had resident before it executed the program, which is the least value of
    /// `ru_maxrss`.
    floor: Option<u64>,
}

/// Most that a forked process touches, beside anonymous pages, before it executes the program.
const BEFORE_EXEC: u64 = 4 << 20;

impl Peak {
    /// Follows the processes of a tree.
    pub fn of(tree: Tree) -> Self {
        let floor = Process::myself().ok().as_ref().and_then(Resident::of);
        Self {
            pids: tree.pids().collect(),
            tree: Some(tree),
            seen: None,
            left: 0,
            floor: floor.map(|resident| resident.anonymous_bytes + BEFORE_EXEC),
        }
    }

    /// Reads the memory of all processes.
    pub fn look(&mut self) {
        // A process that has ended has no memory; the earlier reading counts.
        let Some(tree) = &mut self.tree else { return };
        tree.refresh();
        self.pids.extend(tree.pids());
        self.seen = self.seen.max(tree.peak_rss_bytes());
    }

    /// To be called after the program was waited for: processes that are alive then are not in its
    /// `ru_maxrss`.
    pub fn look_at_left(&mut self) {
        let Some(tree) = &mut self.tree else { return };
        tree.refresh();
        self.left = tree.peak_rss_bytes().unwrap_or(0);
    }

    /// Every process that was seen, including those that have ended.
    pub fn pids(&self) -> &BTreeSet<i32> {
        &self.pids
    }

    /// The peak, given `ru_maxrss` of the ended program.
    pub fn bytes(&self, reported: u64) -> u64 {
        let is_hidden = self.floor.is_some_and(|floor| reported <= floor);
        let peak = match self.seen {
            Some(seen) if is_hidden => seen,
            Some(seen) => seen.max(reported),
            None => reported,
        };
        peak.max(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_peak_counts_where_the_parents_memory_does_not_hide_it() {
        let peak = |seen, floor| Peak { tree: None, pids: BTreeSet::new(), seen, left: 0, floor };
        assert_eq!(peak(Some(40), Some(10)).bytes(50), 50);
        assert_eq!(peak(Some(4), Some(10)).bytes(10), 4);
        assert_eq!(peak(Some(4), Some(10)).bytes(9), 4);
        assert_eq!(peak(None, Some(10)).bytes(10), 10);
        assert_eq!(peak(Some(4), None).bytes(10), 10);
        // Huge pages of hugetlbfs, or a daemon.
        let more = peak(Some(60), Some(10));
        assert_eq!((more.bytes(10), more.bytes(12), more.bytes(70)), (60, 60, 70));
        // A daemon of a program that ended before the first reading.
        let left = Peak { left: 60, ..peak(None, Some(10)) };
        assert_eq!((left.bytes(10), left.bytes(70)), (60, 70));
    }
}

//! System V shared memory that a server left: a segment outlives a server that was killed, and would
//! take its memory from the next one.
//!
//! Source: sysvipc(7). A segment is removed only if it did not exist before the run, a process of
//! the run made it, and no process has it attached.

use std::collections::{BTreeSet, HashSet};

use numapilot_sys::system_v::remove_segment;
use procfs::{Current, SharedMemorySegments, Shm};

/// The segments of the machine before a run, by number and time of the last change.
#[derive(Debug)]
pub struct SharedMemory(HashSet<(u64, u64)>);

impl SharedMemory {
    /// Reads the segments that exist.
    pub fn before() -> Self {
        Self(segments().iter().map(identity).collect())
    }

    /// Removes what processes with these numbers have left. Returns the segments for people.
    pub fn remove(&self, makers: &BTreeSet<i32>) -> Vec<String> {
        let left = segments().into_iter().filter(|segment| {
            segment.nattch == 0
                && makers.contains(&segment.cpid)
                && !self.0.contains(&identity(segment))
        });
        // A segment of another user's server cannot be removed; the server will do so.
        let is_removed =
            |segment: &Shm| i32::try_from(segment.shmid).is_ok_and(|id| remove_segment(id).is_ok());
        left.filter(is_removed).map(|segment| in_words(&segment)).collect()
    }
}

fn segments() -> Vec<Shm> {
    // Without System V IPC in the kernel there are none.
    SharedMemorySegments::current().map(|segments| segments.0).unwrap_or_default()
}

fn identity(segment: &Shm) -> (u64, u64) {
    (segment.shmid, segment.ctime)
}

fn in_words(segment: &Shm) -> String {
    // Exact: sizes are far below 2^52.
    let mib = segment.size as f64 / f64::from(1 << 20);
    format!("System V shared memory {} ({mib:.1} MiB)", segment.shmid)
}

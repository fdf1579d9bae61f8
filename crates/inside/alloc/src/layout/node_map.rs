//! The nodes that memory is taken from, counted densely.
//!
//! Node IDs may have gaps, nodes may have no memory, and a cpuset may allow only a few of them. The
//! kernel reports which ones this process may use. If it does not (a seccomp filter, no NUMA
//! support), there is one node, placed by first touch.
//!
//! If there are several nodes, each has two regions of memory. The region of its small objects is
//! bound to it, because the same thread allocates and uses them. The region of its large blocks is
//! not: their pages come from the node that first touches them, which is not always the node that
//! allocates them. For example, a thread allocates its buffers when it starts, before the scheduler
//! moves it to another node, and a main thread allocates the array that all others fill.

use numapilot_bind::sysfs;
use numapilot_syscall::file::read_file;
use numapilot_syscall::policy::{NodeMask, ThreadPolicy, allowed_nodes};

use crate::config;
use crate::os::cpus;

/// Most nodes that are distinguished; further nodes share the state of earlier ones.
pub const MAX_NODES: usize = 63;
/// Most regions: two for each node, and one that is interleaved.
pub const MAX_REGIONS: usize = 2 * MAX_NODES + 1;
/// Number of node IDs that Linux supports.
const IDS: usize = 1024;
/// The ID of a node that the kernel did not report.
const UNKNOWN: u16 = u16::MAX;

/// Translates node IDs to dense numbers and back.
pub struct NodeMap {
    count: usize,
    /// Whether ranges are bound to their node.
    placed: bool,
    /// Whether there is an additional region whose pages are interleaved.
    interleaved: bool,
    ids: [u16; MAX_NODES],
    dense: [u8; IDS],
}

impl NodeMap {
    /// The state before the kernel is asked.
    pub const NONE: Self = Self {
        count: 0,
        placed: false,
        interleaved: false,
        ids: [UNKNOWN; MAX_NODES],
        dense: [0; IDS],
    };

    /// Number of nodes, at least 1.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Number of regions: those for small objects, those for large blocks, and possibly one that is
    /// interleaved.
    #[inline]
    pub fn regions(&self) -> usize {
        self.blocks(self.count) + usize::from(self.interleaved)
    }

    /// The region of a node's large blocks.
    #[inline]
    pub fn blocks(&self, node: usize) -> usize {
        if self.placed { self.count + node } else { node }
    }

    /// Whether a region's pages lie on different nodes: where they are first touched, or
    /// interleaved.
    #[inline]
    pub fn is_shared(&self, region: usize) -> bool {
        self.count > 1 && !matches!(self.home(region), Home::Node(_))
    }

    /// The region for large blocks that are interleaved.
    pub fn interleaved(&self) -> Option<usize> {
        self.interleaved.then(|| self.blocks(self.count))
    }

    /// Where the memory of a region should come from.
    pub fn home(&self, region: usize) -> Home {
        if !self.placed {
            Home::Anywhere
        } else if region < self.count {
            Home::Node(u32::from(self.ids[region]))
        } else if self.interleaved() != Some(region) {
            Home::Anywhere
        } else {
            let mut mask = NodeMask::default();
            for &id in &self.ids[..self.count] {
                mask[usize::from(id) / 64] |= 1 << (id % 64);
            }
            Home::All(mask)
        }
    }

    /// ID of the node with a dense number; `None` if the kernel reports none.
    pub fn id(&self, node: usize) -> Option<u32> {
        let id = *self.ids[..self.count].get(node)?;
        (id != UNKNOWN).then_some(u32::from(id))
    }

    /// Dense number of the node that the caller runs on.
    #[inline]
    pub fn current(&self) -> usize {
        if self.count == 1 {
            return 0;
        }
        cpus::current_node()
            .and_then(|id| self.dense.get(id as usize))
            .map_or(0, |&dense| usize::from(dense))
    }
}

/// Where the memory of a region comes from.
pub enum Home {
    /// From the node that first touches it, or as the process's policy says.
    Anywhere,
    /// From one node.
    Node(u32),
    /// From these nodes in turn, page by page.
    All(NodeMask),
}

/// Asks the kernel.
pub fn find() -> NodeMap {
    let mut nodes = NodeMap { count: 1, ..NodeMap::NONE };
    let Ok(mask) = allowed_nodes() else { return nodes };
    let allowed = |id: usize| mask[id / 64] >> (id % 64) & 1 == 1;
    let mut count = 0;
    for id in (0..IDS).filter(|&id| allowed(id)) {
        if count < MAX_NODES {
            nodes.ids[count] = id as u16;
            nodes.dense[id] = count as u8;
            count += 1;
        } else {
            nodes.dense[id] = (id % MAX_NODES) as u8;
        }
    }
    if count > 1 {
        nodes.count = count;
        // A policy of the process is the user's choice, and it applies to our memory as well.
        nodes.placed = ThreadPolicy::current().ok().is_none_or(|policy| policy.is_default());
        nodes.interleaved = nodes.placed && config::get().interleave;
        // The file of each node is a system call, so only nodes that exist are looked at, not all
        // IDs that the kernel has room for.
        let mut online = [0; 256];
        let online = read_file(sysfs::ONLINE, &mut online).unwrap_or_default();
        for id in sysfs::ids(online).map(|id| id as usize).filter(|&id| id < IDS && !allowed(id)) {
            nodes.dense[id] = nearest(id, online, &nodes.ids[..count]);
        }
    }
    nodes
}

/// Dense number of the allowed node that is nearest to one without usable memory.
fn nearest(id: usize, online: &[u8], allowed: &[u16]) -> u8 {
    let (mut path, mut distance) = ([0; 64], [0; 4 * IDS]);
    let distance = sysfs::node_file(id as u32, "distance", &mut path)
        .and_then(|path| read_file(path, &mut distance).ok())
        .unwrap_or_default();
    sysfs::nearest(distance, online, allowed) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_distinguished() {
        let one = NodeMap { count: 1, ..NodeMap::NONE };
        assert_eq!((one.regions(), one.blocks(0), one.interleaved()), (1, 0, None));
        // The user's policy applies to everything.
        let unplaced = NodeMap { count: 3, ..NodeMap::NONE };
        assert_eq!((unplaced.regions(), unplaced.blocks(2)), (3, 2));
        assert!((0..3).all(|region| matches!(unplaced.home(region), Home::Anywhere)));
        assert!(!one.is_shared(0) && unplaced.is_shared(2));
        let mut ids = [UNKNOWN; MAX_NODES];
        ids[..3].copy_from_slice(&[0, 4, 9]);
        let spread = NodeMap { count: 3, placed: true, interleaved: true, ids, ..NodeMap::NONE };
        assert_eq!((spread.regions(), spread.blocks(1), spread.interleaved()), (7, 4, Some(6)));
        assert_eq!([2, 3, 5, 6].map(|region| spread.is_shared(region)), [false, true, true, true]);
        assert!(matches!(spread.home(1), Home::Node(4)));
        assert!(matches!(spread.home(4), Home::Anywhere));
        assert!(matches!(spread.home(6), Home::All(mask) if mask[0] == 1 | 1 << 4 | 1 << 9));
    }

    #[test]
    fn there_is_a_node_and_we_run_on_one() {
        let nodes = find();
        assert!(nodes.count() >= 1);
        assert!(nodes.current() < nodes.count());
    }
}

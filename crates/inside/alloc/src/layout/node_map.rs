//! The nodes that memory is taken from, counted densely.
//!
//! Node ids may have holes, nodes may have no memory, a cpuset may allow few: the kernel
//! says which ones this process may use. Where it says nothing (a seccomp filter, no NUMA
//! support) there is one node, placed by first touch.
//!
//! Where there are several, a node has two regions of memory. That of its small objects is
//! bound to it: they are asked for and used by the same thread. That of its large blocks is
//! not: their pages come from where they are first touched, which is not always where they were
//! asked for. A thread asks for its buffers when it starts, before the scheduler takes it to
//! another node; a main thread asks for the array that all others fill.

use numapilot_bind::sysfs;

use crate::config;
use crate::os::cpus;
use crate::os::kernel::{self, NodeMask};

/// Most nodes that are told apart; those beyond share the state of earlier ones.
pub const MAX_NODES: usize = 63;
/// Most regions: two for each node, and one that is interleaved.
pub const MAX_REGIONS: usize = 2 * MAX_NODES + 1;
/// Node ids that Linux can have.
const IDS: usize = 1024;
/// The id of a node that the kernel did not name.
const UNKNOWN: u16 = u16::MAX;

/// Dense numbers of node ids and back.
pub struct NodeMap {
    count: usize,
    /// Whether ranges are bound to their node.
    placed: bool,
    /// Whether there is a region beside the nodes' whose pages are interleaved.
    interleaved: bool,
    ids: [u16; MAX_NODES],
    dense: [u8; IDS],
}

impl NodeMap {
    /// Before anything is known.
    pub const NONE: Self = Self {
        count: 0,
        placed: false,
        interleaved: false,
        ids: [UNKNOWN; MAX_NODES],
        dense: [0; IDS],
    };

    /// How many there are, at least 1.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many regions there are: those for small objects, those for large blocks, and perhaps
    /// one that is interleaved.
    #[inline]
    pub fn regions(&self) -> usize {
        self.blocks(self.count) + usize::from(self.interleaved)
    }

    /// The region of a node's large blocks.
    #[inline]
    pub fn blocks(&self, node: usize) -> usize {
        if self.placed { self.count + node } else { node }
    }

    /// Whether a region's pages lie on different nodes: where they are first touched, or in turns.
    #[inline]
    pub fn is_shared(&self, region: usize) -> bool {
        self.count > 1 && !matches!(self.home(region), Home::Node(_))
    }

    /// The region for large blocks that are to be spread.
    pub fn interleaved(&self) -> Option<usize> {
        self.interleaved.then(|| self.blocks(self.count))
    }

    /// Where the memory of a region is asked from.
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

    /// Id of a dense number's node; `None` when the kernel names none.
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
    /// Where it is first touched, or where the process's policy says.
    Anywhere,
    /// One node.
    Node(u32),
    /// These nodes in turns, page by page.
    All(NodeMask),
}

/// Asks the kernel.
pub fn find() -> NodeMap {
    let mut nodes = NodeMap { count: 1, ..NodeMap::NONE };
    let Ok(mask) = kernel::allowed_nodes() else { return nodes };
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
        // A policy of the process is its user's wish, and it reaches our memory as well.
        nodes.placed = !kernel::has_policy();
        nodes.interleaved = nodes.placed && config::get().interleave;
        for id in (0..IDS).filter(|&id| !allowed(id)) {
            nodes.dense[id] = nearest(id, &nodes.ids[..count]);
        }
    }
    nodes
}

/// Dense number of the allowed node that is nearest to one without usable memory.
fn nearest(id: usize, allowed: &[u16]) -> u8 {
    let (mut path, mut distance, mut online) = ([0; 64], [0; 4 * IDS], [0; 256]);
    let distance = sysfs::node_file(id as u32, "distance", &mut path)
        .and_then(|path| kernel::read_file(path, &mut distance).ok())
        .unwrap_or_default();
    let online = kernel::read_file(sysfs::ONLINE, &mut online).unwrap_or_default();
    sysfs::nearest(distance, online, allowed) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_told_apart() {
        let one = NodeMap { count: 1, ..NodeMap::NONE };
        assert_eq!((one.regions(), one.blocks(0), one.interleaved()), (1, 0, None));
        // The user's policy holds for everything.
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

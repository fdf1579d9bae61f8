//! The nodes that memory is taken from, counted densely.
//!
//! Node ids may have holes, nodes may have no memory, a cpuset may allow few: the kernel
//! says which ones this process may use. Where it says nothing (a seccomp filter, no NUMA
//! support) there is one node, placed by first touch.

use crate::kernel::{self, NodeMask};
use crate::{config, cpus};

/// Most nodes that are told apart; those beyond share the state of earlier ones.
pub const MAX_NODES: usize = 63;
/// Most regions: one for each node, and one that is interleaved.
pub const MAX_REGIONS: usize = MAX_NODES + 1;
/// Node ids that Linux can have.
const IDS: usize = 1024;
/// The id of a node that the kernel did not name.
const UNKNOWN: u16 = u16::MAX;

/// Dense numbers of node ids and back.
pub struct Nodes {
    count: usize,
    /// Whether ranges are bound to their node.
    placed: bool,
    /// Whether there is a region beside the nodes' whose pages are interleaved.
    interleaved: bool,
    ids: [u16; MAX_NODES],
    dense: [u8; IDS],
}

impl Nodes {
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

    /// How many regions there are: one for each node, and perhaps one that is interleaved.
    #[inline]
    pub fn regions(&self) -> usize {
        self.count + usize::from(self.interleaved)
    }

    /// The region for large blocks that are to be spread.
    pub fn interleaved(&self) -> Option<usize> {
        self.interleaved.then_some(self.count)
    }

    /// Where the memory of a region is asked from.
    pub fn home(&self, region: usize) -> Home {
        if !self.placed {
            Home::Anywhere
        } else if region < self.count {
            Home::Node(u32::from(self.ids[region]))
        } else {
            let mut mask = NodeMask::default();
            for &id in &self.ids[..self.count] {
                mask[usize::from(id) / 64] |= 1 << (id % 64);
            }
            Home::All(mask)
        }
    }

    /// Id of a dense number's node; `None` when the kernel names none, and of the region
    /// that is interleaved.
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
pub fn find() -> Nodes {
    let mut nodes = Nodes { count: 1, ..Nodes::NONE };
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
    let mut path = *b"/sys/devices/system/node/node\0\0\0\0\0/distance\0";
    let mut buffer = [0; 4 * IDS];
    let distances = node_path(id, &mut path)
        .and_then(|path| kernel::read_file(path, &mut buffer).ok())
        .unwrap_or_default();
    let mut best = (u32::MAX, 0);
    // The file lists the distances to online nodes in the order of their ids; allowed nodes
    // are online, but so may others be: a distance by position needs the list of them.
    let mut online = [0; 256];
    let online =
        kernel::read_file(c"/sys/devices/system/node/online", &mut online).unwrap_or_default();
    let mut values = distances.split(|byte| byte.is_ascii_whitespace()).filter_map(number);
    for other in ids(online) {
        let Some(distance) = values.next() else { break };
        if let Some(dense) = allowed.iter().position(|&id| u32::from(id) == other)
            && distance < best.0
        {
            best = (distance, dense as u8);
        }
    }
    best.1
}

/// The path of a node's distances, written into its template.
fn node_path(id: usize, template: &mut [u8]) -> Option<&core::ffi::CStr> {
    const PREFIX: usize = b"/sys/devices/system/node/node".len();
    const SUFFIX: &[u8] = b"/distance\0";
    let mut digits = [0; 4];
    let mut length = 0;
    let mut rest = id;
    while rest > 0 || length == 0 {
        *digits.get_mut(length)? = b'0' + (rest % 10) as u8;
        rest /= 10;
        length += 1;
    }
    for (to, &digit) in template.get_mut(PREFIX..)?.iter_mut().zip(digits[..length].iter().rev()) {
        *to = digit;
    }
    let end = PREFIX + length;
    template.get_mut(end..end + SUFFIX.len())?.copy_from_slice(SUFFIX);
    core::ffi::CStr::from_bytes_until_nul(template).ok()
}

/// Ids of a list such as `0-2,4`.
fn ids(list: &[u8]) -> impl Iterator<Item = u32> {
    list.split(|&byte| byte == b',' || byte == b'\n').filter_map(range).flatten()
}

fn range(part: &[u8]) -> Option<core::ops::RangeInclusive<u32>> {
    match part.iter().position(|&byte| byte == b'-') {
        Some(dash) => Some(number(&part[..dash])?..=number(&part[dash + 1..])?.min(IDS as u32)),
        None => number(part).map(|id| id..=id),
    }
}

fn number(text: &[u8]) -> Option<u32> {
    core::str::from_utf8(text).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        assert!(ids(b"0-2,4\n").eq([0, 1, 2, 4]));
        assert!(ids(b"7").eq([7]));
        assert_eq!(ids(b"").count(), 0);
    }

    #[test]
    fn paths_are_written() {
        for (id, path) in [
            (0, c"/sys/devices/system/node/node0/distance"),
            (307, c"/sys/devices/system/node/node307/distance"),
        ] {
            let mut template = *b"/sys/devices/system/node/node\0\0\0\0\0/distance\0";
            assert_eq!(node_path(id, &mut template), Some(path));
        }
    }

    #[test]
    fn there_is_a_node_and_we_run_on_one() {
        let nodes = find();
        assert!(nodes.count() >= 1);
        assert!(nodes.current() < nodes.count());
    }
}

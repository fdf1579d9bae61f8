//! Sets of nodes, and memory policies of ranges and of the calling thread.
//!
//! Source: Documentation/admin-guide/mm/numa_memory_policy.rst, mbind(2), set_mempolicy(2).

use core::ptr::null;

use crate::{Refused, call};

/// Node numbers below 1024, one bit each, which is the largest number that Linux supports.
pub type NodeMask = [u64; 16];
/// Number of bits of a [`NodeMask`], counted as the kernel expects: it leaves out the last one
/// (mm/mempolicy.c, get_nodes).
const NODE_BITS: usize = 1024 + 1;

/// Moves pages that are there already (MPOL_MF_MOVE).
const MOVE: usize = 2;

/// How the kernel chooses the node of a new page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As for the rest of the process (MPOL_DEFAULT). Its set of nodes is empty.
    Default = 0,
    /// From the node of the set as long as it has memory (MPOL_PREFERRED).
    Preferred = 1,
    /// From each node of the set in turn (MPOL_INTERLEAVE).
    Interleave = 3,
}

/// The set of one node. It is empty if Linux has no such node.
#[must_use]
pub fn only(node: u32) -> NodeMask {
    let mut mask = NodeMask::default();
    if let Some(word) = mask.get_mut(node as usize / 64) {
        *word = 1 << (node % 64);
    }
    mask
}

/// A set as the kernel takes it: an empty one has neither words nor bits.
fn raw(mask: &NodeMask) -> [usize; 2] {
    match mask.iter().all(|word| *word == 0) {
        true => [null::<u64>() as usize, 0],
        false => [mask.as_ptr() as usize, NODE_BITS],
    }
}

/// Sets the policy of a range of whole pages. With `moved`, pages that are there already move as
/// well.
///
/// # Errors
/// The kernel refuses: the range is not mapped, no node of the set is allowed, or a filter forbids
/// the call.
pub fn set_of_range(
    start: usize,
    bytes: usize,
    mode: Mode,
    nodes: &NodeMask,
    moved: bool,
) -> Result<(), Refused> {
    let [nodes, bits] = raw(nodes);
    let flags = if moved { MOVE } else { 0 };
    // SAFETY: the set has the named number of bits; a policy changes no contents.
    unsafe { call(libc::SYS_mbind, [start, bytes, mode as usize, nodes, bits, flags]) }.map(drop)
}

/// Nodes that this process may use (MPOL_F_MEMS_ALLOWED): those with memory within its cpuset.
///
/// # Errors
/// The kernel has no NUMA support, or a filter forbids the call.
pub fn allowed_nodes() -> Result<NodeMask, Refused> {
    const MEMS_ALLOWED: usize = 4;
    let mut mask = NodeMask::default();
    let arguments = [0, mask.as_mut_ptr() as usize, NODE_BITS, 0, MEMS_ALLOWED, 0];
    // SAFETY: the mask has the named number of bits and outlives the call.
    unsafe { call(libc::SYS_get_mempolicy, arguments) }.map(|_| mask)
}

/// The memory policy of the calling thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadPolicy {
    mode: i32,
    nodes: NodeMask,
}

impl ThreadPolicy {
    /// The policy that is in force.
    ///
    /// # Errors
    /// The kernel has no NUMA support, or a filter forbids the call.
    pub fn current() -> Result<Self, Refused> {
        let mut policy = Self { mode: 0, nodes: NodeMask::default() };
        let (mode, nodes) = (&raw mut policy.mode as usize, policy.nodes.as_mut_ptr() as usize);
        // SAFETY: one int and a set with the named number of bits, which outlive the call.
        unsafe { call(libc::SYS_get_mempolicy, [mode, nodes, NODE_BITS, 0, 0, 0]) }?;
        Ok(policy)
    }

    /// Prefers a node.
    #[must_use]
    pub fn preferred(node: u32) -> Self {
        Self { mode: Mode::Preferred as i32, nodes: only(node) }
    }

    /// Whether it is the one that a thread has unless somebody sets another.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.mode == Mode::Default as i32
    }

    /// Makes it the policy of the calling thread.
    ///
    /// # Errors
    /// No node of the set is allowed, or a filter forbids the call.
    pub fn set(&self) -> Result<(), Refused> {
        let [nodes, bits] = raw(&self.nodes);
        // SAFETY: no set, or one with the named number of bits.
        unsafe { call(libc::SYS_set_mempolicy, [self.mode as usize, nodes, bits, 0, 0, 0]) }
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_one_node_has_one_bit() {
        assert_eq!(only(0)[0], 1);
        assert_eq!(only(65)[1], 2);
        assert_eq!(only(5000), NodeMask::default());
    }

    #[test]
    fn a_thread_gets_the_policy_that_it_sets() {
        let Ok(before) = ThreadPolicy::current() else {
            extern crate std;
            std::println!("skipped: this kernel refuses get_mempolicy(2)");
            return;
        };
        let nodes = allowed_nodes().unwrap();
        let word = nodes.iter().position(|word| *word != 0).unwrap();
        let node = word as u32 * 64 + nodes[word].trailing_zeros();
        let wanted = ThreadPolicy::preferred(node);
        wanted.set().unwrap();
        assert_eq!(ThreadPolicy::current(), Ok(wanted));
        assert!(!wanted.is_default());
        before.set().unwrap();
        assert_eq!(ThreadPolicy::current(), Ok(before));
    }

    #[test]
    fn a_range_that_is_not_mapped_is_refused() {
        if ThreadPolicy::current().is_err() {
            extern crate std;
            std::println!("skipped: this kernel refuses get_mempolicy(2)");
            return;
        }
        let nodes = allowed_nodes().unwrap();
        let refused = set_of_range(0, 4096, Mode::Interleave, &nodes, false);
        assert_eq!(refused, Err(Refused(libc::EFAULT)));
    }
}

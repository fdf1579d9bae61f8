//! The CPU to which each thread is pinned.
//!
//! Each thread is pinned to one CPU in sparse order: one CPU of each node in turn. The kernels show
//! where the memory of threads that do not move should be. Only one kernel lets its threads move.

use std::path::Path;

use numapilot_place::ThreadPlacement;
use numapilot_place::threads::order;
use numapilot_topology::{CpuId, CpuSet, Machine, NodeId, NodeSet, read};

use super::KernelError;

/// A thread's CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuSlot {
    /// The CPU.
    pub cpu: CpuId,
    /// Position of its node among all nodes of the machine.
    pub node: usize,
}

/// The threads and the nodes on which they work. Nodes are positions among all nodes of the
/// machine.
#[derive(Clone, Debug)]
pub struct PinnedThreads {
    ids: Vec<NodeId>,
    slots: Vec<CpuSlot>,
    /// Nodes that have a thread, in ascending order.
    thread_nodes: Vec<usize>,
    /// Nodes with CPUs and memory that the process may use.
    memory: Vec<usize>,
}

impl PinnedThreads {
    /// Pins `threads` threads on this machine, as far as the process may use it.
    ///
    /// # Errors
    /// [`KernelError::Machine`] and [`KernelError::NoCpu`].
    pub fn here(threads: usize) -> Result<Self, KernelError> {
        Self::on(&read(Path::new("/"))?, threads)
    }

    /// Pins `threads` threads on a machine.
    ///
    /// # Errors
    /// [`KernelError::NoCpu`].
    pub fn on(machine: &Machine, threads: usize) -> Result<Self, KernelError> {
        let allowed = machine.allowed.nodes.intersection(&machine.memory_nodes());
        let with_memory = if machine.nodes.len() == 1 { machine.node_ids() } else { allowed };
        let cpus = machine.cpus_of(&with_memory).intersection(&machine.allowed.cpus);
        let cpus = order(machine, &cpus, ThreadPlacement::Sparse);
        let slot = |cpu: CpuId| {
            let node = machine.nodes.iter().position(|node| node.cpus.contains(cpu))?;
            Some(CpuSlot { cpu, node })
        };
        let places: Vec<CpuSlot> = cpus.into_iter().filter_map(slot).collect();
        if places.is_empty() {
            return Err(KernelError::NoCpu);
        }
        let nodes = |slots: &[CpuSlot]| {
            let mut nodes: Vec<usize> = slots.iter().map(|slot| slot.node).collect();
            nodes.sort_unstable();
            nodes.dedup();
            nodes
        };
        let slots: Vec<CpuSlot> = places.iter().copied().cycle().take(threads).collect();
        Ok(Self {
            ids: machine.nodes.iter().map(|node| node.id).collect(),
            thread_nodes: nodes(&slots),
            memory: nodes(&places),
            slots,
        })
    }

    /// Number of threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.slots.len()
    }

    /// Number of CPUs to which they are pinned.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.slots.iter().map(|slot| slot.cpu).collect::<CpuSet>().len()
    }

    /// The CPU of a thread.
    #[must_use]
    pub fn slot(&self, thread: usize) -> CpuSlot {
        self.slots[thread % self.slots.len()]
    }

    /// The CPU of a thread after all threads have moved by this many nodes.
    #[must_use]
    pub fn rotated(&self, thread: usize, by: usize) -> CpuSlot {
        let here = self.slot(thread);
        let at = self.thread_nodes.iter().position(|node| *node == here.node).unwrap_or(0);
        let to = self.thread_nodes[(at + by) % self.thread_nodes.len()];
        let on = |node: usize| self.slots.iter().filter(move |slot| slot.node == node);
        let before = &self.slots[..thread % self.slots.len()];
        let rank = before.iter().filter(|slot| slot.node == here.node).count();
        on(to).nth(rank % on(to).count().max(1)).copied().unwrap_or(here)
    }

    /// Number of nodes of the machine.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.ids.len()
    }

    /// Nodes that have a thread, in ascending order.
    #[must_use]
    pub fn thread_nodes(&self) -> &[usize] {
        &self.thread_nodes
    }

    /// Nodes with CPUs and memory that the process may use.
    #[must_use]
    pub fn memory(&self) -> &[usize] {
        &self.memory
    }

    /// The same by the kernel's ids.
    #[must_use]
    pub fn memory_ids(&self) -> NodeSet {
        self.memory.iter().map(|node| self.ids[*node]).collect()
    }

    /// Whether the thread is the first on its node.
    #[must_use]
    pub fn leads(&self, thread: usize) -> bool {
        self.slots.iter().position(|slot| slot.node == self.slot(thread).node) == Some(thread)
    }

    /// The kernel's id of a node.
    #[must_use]
    pub fn id(&self, node: usize) -> NodeId {
        self.ids[node]
    }

    /// The position of the node with this id.
    #[must_use]
    pub fn position(&self, id: NodeId) -> Option<usize> {
        self.ids.iter().position(|other| *other == id)
    }
}

impl CpuSlot {
    /// Pins the calling thread to this CPU. If the kernel or a sandbox refuses, the thread stays
    /// where it is.
    ///
    /// # Errors
    /// [`KernelError::Placement`].
    pub fn pin(self) -> Result<(), KernelError> {
        let cpus: CpuSet = [self.cpu].into_iter().collect();
        numapilot_sys::affinity::set(0, cpus.as_words()).map_err(|cause| KernelError::Placement {
            what: "pinning a thread",
            cause,
            remedy: "allow sched_setaffinity, or lower --threads",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_spread_over_the_nodes_and_go_on_together() {
        let pinned = PinnedThreads::on(&Machine::uniform(4, 2), 8).unwrap();
        let nodes: Vec<usize> = (0..8).map(|t| pinned.slot(t).node).collect();
        assert_eq!(nodes, [0, 1, 2, 3, 0, 1, 2, 3]);
        for by in 0..5 {
            let mut cpus: Vec<u32> = (0..8).map(|t| pinned.rotated(t, by).cpu.0).collect();
            let moved = (0..8).all(|t| pinned.rotated(t, by).node == (t + by) % 4);
            assert!(moved, "{by}");
            cpus.sort_unstable();
            assert_eq!(cpus, (0..8).collect::<Vec<u32>>(), "two threads on one CPU");
        }
        assert!(pinned.leads(3) && !pinned.leads(4));
        assert_eq!(pinned.cpus(), 8);
    }

    #[test]
    fn few_threads_leave_nodes_without_but_their_memory_counts() {
        let pinned = PinnedThreads::on(&Machine::uniform(4, 2), 2).unwrap();
        assert_eq!((pinned.thread_nodes(), pinned.memory()), (&[0, 1][..], &[0, 1, 2, 3][..]));
        assert_eq!(pinned.rotated(1, 1).node, 0);
    }

    #[test]
    fn only_what_may_be_used_is_used() {
        let mut machine = Machine::uniform(3, 1);
        machine.allowed.nodes = [NodeId(2)].into_iter().collect();
        let pinned = PinnedThreads::on(&machine, 2).unwrap();
        assert_eq!((pinned.slot(0).node, pinned.slot(1).node, pinned.cpus()), (2, 2, 1));
        machine.allowed.cpus = [CpuId(0)].into_iter().collect();
        assert!(PinnedThreads::on(&machine, 1).is_err());
    }
}

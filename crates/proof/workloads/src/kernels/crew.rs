//! Which thread sits on which CPU.
//!
//! Threads are pinned, each to one CPU, sparse: one CPU of each node in turn. The kernels
//! show where memory should be for threads that stay, and only one of them lets them move.

use std::path::Path;

use numapilot_place::ThreadPlacement;
use numapilot_place::threads::order;
use numapilot_topology::{CpuId, CpuSet, Machine, NodeId, NodeSet, read};

use super::KernelError;

/// A thread's CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The CPU.
    pub cpu: CpuId,
    /// Position of its node among all of the machine.
    pub node: usize,
}

/// The threads and the nodes they work on. Nodes are positions among all of the machine.
#[derive(Clone, Debug)]
pub struct Crew {
    ids: Vec<NodeId>,
    seats: Vec<Seat>,
    /// Nodes that have a thread, in ascending order.
    manned: Vec<usize>,
    /// Nodes with CPUs and memory that may be used.
    memory: Vec<usize>,
}

impl Crew {
    /// So many threads on this machine, as far as the process may use it.
    ///
    /// # Errors
    /// [`KernelError::Machine`] and [`KernelError::NoSeat`].
    pub fn here(threads: usize) -> Result<Self, KernelError> {
        Self::on(&read(Path::new("/"))?, threads)
    }

    /// So many threads on a machine.
    ///
    /// # Errors
    /// [`KernelError::NoSeat`].
    pub fn on(machine: &Machine, threads: usize) -> Result<Self, KernelError> {
        let allowed = machine.allowed.nodes.intersection(&machine.memory_nodes());
        let with_memory = if machine.nodes.len() == 1 { machine.node_ids() } else { allowed };
        let cpus = machine.cpus_of(&with_memory).intersection(&machine.allowed.cpus);
        let cpus = order(machine, &cpus, ThreadPlacement::Sparse);
        let seat = |cpu: CpuId| {
            let node = machine.nodes.iter().position(|node| node.cpus.contains(cpu))?;
            Some(Seat { cpu, node })
        };
        let places: Vec<Seat> = cpus.into_iter().filter_map(seat).collect();
        if places.is_empty() {
            return Err(KernelError::NoSeat);
        }
        let nodes = |seats: &[Seat]| {
            let mut nodes: Vec<usize> = seats.iter().map(|seat| seat.node).collect();
            nodes.sort_unstable();
            nodes.dedup();
            nodes
        };
        let seats: Vec<Seat> = places.iter().copied().cycle().take(threads).collect();
        Ok(Self {
            ids: machine.nodes.iter().map(|node| node.id).collect(),
            manned: nodes(&seats),
            memory: nodes(&places),
            seats,
        })
    }

    /// Number of threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.seats.len()
    }

    /// Number of CPUs that they sit on.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.seats.iter().map(|seat| seat.cpu).collect::<CpuSet>().len()
    }

    /// Where a thread sits.
    #[must_use]
    pub fn seat(&self, thread: usize) -> Seat {
        self.seats[thread % self.seats.len()]
    }

    /// Where a thread sits after all have gone on by so many nodes.
    #[must_use]
    pub fn rotated(&self, thread: usize, by: usize) -> Seat {
        let here = self.seat(thread);
        let at = self.manned.iter().position(|node| *node == here.node).unwrap_or(0);
        let to = self.manned[(at + by) % self.manned.len()];
        let on = |node: usize| self.seats.iter().filter(move |seat| seat.node == node);
        let before = &self.seats[..thread % self.seats.len()];
        let rank = before.iter().filter(|seat| seat.node == here.node).count();
        on(to).nth(rank % on(to).count().max(1)).copied().unwrap_or(here)
    }

    /// Number of nodes of the machine.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.ids.len()
    }

    /// Nodes that have a thread, in ascending order.
    #[must_use]
    pub fn manned(&self) -> &[usize] {
        &self.manned
    }

    /// Nodes with CPUs and memory that may be used.
    #[must_use]
    pub fn memory(&self) -> &[usize] {
        &self.memory
    }

    /// The same, as the kernel knows them.
    #[must_use]
    pub fn memory_ids(&self) -> NodeSet {
        self.memory.iter().map(|node| self.ids[*node]).collect()
    }

    /// Whether the thread is the first of its node.
    #[must_use]
    pub fn leads(&self, thread: usize) -> bool {
        self.seats.iter().position(|seat| seat.node == self.seat(thread).node) == Some(thread)
    }

    /// The kernel's id of a node.
    #[must_use]
    pub fn id(&self, node: usize) -> NodeId {
        self.ids[node]
    }

    /// The node of this id.
    #[must_use]
    pub fn position(&self, id: NodeId) -> Option<usize> {
        self.ids.iter().position(|other| *other == id)
    }
}

impl Seat {
    /// Moves the calling thread here. A kernel or sandbox that refuses leaves it where it
    /// is.
    ///
    /// # Errors
    /// [`KernelError::Placement`].
    pub fn take(self) -> Result<(), KernelError> {
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
        let crew = Crew::on(&Machine::uniform(4, 2), 8).unwrap();
        let nodes: Vec<usize> = (0..8).map(|t| crew.seat(t).node).collect();
        assert_eq!(nodes, [0, 1, 2, 3, 0, 1, 2, 3]);
        for by in 0..5 {
            let mut cpus: Vec<u32> = (0..8).map(|t| crew.rotated(t, by).cpu.0).collect();
            let moved = (0..8).all(|t| crew.rotated(t, by).node == (t + by) % 4);
            assert!(moved, "{by}");
            cpus.sort_unstable();
            assert_eq!(cpus, (0..8).collect::<Vec<u32>>(), "two threads on one CPU");
        }
        assert!(crew.leads(3) && !crew.leads(4));
        assert_eq!(crew.cpus(), 8);
    }

    #[test]
    fn few_threads_leave_nodes_without_but_their_memory_counts() {
        let crew = Crew::on(&Machine::uniform(4, 2), 2).unwrap();
        assert_eq!((crew.manned(), crew.memory()), (&[0, 1][..], &[0, 1, 2, 3][..]));
        assert_eq!(crew.rotated(1, 1).node, 0);
    }

    #[test]
    fn only_what_may_be_used_is_used() {
        let mut machine = Machine::uniform(3, 1);
        machine.allowed.nodes = [NodeId(2)].into_iter().collect();
        let crew = Crew::on(&machine, 2).unwrap();
        assert_eq!((crew.seat(0).node, crew.seat(1).node, crew.cpus()), (2, 2, 1));
        machine.allowed.cpus = [CpuId(0)].into_iter().collect();
        assert!(Crew::on(&machine, 1).is_err());
    }
}

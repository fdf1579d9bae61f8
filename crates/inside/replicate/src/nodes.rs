//! The nodes that get a copy, and the nearest copy for each CPU.
//!
//! Node ids may have holes, nodes may have no memory or be offline, and a cpuset may forbid some.
//! The kernel reports which nodes this process may use. CPUs of other nodes read the nearest copy.
//! The table is made once, with the first copies. Threads may later run on CPUs of any node, but a
//! node that becomes allowed later gets no copy.
//! but a node that is allowed later gets no copy.

use core::ptr::null_mut;
use core::sync::atomic::{
    AtomicPtr,
    Ordering::{AcqRel, Acquire},
};

use numapilot_bind::cpus::MAX_CPUS;
use numapilot_bind::sysfs;
use numapilot_syscall::file::read_file;
use numapilot_syscall::policy::{NodeMask, allowed_nodes};

use crate::here::{self, Way};
use crate::kernel;

/// Most copies. CPUs of further nodes read copies of other nodes.
pub const MAX_COPIES: usize = 64;
/// Node ids that Linux can have.
const IDS: usize = 1024;

/// The table of nodes and CPUs.
#[derive(Debug)]
pub struct Nodes {
    count: usize,
    way: Way,
    ids: [u16; MAX_COPIES],
    by_node: [u8; IDS],
    by_cpu: [u8; MAX_CPUS],
}

static FOUND: AtomicPtr<Nodes> = AtomicPtr::new(null_mut());

impl Nodes {
    /// The table of this process.
    pub fn get() -> Result<&'static Self, i32> {
        let mut found = FOUND.load(Acquire);
        if found.is_null() {
            let new = kernel::map(size_of::<Self>())?;
            let nodes = new.cast::<Self>().as_ptr();
            // SAFETY: new memory of that size, page aligned. Zeroes are a valid table except for
            // the way, which is written first.
            unsafe {
                (&raw mut (*nodes).way).write(Way::find());
                (*nodes).fill();
            }
            match FOUND.compare_exchange(null_mut(), nodes, AcqRel, Acquire) {
                Ok(_) => found = nodes,
                Err(theirs) => {
                    // SAFETY: another thread stored its table first, and nothing has seen this one.
                    unsafe { kernel::unmap(new, size_of::<Self>()) };
                    found = theirs;
                }
            }
        }
        // SAFETY: complete before it was stored there, and never unmapped or changed.
        Ok(unsafe { &*found })
    }

    fn fill(&mut self) {
        // Without NUMA support, or behind a filter: one node without a placement.
        let mask = allowed_nodes().unwrap_or_default();
        let has = |mask: &NodeMask, id: usize| mask[id / 64] >> (id % 64) & 1 == 1;
        self.count = 0;
        for id in (0..IDS).filter(|id| has(&mask, *id)).take(MAX_COPIES) {
            self.ids[self.count] = id as u16;
            self.by_node[id] = self.count as u8;
            self.count += 1;
        }
        self.count = self.count.max(1);
        if self.count == 1 {
            return;
        }
        let mut online = [0; 256];
        let online = read_file(sysfs::ONLINE, &mut online).unwrap_or_default();
        for node in sysfs::ids(online).filter(|node| (*node as usize) < IDS) {
            let ids = &self.ids[..self.count];
            let mut path = [0; 64];
            if !ids.contains(&(node as u16)) {
                let mut distance = [0; 4 * IDS];
                let distance = sysfs::node_file(node, "distance", &mut path)
                    .and_then(|path| read_file(path, &mut distance).ok())
                    .unwrap_or_default();
                self.by_node[node as usize] = sysfs::nearest(distance, online, ids) as u8;
            }
            let mut cpus = [0; 4096];
            let cpus = sysfs::node_file(node, "cpulist", &mut path)
                .and_then(|path| read_file(path, &mut cpus).ok())
                .unwrap_or_default();
            for cpu in sysfs::ids(cpus) {
                if let Some(entry) = self.by_cpu.get_mut(cpu as usize) {
                    *entry = self.by_node[node as usize];
                }
            }
        }
    }

    /// The number of copies, at least 1.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The node of a copy.
    pub fn id(&self, copy: usize) -> u32 {
        u32::from(self.ids[copy])
    }

    /// The copy nearest to the calling thread.
    #[inline]
    pub fn current(&self) -> usize {
        match self.way {
            Way::Node(distance) => {
                // SAFETY: `Way::find` established that every thread has this word.
                let node = unsafe { here::own_word(distance) };
                usize::from(self.by_node[node as usize % IDS])
            }
            Way::Cpu(distance) => {
                // SAFETY: as above.
                self.by_cpu(Some(unsafe { here::own_word(distance) }))
            }
            Way::Call => self.by_cpu(here::cpu_by_call()),
        }
    }

    /// The first copy if the CPU is unknown: every copy is correct, and one is near.
    fn by_cpu(&self, cpu: Option<u32>) -> usize {
        let copy = cpu.and_then(|cpu| self.by_cpu.get(cpu as usize));
        copy.map_or(0, |copy| usize::from(*copy))
    }

    /// How a thread's node is found.
    pub fn way(&self) -> Way {
        self.way
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_node_and_we_are_on_one() {
        let nodes = Nodes::get().unwrap();
        assert!(nodes.count() >= 1);
        assert!(nodes.current() < nodes.count());
        assert!(std::ptr::eq(nodes, Nodes::get().unwrap()));
    }

    #[test]
    fn every_way_leads_to_the_same_node() {
        if let Way::Node(distance) = Way::find() {
            let (_, node) = numapilot_syscall::caller::cpu_and_node().unwrap();
            // SAFETY: `Way::find` says so. On one node the thread cannot have moved on.
            let found = unsafe { here::own_word(distance) };
            if Nodes::get().unwrap().count() == 1 {
                assert_eq!(found, node);
            }
            let distance = distance - 16;
            // SAFETY: the CPU is in the same structure.
            let cpu = unsafe { here::own_word(distance) };
            assert!((cpu as usize) < MAX_CPUS, "{cpu}");
        } else {
            println!("skipped: this kernel or C library keeps no node_id (Linux 6.3, glibc 2.35)");
        }
        assert!((here::cpu_by_call().unwrap() as usize) < MAX_CPUS);
    }
}

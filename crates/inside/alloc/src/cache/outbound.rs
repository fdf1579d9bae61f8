//! Objects of other nodes, which a thread collects and sends home a magazine at a time.

use core::ptr::null_mut;
use core::sync::atomic::Ordering;

use crate::cache::hand_over;
use crate::cache::thread_cache::ThreadCache;
use crate::central::magazine::Magazine;
use crate::central::node_state::NodeState;
use crate::config;
use crate::layout::address_space::AddressSpace;
use crate::layout::class_map::Owner;
use crate::layout::size_class;
use crate::slab::give_back;

impl ThreadCache {
    /// Collects an object of another node, to be sent home.
    pub fn collect(&self, space: &AddressSpace, home: usize, class: usize, object: *mut u8) {
        if config::get().is_hardened() {
            return give_back::return_objects(space, home, &[object]);
        }
        if !config::get().origin {
            return self.put(space, class, object);
        }
        let outbound = &self.outbound[home];
        let top = match outbound.load(Ordering::Relaxed) {
            top if !top.is_null() => top,
            _ => match NodeState::of(space, self.node()).empty_magazine(space, self.shard) {
                Some(magazine) => Magazine::word(magazine, 1),
                None => return give_back::return_objects(space, home, &[object]),
            },
        };
        // SAFETY: a collecting magazine is sent as soon as it is full.
        unsafe { Magazine::put(top, object) };
        let top = top.wrapping_add(1);
        let magazine = Magazine::of(top);
        let objects = Magazine::objects(magazine, top);
        // As many as a magazine of this class alone would hold: few, if they are large.
        if objects >= size_class::TABLE[class].magazine as usize {
            outbound.store(null_mut(), Ordering::Relaxed);
            // SAFETY: nothing refers to it.
            unsafe {
                let home = NodeState::of(space, home);
                hand_over::send_home(space, home, Owner::NONE, magazine, objects);
            }
        } else {
            outbound.store(top, Ordering::Relaxed);
        }
    }

    /// Sends all collected objects of other nodes home.
    pub fn send_home(&self, space: &AddressSpace) {
        for node in 0..space.nodes().count() {
            let top = self.outbound[node].load(Ordering::Relaxed);
            self.outbound[node].store(null_mut(), Ordering::Relaxed);
            if let Some((magazine, objects)) = Magazine::collected(top) {
                // SAFETY: nothing refers to the magazine.
                unsafe {
                    let node = NodeState::of(space, node);
                    hand_over::send_home(space, node, Owner::NONE, magazine, objects);
                }
            }
        }
    }

    /// Visits the objects that the cache has collected for another node. As [`Self::ready`].
    pub fn outgoing(&self, node: usize, look: impl FnMut(*mut u8)) {
        Magazine::visit(self.outbound[node].load(Ordering::Relaxed), look);
    }
}

//! Where magazines go that a thread does not keep: to a depot of their class, or home.

use crate::central::magazine::Magazine;
use crate::central::node_state::{NodeState, Shard};
use crate::layout::address_space::AddressSpace;
use crate::layout::size_class;
use crate::os::decay_request;
use crate::slab::give_back;

/// So many magazines in a depot, 256 KiB to 2 MiB or more, may be worth giving back.
const MANY: u32 = 32;

/// Most magazines in an inbox, 64 MiB of objects: what comes beyond that goes to its spans at
/// once.
const INBOX: u32 = 1024;

/// Gives a magazine to a shard of its class; an empty one to the empties.
///
/// # Safety
/// The magazine is the caller's alone, with objects of this node and class.
pub unsafe fn to_depot(
    space: &AddressSpace,
    node: &NodeState,
    shard: Shard,
    magazine: *mut Magazine,
    objects: usize,
) {
    // SAFETY: by contract.
    unsafe {
        if objects == 0 {
            NodeState::recycle(space, shard.number, magazine);
        } else if node.depth(space, shard) >= size_class::TABLE[shard.class].depot {
            give_back::return_magazine(space, node.number, magazine, objects);
        } else {
            let depth = node.give(space, shard, magazine, objects);
            if depth.is_multiple_of(MANY) {
                decay_request::raise();
            }
        }
    }
}

/// Gives a magazine with objects of any class to the inbox of their node. What is there for a
/// while returns to its spans: nobody on that node may ever ask for it.
///
/// # Safety
/// The magazine is the caller's alone, with objects of this node.
pub unsafe fn send_home(
    space: &AddressSpace,
    node: &NodeState,
    magazine: *mut Magazine,
    objects: usize,
) {
    if node.inbox.0.depth(space) >= INBOX {
        return give_back::return_magazine(space, node.number, magazine, objects);
    }
    // SAFETY: by contract.
    unsafe { node.inbox.0.give(space, magazine, objects) };
    decay_request::raise();
}

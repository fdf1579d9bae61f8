//! Hands over magazines that a thread does not keep: to a depot of their class, or to their home
//! node.

use crate::central::magazine::Magazine;
use crate::central::node_state::{NodeState, Shard};
use crate::layout::address_space::AddressSpace;
use crate::layout::class_map::Owner;
use crate::layout::size_class;
use crate::os::decay_request;
use crate::slab::give_back;

/// With this many magazines in a depot, 256 KiB to 2 MiB or more, it may be worth returning memory.
const MANY: u32 = 32;

/// Most magazines in an inbox, 64 MiB of objects. Objects beyond that go to their spans at once.
const INBOX: u32 = 1024;

/// Gives a magazine to a shard of its class, or an empty one to the empty magazines.
///
/// # Safety
/// The magazine belongs to the caller alone, with objects of this node and class.
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

/// Gives a magazine with objects of any class to the inbox of their owner; returns whether there was
/// room. Objects that stay there for a while return to their spans, because their owner may not
/// allocate any more.
///
/// # Safety
/// The magazine belongs to the caller alone, with objects of this node.
pub unsafe fn to_owner(
    space: &AddressSpace,
    node: &NodeState,
    owner: Owner,
    magazine: *mut Magazine,
    objects: usize,
) -> bool {
    let inbox = node.inbox(owner);
    if inbox.depth(space) >= INBOX {
        return false;
    }
    // SAFETY: by contract.
    unsafe { inbox.give(space, magazine, objects) };
    decay_request::raise();
    true
}

/// The same, but without room the objects return to their spans. Without an owner, any thread of the
/// node may take them.
///
/// # Safety
/// As [`to_owner`].
pub unsafe fn send_home(
    space: &AddressSpace,
    node: &NodeState,
    owner: Owner,
    magazine: *mut Magazine,
    objects: usize,
) {
    // SAFETY: by contract.
    if unsafe { !to_owner(space, node, owner, magazine, objects) } {
        give_back::return_magazine(space, node.number, magazine, objects);
    }
}

//! What the threads of a node share: stacks of magazines without locks, depots made of them, and
//! the memory that magazines are made of.

pub mod magazine;
pub mod node_state;
pub mod slots;
pub mod stack;

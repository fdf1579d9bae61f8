//! What the threads of a node share: lock-free stacks of magazines, depots made of them, and the
//! memory for magazines.

pub mod magazine;
pub mod node_state;
pub mod slots;
pub mod stack;

//! A thread's cache: magazines of each class that only this thread uses, and the way of those that
//! it does not keep.

pub mod hand_over;
pub mod overflow;
pub mod registry;
pub mod thread_cache;

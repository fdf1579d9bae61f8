//! A thread's cache: magazines of each class that only this thread uses, and the way of those that
//! it does not keep.

pub mod bins;
mod cold;
pub mod foreign;
pub mod hand_over;
mod outbound;
pub mod overflow;
mod refill;
pub mod registry;
mod take_back;
pub mod thread_cache;

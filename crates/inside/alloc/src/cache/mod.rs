//! What a thread holds: magazines of each class that it alone uses, and where those go that it does
//! not keep.

pub mod hand_over;
pub mod overflow;
pub mod registry;
pub mod thread_cache;

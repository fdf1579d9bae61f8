//! Cache lines.

/// A value on cache lines of its own.
#[derive(Default)]
#[repr(C, align(64))]
pub struct CacheAligned<T>(pub T);

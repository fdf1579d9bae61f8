//! Progress before the first query.

/// Work before the first query, which may take long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Always shown: a load begins, or another bench is waited for.
    Notice(String),
    /// The progress of a load.
    Detail(String),
}

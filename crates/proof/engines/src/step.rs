//! Progress before the first query.

/// What is being done before the first query, which may take long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To be said in any case: a load begins, another bench is waited for.
    Notice(String),
    /// Where a load is.
    Detail(String),
}

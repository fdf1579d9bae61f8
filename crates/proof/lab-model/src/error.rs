//! Why a machine cannot be modelled.

use thiserror::Error;

/// Why a machine cannot be modelled.
#[derive(Debug, Error, PartialEq)]
pub enum ModelError {
    /// The description lacks a figure that the timing needs.
    #[error(
        "the machine description has no `{key}`, which the lab's timing needs; add it with its source, or \"assumed\""
    )]
    Missing {
        /// The key, including its table.
        key: &'static str,
    },
    /// The description contradicts itself.
    #[error("the machine description cannot be used: {0}")]
    Description(String),
    /// The model does not cover this kind of machine.
    #[error("the lab cannot model this machine: {0}")]
    Unsupported(String),
    /// The emulated machine does not fit the description.
    #[error("the emulated machine does not fit its description: {0}")]
    Layout(String),
}

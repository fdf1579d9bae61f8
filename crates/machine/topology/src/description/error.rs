//! Why a machine description is refused.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::shipped_names;
use crate::toml_text::SyntaxError;

/// Why a machine description cannot be used.
#[derive(Debug, Error)]
pub enum DescriptionError {
    /// The file cannot be read.
    #[error("cannot read machine description {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// Neither a shipped machine nor a file.
    #[error("no machine is named '{name}'; name a description file or one of {known}", known = shipped_names())]
    UnknownName {
        /// The name given.
        name: String,
    },
    /// Not TOML, an unknown key or a value of the wrong type.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// A file whose description is invalid.
    #[error("machine description {}: {error}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: Box<DescriptionError>,
    },
    /// The description has no TOML form.
    #[error("the description cannot be written: {0}")]
    Unwritable(String),
    /// A figure without a source.
    #[error(
        "{table}: '{key}' has no source; say where it is from, or \"assumed\", in the table's \
         `source` (one text for all, or {{ {key} = \"...\", other = \"...\" }})"
    )]
    Unsourced {
        /// The table, such as `caches[1]`.
        table: String,
        /// The key without a source.
        key: String,
    },
    /// A source for something that is not there.
    #[error("{table}: `source` names '{key}', which the table does not have")]
    SourceOfNothing {
        /// The table.
        table: String,
        /// The key.
        key: String,
    },
    /// An impossible value, or values that contradict each other.
    #[error("{at}: {why}")]
    Invalid {
        /// Where: `nodes[0].memory`.
        at: String,
        /// The cause and the remedy.
        why: String,
    },
}

impl DescriptionError {
    /// An impossible value.
    pub(super) fn invalid(at: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Invalid { at: at.into(), why: why.into() }
    }
}

impl From<toml::ser::Error> for DescriptionError {
    fn from(error: toml::ser::Error) -> Self {
        Self::Unwritable(error.to_string())
    }
}

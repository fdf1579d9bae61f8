//! The list of engines, and how to find each.

use crate::{EngineError, System, postgresql, python};

/// The supported engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// DuckDB, inside a Python process: columnar, without a server.
    DuckDb,
    /// DataFusion, likewise.
    DataFusion,
    /// MonetDB's embedded library, likewise.
    MonetDbe,
    /// PostgreSQL, a separate server.
    PostgreSql,
}

impl Kind {
    /// Every engine, the default first.
    pub const ALL: [Self; 4] = [Self::DuckDb, Self::DataFusion, Self::MonetDbe, Self::PostgreSql];

    /// The name in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DuckDb => "duckdb",
            Self::DataFusion => "datafusion",
            Self::MonetDbe => "monetdbe",
            Self::PostgreSql => "postgresql",
        }
    }

    /// The engine with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Searches this machine for it.
    ///
    /// # Errors
    /// [`EngineError::NotInstalled`] with instructions to install it.
    pub fn find(self) -> Result<Box<dyn System>, EngineError> {
        Ok(match self {
            Self::DuckDb => Box::new(python::DUCKDB.find()?),
            Self::DataFusion => Box::new(python::DATAFUSION.find()?),
            Self::MonetDbe => Box::new(python::MONETDBE.find()?),
            Self::PostgreSql => Box::new(postgresql::PostgreSql::find()?),
        })
    }
}

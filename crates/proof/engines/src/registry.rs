//! The engines, and how each is found.

use crate::{EngineError, System, postgresql, python};

/// The engines there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// DuckDB, inside a Python process: columnar, no server.
    DuckDb,
    /// DataFusion, likewise.
    DataFusion,
    /// PostgreSQL, a server of its own.
    PostgreSql,
}

impl Kind {
    /// Every engine, the default first.
    pub const ALL: [Self; 3] = [Self::DuckDb, Self::DataFusion, Self::PostgreSql];

    /// Its name in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DuckDb => "duckdb",
            Self::DataFusion => "datafusion",
            Self::PostgreSql => "postgresql",
        }
    }

    /// The engine with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Looks for it on this machine.
    ///
    /// # Errors
    /// [`EngineError::NotInstalled`] with how to get it.
    pub fn find(self) -> Result<Box<dyn System>, EngineError> {
        Ok(match self {
            Self::DuckDb => Box::new(python::DUCKDB.find()?),
            Self::DataFusion => Box::new(python::DATAFUSION.find()?),
            Self::PostgreSql => Box::new(postgresql::PostgreSql::find()?),
        })
    }
}

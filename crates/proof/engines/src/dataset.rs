//! A benchmark's tables and queries at a scale factor.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::{
    Benchmark, EngineError, Query, Reference, RunDirectory, Scale, Step, Table, tpcds, tpch,
};

/// The tables to load and the queries to run.
#[derive(Clone, Debug)]
pub struct Dataset {
    scale: Scale,
    /// For TPC-DS only; the source of TPC-H is part of this program.
    tpcds: Option<Arc<tpcds::Source>>,
}

impl Dataset {
    /// A benchmark's data at a scale factor.
    ///
    /// # Errors
    /// [`EngineError::NotInstalled`] when the generator of the data is missing.
    pub fn open(benchmark: Benchmark, scale: Scale) -> Result<Self, EngineError> {
        let tpcds = match benchmark {
            Benchmark::TpcH => None,
            Benchmark::TpcDs => Some(Arc::new(tpcds::Source::find()?)),
        };
        Ok(Self { scale, tpcds })
    }

    /// Its benchmark.
    #[must_use]
    pub fn benchmark(&self) -> Benchmark {
        if self.tpcds.is_some() { Benchmark::TpcDs } else { Benchmark::TpcH }
    }

    /// Its scale factor.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// The name of its files.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}-sf{}", self.benchmark().name(), self.scale)
    }

    /// Its tables. Where the references are known, referenced tables come first.
    #[must_use]
    pub fn tables(&self) -> Vec<Table<'_>> {
        self.tpcds.as_ref().map_or_else(|| tpch::TABLES.to_vec(), |tpcds| tpcds.tables())
    }

    /// The number of queries, which are numbered from 1.
    #[must_use]
    pub fn queries(&self) -> u32 {
        self.tpcds.as_ref().map_or(tpch::QUERIES, |tpcds| tpcds.queries())
    }

    /// A query with the specification's validation parameters.
    ///
    /// # Errors
    /// [`EngineError::NoQuery`].
    pub fn query(&self, number: u32) -> Result<Query, EngineError> {
        let (benchmark, query) = match &self.tpcds {
            None => (tpch::TITLE, tpch::query(number, self.scale)),
            Some(tpcds) => (tpcds::TITLE, tpcds.query(number)),
        };
        query.ok_or(EngineError::NoQuery { benchmark, number, last: self.queries() })
    }

    /// The specification's answer, if it gives one.
    #[must_use]
    pub fn reference(&self, number: u32) -> Option<Reference> {
        match &self.tpcds {
            None => tpch::reference(number, self.scale),
            Some(_) => None,
        }
    }

    /// Prepares the rows of all tables for a load. Tables that cannot be generated one by one are
    /// generated in `run`.
    ///
    /// # Errors
    /// An error of the generator, or [`EngineError::Interrupted`].
    pub(crate) fn generate<'a>(
        &'a self,
        run: &'a RunDirectory,
        say: &mut dyn FnMut(Step),
        stop: &AtomicBool,
    ) -> Result<Rows<'a>, EngineError> {
        Ok(match &self.tpcds {
            None => Rows::TpcH(self.scale),
            Some(tpcds) => {
                say(Step::Detail(format!("generating {}", self.name())));
                Rows::TpcDs(tpcds.generate(self.scale, run, stop)?)
            }
        })
    }

    /// Approximate size of all tables as CSV, in bytes.
    #[must_use]
    pub fn csv_bytes(&self) -> u64 {
        match &self.tpcds {
            None => tpch::csv_bytes(self.scale),
            Some(_) => tpcds::csv_bytes(self.scale),
        }
    }
}

/// The rows of all tables.
pub(crate) enum Rows<'a> {
    /// Generated while they are written.
    TpcH(Scale),
    /// Generated before.
    TpcDs(tpcds::Generated<'a>),
}

impl Rows<'_> {
    /// Writes a table as CSV, without a header.
    ///
    /// # Errors
    /// Errors of the writer or the generator.
    pub(crate) fn write(&self, table: &str, to: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::TpcH(scale) => tpch::write(table, *scale, to),
            Self::TpcDs(generated) => generated.write(table, to),
        }
    }
}

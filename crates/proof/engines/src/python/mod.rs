//! Engines without a server: inside a Python process that this one talks to through pipes.
//!
//! A Python module is the form of such an engine that every system can install. It must be a
//! process of its own, because a plan is applied when a program starts. What differs between
//! engines is in [`Module`] and in a class of the same shape for each (`duckdb.py`,
//! `datafusion.py`); the rest is common (`child.py`).
//!
//! These modules bring their own allocator for most of their memory, which
//! [`numapilot_place::allocators::in_use`] tells.

mod child;
pub mod interpreter;
mod load;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::{Dataset, Engine, EngineError, Launch, Rounding, RunDirectory, Step, System, Table};
use child::{Child, Mode};
use interpreter::Interpreter;

/// An engine as a Python module.
#[derive(Debug)]
pub struct Module {
    /// What people call it.
    engine: &'static str,
    /// What Python and its package index call it.
    name: &'static str,
    /// The class that `child.py` uses.
    source: &'static str,
    /// The database's file in its directory; nothing when it is the directory.
    file: &'static str,
    /// Stored bytes for each byte of CSV: the compressed database and, while loading, the
    /// largest table as CSV.
    stored_per_csv: f64,
    /// How its numbers are rounded.
    rounding: Rounding,
    /// Statements that load a table from a CSV file into a database in a directory.
    load: fn(&Table<'_>, csv: &str, directory: &str) -> Vec<String>,
}

/// Stored: 0.27.
pub static DUCKDB: Module = Module {
    engine: "DuckDB",
    name: "duckdb",
    source: include_str!("duckdb.py"),
    file: "database",
    stored_per_csv: 1.1,
    rounding: Rounding::None,
    load: |table, csv, _| {
        let Table { name, columns, .. } = table;
        vec![
            format!("create table {name} ({columns})"),
            format!("copy {name} from '{csv}' (format csv, header false, auto_detect false)"),
            "checkpoint".to_owned(),
        ]
    },
};

/// Stored: 0.35, one Parquet file for each table.
pub static DATAFUSION: Module = Module {
    engine: "DataFusion",
    name: "datafusion",
    source: include_str!("datafusion.py"),
    file: "",
    stored_per_csv: 1.2,
    rounding: Rounding::CutOff,
    load: |table, csv, directory| {
        let Table { name, columns, .. } = table;
        vec![
            format!(
                "create external table {name} ({columns}) stored as csv location '{csv}' \
                 options ('format.has_header' 'false')"
            ),
            format!("copy {name} to '{directory}/{name}.parquet' stored as parquet"),
        ]
    },
};

/// A Python that has the module.
#[derive(Debug)]
pub struct Installed {
    module: &'static Module,
    python: Interpreter,
    version: String,
}

impl Module {
    /// Looks for it in the first `python3` on PATH.
    pub fn find(&'static self) -> Result<Installed, EngineError> {
        let remedy = format!(
            "install the Python module (python3 -m pip install {}), or start numapilot in the \
             virtual environment that has it",
            self.name
        );
        let missing = |cause| EngineError::NotInstalled { engine: self.engine, cause, remedy };
        let find = || {
            let python = Interpreter::find()?;
            let code = format!("import {0}; print({0}.__version__)", self.name);
            let version = python.output(&["-c", &code])?.trim().to_owned();
            Ok(Installed { module: self, python, version })
        };
        find().map_err(missing)
    }
}

impl System for Installed {
    fn title(&self) -> String {
        format!("{} {}", self.module.engine, self.version)
    }

    fn slug(&self) -> String {
        format!("{}-{}", self.module.name, self.version)
    }

    fn stored_bytes(&self, dataset: &Dataset) -> u64 {
        (dataset.csv_bytes() as f64 * self.module.stored_per_csv) as u64
    }

    fn rounding(&self) -> Rounding {
        self.module.rounding
    }

    fn shares_databases(&self) -> bool {
        true
    }

    fn load(
        &self,
        dataset: &Dataset,
        directory: &Path,
        run: &RunDirectory,
        say: &mut dyn FnMut(Step),
        stop: &AtomicBool,
    ) -> Result<(), EngineError> {
        load::load(self, dataset, directory, run, say, stop)
    }

    fn start(&self, database: &Path, launch: &Launch<'_>) -> Result<Box<dyn Engine>, EngineError> {
        Ok(Box::new(Child::start(self, database, Mode::Serve, launch)?))
    }
}

//! Engines without a server, inside a Python process that this process talks to through pipes.
//!
//! Every system can install such an engine as a Python module. It must run in a separate process,
//! because a plan is applied when a program starts. The differences between engines are in
//! [`Module`] and in one class of the same shape per engine (`duckdb.py`, `datafusion.py`,
//! `monetdbe.py`). The common part is `child.py`.
//!
//! DuckDB and DataFusion use their own allocator for most of their memory.
//! [`numapilot_place::allocators::in_use`] detects it.

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
    /// The name for people.
    engine: &'static str,
    /// The name in Python and its package index.
    name: &'static str,
    /// A Python program that prints the version, and fails if the engine cannot be loaded.
    version: &'static str,
    /// The command that installs it.
    install: &'static str,
    /// The class that `child.py` uses.
    source: &'static str,
    /// The database's file in its directory; empty when the directory is the database.
    file: &'static str,
    /// Stored bytes per byte of CSV: the compressed database and, during a load, the largest table
    /// as CSV.
    stored_per_csv: f64,
    /// How its numbers are rounded.
    rounding: Rounding,
    /// Whether two processes can read a database at the same time.
    shares_databases: bool,
    /// Statements that load a table from a CSV file into a database in a directory.
    load: fn(&Table<'_>, csv: &str, directory: &str) -> Vec<String>,
}

/// Stored bytes per byte of CSV: 0.27.
pub static DUCKDB: Module = Module {
    engine: "DuckDB",
    name: "duckdb",
    version: "import duckdb; print(duckdb.__version__)",
    install: "python3 -m pip install duckdb",
    source: include_str!("duckdb.py"),
    file: "database",
    stored_per_csv: 1.1,
    rounding: Rounding::None,
    shares_databases: true,
    load: |table, csv, _| {
        let Table { name, columns, .. } = table;
        vec![
            format!("create table {name} ({columns})"),
            format!("copy {name} from '{csv}' (format csv, header false, auto_detect false)"),
            "checkpoint".to_owned(),
        ]
    },
};

/// Stored bytes per byte of CSV: 0.35. There is one Parquet file per table.
pub static DATAFUSION: Module = Module {
    engine: "DataFusion",
    name: "datafusion",
    version: "import datafusion; print(datafusion.__version__)",
    install: "python3 -m pip install datafusion",
    source: include_str!("datafusion.py"),
    file: "",
    stored_per_csv: 1.2,
    rounding: Rounding::CutOff,
    shares_databases: true,
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

/// MonetDB's embedded library. Stored bytes per byte of CSV: 1.0, and during a load as much again
/// for the log of changes. The wheel is built for Python 3.10, but `monetdbe.py` uses only the
/// library in it, from any version. The library uses libc's malloc, and several threads for a query.
pub static MONETDBE: Module = Module {
    engine: "MonetDBe",
    name: "monetdbe",
    version: include_str!("monetdbe_version.py"),
    install: "python3 -m pip install --no-deps --only-binary=:all: --python-version 3.10 \
              --platform manylinux2014_x86_64 --target DIR monetdbe==0.11, and DIR in PYTHONPATH",
    source: include_str!("monetdbe.py"),
    file: "",
    stored_per_csv: 2.5,
    rounding: Rounding::Places,
    shares_databases: false,
    load: |table, csv, _| {
        let Table { name, columns, .. } = table;
        // A text without a limit has a name of its own.
        let columns =
            columns.to_lowercase().replace("varchar", "clob").replace("clob(", "varchar(");
        vec![
            format!("create table {name} ({columns})"),
            format!("copy into {name} from '{csv}' using delimiters ',', E'\\n', '\"' null as ''"),
        ]
    },
};

/// A Python interpreter that has the module.
#[derive(Debug)]
pub struct Installed {
    module: &'static Module,
    python: Interpreter,
    version: String,
}

impl Module {
    /// Searches the first `python3` on PATH for the module.
    pub fn find(&'static self) -> Result<Installed, EngineError> {
        let remedy = format!(
            "install the Python module ({}), or start numapilot in the virtual environment that \
             has it",
            self.install
        );
        let missing = |cause| EngineError::NotInstalled { engine: self.engine, cause, remedy };
        let find = || {
            let python = Interpreter::find()?;
            let version = python.output(&["-c", self.version])?.trim().to_owned();
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
        self.module.shares_databases
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

//! TPC-DS: 24 tables and 99 queries.
//!
//! Tables, data and query texts come from DuckDB's extension `tpcds`, which ports the
//! specification's generator; this program contains none of them. The extension runs in Python like
//! the engine, and its data goes through CSV for every engine. Results are derived from TPC-DS and
//! not comparable to TPC results.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use numapilot_place::Plan;
use serde::Deserialize;

use crate::process::{Process, Start};
use crate::python::interpreter::Interpreter;
use crate::{EngineError, Query, RunDirectory, Scale, Table};

/// The name for people.
pub const TITLE: &str = "TPC-DS";
/// The generator's script.
const SCRIPT: &str = include_str!("source.py");
/// How to install it. The extension is built for one version of DuckDB.
const REMEDY: &str = "install both for the same version (python3 -m pip install duckdb==1.5.5 \
                      duckdb-extension-tpcds==1.5.5), or start numapilot in the virtual \
                      environment that has them";
/// CSV bytes of the tables whose size is the same at every scale factor, measured.
const CSV_BYTES_FIXED: f64 = 15e6;
/// CSV bytes of the others at scale factor 1, measured.
const CSV_BYTES: f64 = 1.22e9;
/// Interval of the checks for the user's request to end.
const TICK: Duration = Duration::from_millis(50);

/// Tables and queries, as the extension provides them.
#[derive(Debug)]
pub struct Source {
    python: Interpreter,
    content: Content,
}

#[derive(Debug, Deserialize)]
struct Content {
    tables: Vec<Description>,
    queries: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Description {
    name: String,
    columns: String,
    key: String,
}

/// Approximate size of the data as CSV.
pub fn csv_bytes(scale: Scale) -> u64 {
    (CSV_BYTES_FIXED + scale.factor() * CSV_BYTES) as u64
}

impl Source {
    /// Searches for the extension.
    pub fn find() -> Result<Self, EngineError> {
        let find = || {
            let python = Interpreter::find()?;
            let text = python.output(&["-c", SCRIPT, "describe"])?;
            let content = serde_json::from_str(&text).map_err(|e| e.to_string())?;
            Ok(Self { python, content })
        };
        find().map_err(|cause| EngineError::NotInstalled {
            engine: "DuckDB's extension tpcds, which makes the data of TPC-DS,",
            cause,
            remedy: REMEDY.to_owned(),
        })
    }

    /// All tables. They have no keys but the primary ones: at small scale factors the queries end
    /// without further indexes, and larger scale factors are for columnar engines.
    pub fn tables<'a>(&'a self) -> Vec<Table<'a>> {
        let tables = self.content.tables.iter();
        let table = |table: &'a Description| {
            let Description { name, columns, key } = table;
            Table { name, columns, key, indexes: &[] }
        };
        tables.map(table).collect()
    }

    /// The number of queries, which are numbered from 1.
    pub fn queries(&self) -> u32 {
        u32::try_from(self.content.queries.len()).unwrap_or(u32::MAX)
    }

    /// A query with the parameters of the specification's qualification database.
    pub fn query(&self, number: u32) -> Option<Query> {
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        let sql = self.content.queries.get(at)?.trim().trim_end_matches(';').to_owned();
        Some(Query { number, sql })
    }

    /// Generates all rows, in a DuckDB database in the run's directory.
    pub fn generate<'a>(
        &'a self,
        scale: Scale,
        run: &'a RunDirectory,
        stop: &AtomicBool,
    ) -> Result<Generated<'a>, EngineError> {
        let path = run.path().join("tpcds");
        let generated = Generated { source: self, run, path };
        let process = generated.start("generate", &scale.to_string(), Stdio::null())?;
        while !process.ended_within(TICK) {
            if stop.load(Ordering::Relaxed) {
                return Err(EngineError::Interrupted);
            }
        }
        process.wait()?;
        Ok(generated)
    }
}

/// Generated rows, which are removed when this is dropped.
pub struct Generated<'a> {
    source: &'a Source,
    run: &'a RunDirectory,
    path: PathBuf,
}

impl Generated<'_> {
    /// Writes the rows of a table.
    pub fn write(&self, table: &str, to: &mut dyn Write) -> io::Result<()> {
        let (mut rows, output) = io::pipe()?;
        let process = self.start("rows", table, output.into()).map_err(io::Error::other)?;
        io::copy(&mut rows, to)?;
        process.wait().map_err(io::Error::other)
    }

    fn start(&self, doing: &str, what: &str, output: Stdio) -> Result<Process, EngineError> {
        let arguments = ["-c".as_ref(), SCRIPT.as_ref(), doing.as_ref(), self.path.as_os_str()];
        let mut words = self.source.python.words(arguments);
        words.push(what.into());
        let start = Start {
            title: "the generator of TPC-DS".to_owned(),
            words,
            plan: &Plan::default(),
            strict: false,
            run: Some(self.run),
            end_with_parent: libc::SIGKILL,
            stop_signal: libc::SIGKILL,
        };
        Process::start(start, |command| {
            command.stdout(output);
        })
    }
}

impl Drop for Generated<'_> {
    fn drop(&mut self) {
        // Files that cannot be removed go with the run's directory.
        let _ = fs::remove_file(&self.path);
    }
}

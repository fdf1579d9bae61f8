//! DuckDB without a server: inside a Python process that this one talks to through pipes.
//!
//! The Python module is the form of DuckDB that every system can install. It must be a process
//! of its own, because a plan is applied when a program starts. The module brings its own
//! allocator for most of its memory, which [`numapilot_place::allocators::in_use`] tells.

mod child;
mod load;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use numapilot_place::find_program;

use crate::{Dataset, Engine, EngineError, Launch, RunDirectory, Step, System};
use child::{Child, Mode};

/// How to get it.
const REMEDY: &str = "install the Python module (python3 -m pip install duckdb), or start numapilot \
                      in the virtual environment that has it";
/// Stored bytes for each byte of CSV: the compressed database (measured 0.27) and, while
/// loading, the largest table as CSV.
const STORED_PER_CSV: f64 = 1.1;
/// A database file's name in its directory.
const FILE: &str = "database";

/// A Python that has the module.
#[derive(Debug)]
pub struct DuckDb {
    python: PathBuf,
    version: String,
}

impl DuckDb {
    /// The first `python3` on PATH.
    pub fn find() -> Result<Self, EngineError> {
        let missing = |cause: String| EngineError::NotInstalled {
            engine: "DuckDB",
            cause,
            remedy: REMEDY.to_owned(),
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let python = find_program(OsStr::new("python3"), &path)
            .ok_or_else(|| missing("there is no python3 on PATH".to_owned()))?;
        let output = Command::new(&python)
            .args(["-c", "import duckdb; print(duckdb.__version__)"])
            .output()
            .map_err(|e| missing(format!("{}: {e}", python.display())))?;
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() || version.is_empty() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim().lines().last().unwrap_or("it said nothing");
            return Err(missing(format!("{}: {said}", python.display())));
        }
        Ok(Self { python, version })
    }
}

impl System for DuckDb {
    fn title(&self) -> String {
        format!("DuckDB {}", self.version)
    }

    fn slug(&self) -> String {
        format!("duckdb-{}", self.version)
    }

    fn stored_bytes(&self, dataset: &Dataset) -> u64 {
        (dataset.csv_bytes() as f64 * STORED_PER_CSV) as u64
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
        Ok(Box::new(Child::start(self, &database.join(FILE), Mode::Serve, launch)?))
    }
}

impl DuckDb {
    fn command(&self, script: &Path) -> Vec<OsString> {
        // Unbuffered errors: its last words must be there when it dies.
        vec![self.python.clone().into(), "-u".into(), script.into()]
    }
}

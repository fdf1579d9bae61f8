//! PostgreSQL from a distribution's package, as a separate server on a private socket.

mod load;
mod owner;
mod server;
mod session;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use numapilot_place::find_program;
use numapilot_sys::bounded_output::{LIMIT, bounded_output};

use crate::{Dataset, Engine, EngineError, Launch, RunDirectory, Step, System};
use owner::Owner;
use server::Server;

/// The directory in which Debian keeps the programs of each version.
const DEBIAN: &str = "/usr/lib/postgresql";
/// Stored bytes per byte of CSV: rows with their headers, keys and indexes (measured 1.9), and the
/// log of loading.
const STORED_PER_CSV: f64 = 2.5;
/// Size of a cluster without data.
const EMPTY_BYTES: u64 = 60 << 20;

/// The programs of one version.
#[derive(Debug)]
pub struct PostgreSql {
    programs: PathBuf,
    version: String,
    owner: Owner,
}

impl PostgreSql {
    /// The highest installed version.
    pub fn find() -> Result<Self, EngineError> {
        let programs = installed().ok_or_else(|| EngineError::NotInstalled {
            engine: "PostgreSQL",
            cause: format!("no server in {DEBIAN}/*/bin and no postgres on PATH"),
            remedy: "install it (Debian, Ubuntu: apt install postgresql)".to_owned(),
        })?;
        let unusable = |cause: String| EngineError::NotInstalled {
            engine: "PostgreSQL",
            cause,
            remedy: "install it again (Debian, Ubuntu: apt install --reinstall postgresql)"
                .to_owned(),
        };
        let program = programs.join("postgres");
        let mut command = Command::new(&program);
        command.arg("--version");
        let output = bounded_output(command, LIMIT);
        let output = output.map_err(|e| unusable(format!("{}: {e}", program.display())))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"
        let version = text.split_whitespace().nth(2).unwrap_or_default().to_owned();
        if !version.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(unusable(format!("{} says '{}'", program.display(), text.trim())));
        }
        Ok(Self { programs, version, owner: Owner::here()? })
    }

    fn major(&self) -> &str {
        self.version.split('.').next().unwrap_or_default()
    }
}

impl System for PostgreSql {
    fn title(&self) -> String {
        format!("PostgreSQL {}", self.version)
    }

    fn slug(&self) -> String {
        format!("postgresql-{}", self.major())
    }

    fn stored_bytes(&self, dataset: &Dataset) -> u64 {
        EMPTY_BYTES + (dataset.csv_bytes() as f64 * STORED_PER_CSV) as u64
    }

    fn shares_databases(&self) -> bool {
        false
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
        Ok(Box::new(Server::start(self, database, launch, &[])?))
    }
}

/// The directory of the highest version's programs.
fn installed() -> Option<PathBuf> {
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .map(|entry| entry.path())
        .filter_map(|path| Some((number(&path)?, path.join("bin"))))
        .filter(|(_, programs)| programs.join("postgres").is_file())
        .collect();
    versions.sort();
    versions.pop().map(|(_, programs)| programs).or_else(|| {
        let path = std::env::var_os("PATH")?;
        let program = find_program(OsStr::new("postgres"), &path)?.canonicalize().ok()?;
        program.parent().map(Path::to_owned)
    })
}

//! Makes a database. Each table goes through a CSV file that is removed at once.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use numapilot_place::Plan;

use super::Installed;
use super::child::{Child, Mode};
use crate::{
    Dataset, Engine, EngineError, Launch, RunDirectory, Session, SessionError, Step, System,
};

/// Bytes written at once.
const CHUNK: usize = 1 << 20;

/// Loads all tables.
pub fn load(
    system: &Installed,
    dataset: &Dataset,
    directory: &Path,
    run: &RunDirectory,
    say: &mut dyn FnMut(Step),
    stop: &AtomicBool,
) -> Result<(), EngineError> {
    let rows = dataset.generate(run, say, stop)?;
    let plan = Plan::default();
    let launch = Launch { plan: &plan, strict: false, settings: &[], timeout: None, run };
    let mut child = Child::start(system, directory, Mode::Load, &launch)?;
    let mut client = child.client();
    let csv = directory.join("csv");
    for table in dataset.tables() {
        if stop.load(Ordering::Relaxed) {
            return Err(EngineError::Interrupted);
        }
        say(Step::Detail(format!("loading {}: {}", dataset.name(), table.name)));
        let file = File::create_new(&csv).map_err(EngineError::file("make", &csv))?;
        let mut to = BufWriter::with_capacity(CHUNK, file);
        rows.write(table.name, &mut to)
            .and_then(|()| to.flush())
            .map_err(EngineError::file("write", &csv))?;
        for sql in (system.module.load)(&table, &quoted(&csv), &quoted(directory)) {
            client.run(&sql).map_err(|error| failed(system, &child, table.name, error))?;
        }
        fs::remove_file(&csv).map_err(EngineError::file("remove", &csv))?;
    }
    Box::new(child).stop()?;
    sync(directory)
}

/// Writes the files of a directory to disk before anything marks them as complete. Not every engine
/// does so (DataFusion writes Parquet files and leaves them to the kernel).
fn sync(directory: &Path) -> Result<(), EngineError> {
    for entry in fs::read_dir(directory).map_err(EngineError::file("read", directory))? {
        let path = entry.map_err(EngineError::file("read", directory))?.path();
        let is_synced = File::open(&path).and_then(|file| file.sync_all());
        is_synced.map_err(EngineError::file("sync", &path))?;
    }
    Ok(())
}

/// A path in single quotes.
fn quoted(path: &Path) -> String {
    path.to_string_lossy().replace('\'', "''")
}

fn failed(system: &Installed, child: &Child, what: &str, error: SessionError) -> EngineError {
    match error {
        SessionError::Refused(cause) => {
            let doing = format!("load {what}");
            EngineError::Refused { engine: system.title(), doing, cause }
        }
        SessionError::Lost(cause) => child
            .death()
            .unwrap_or_else(|| EngineError::Connection { engine: system.title(), cause }),
    }
}

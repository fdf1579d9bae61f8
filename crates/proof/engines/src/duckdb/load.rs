//! Making a database file: each table goes through a CSV file that is removed at once.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use numapilot_place::Plan;

use super::child::{Child, Client, Mode};
use super::{DuckDb, FILE};
use crate::{
    Dataset, Engine, EngineError, Launch, RunDirectory, Session, SessionError, Step, System, Table,
};

/// Bytes written at once.
const CHUNK: usize = 1 << 20;

/// Loads everything.
pub fn load(
    system: &DuckDb,
    dataset: &Dataset,
    directory: &Path,
    run: &RunDirectory,
    say: &mut dyn FnMut(Step),
    stop: &AtomicBool,
) -> Result<(), EngineError> {
    let plan = Plan::default();
    let launch = Launch { plan: &plan, strict: false, settings: &[], timeout: None, run };
    let mut child = Child::start(system, &directory.join(FILE), Mode::Load, &launch)?;
    let mut client = child.client();
    for table in dataset.tables() {
        if stop.load(Ordering::Relaxed) {
            return Err(EngineError::Interrupted);
        }
        say(Step::Detail(format!("loading {}: {}", dataset.name(), table.name)));
        let csv = directory.join("csv");
        write(dataset, table, &csv)?;
        let (name, columns) = (table.name, table.columns);
        let file = csv.to_string_lossy().replace('\'', "''");
        let mut run = |sql: &str| {
            client.run(sql).map(drop).map_err(|error| failed(system, &child, name, error))
        };
        run(&format!("create table {name} ({columns})"))?;
        run(&format!("copy {name} from '{file}' (format csv, header false, auto_detect false)"))?;
        fs::remove_file(&csv).map_err(EngineError::file("remove", &csv))?;
    }
    Client::run(&mut client, "checkpoint")
        .map_err(|error| failed(system, &child, "the end of the log", error))?;
    Box::new(child).stop()
}

fn failed(system: &DuckDb, child: &Child, what: &str, error: SessionError) -> EngineError {
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

fn write(dataset: &Dataset, table: &Table, path: &Path) -> Result<(), EngineError> {
    let file = File::create_new(path).map_err(EngineError::file("make", path))?;
    let mut to = BufWriter::with_capacity(CHUNK, file);
    dataset
        .write(table, &mut to)
        .and_then(|()| to.flush())
        .map_err(EngineError::file("write", path))
}

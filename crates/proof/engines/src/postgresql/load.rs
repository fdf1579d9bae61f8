//! Makes a cluster and loads a data set into it.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use numapilot_place::Plan;
use postgres::Transaction;

use super::PostgreSql;
use super::server::Server;
use super::session::{Connection, USER};
use crate::dataset::Rows;
use crate::error::names_full_disk;
use crate::files::give_directory;
use crate::process::{Process, Start};
use crate::{Dataset, Engine, EngineError, Launch, RunDirectory, Step, System, Table};

/// Settings that make loading fast; they are not kept afterwards. New tables are not logged,
/// because they are created and filled in one transaction under `wal_level=minimal`, so the data is
/// written once.
const SETTINGS: &[(&str, &str)] =
    &[("maintenance_work_mem", "256MB"), ("max_wal_size", "4GB"), ("checkpoint_timeout", "1h")];
/// How long initdb may take; it usually takes a second or two.
const INITDB: Duration = Duration::from_secs(300);
/// Bytes sent to the server at once.
const CHUNK: usize = 1 << 20;

/// Loads all tables and stops the server.
pub fn load(
    system: &PostgreSql,
    dataset: &Dataset,
    directory: &Path,
    run: &RunDirectory,
    say: &mut dyn FnMut(Step),
    stop: &AtomicBool,
) -> Result<(), EngineError> {
    let rows = dataset.generate(run, say, stop)?;
    give_directory(directory, system.owner.0)?;
    let plan = Plan::default();
    make_cluster(system, directory, &plan)?;
    let launch = Launch { plan: &plan, strict: false, settings: &[], timeout: None, run };
    let server = Server::start(system, directory, &launch, SETTINGS)?;
    let loaded = fill(system, &server, dataset, &rows, say, stop);
    // If the server died, that is the reason for every other failure.
    let stopped = Box::new(server).stop();
    match (loaded, stopped) {
        (Err(EngineError::Connection { .. }), Err(death)) => Err(death),
        (Err(error), _) => Err(error),
        (Ok(()), stopped) => stopped,
    }
}

fn make_cluster(system: &PostgreSql, directory: &Path, plan: &Plan) -> Result<(), EngineError> {
    let refused = |cause: String| EngineError::Refused {
        engine: system.title(),
        doing: format!("make a cluster in {}", directory.display()),
        cause,
    };
    let mut words: Vec<OsString> = vec![system.programs.join("initdb").into()];
    // Texts sort by their bytes, as in every other engine.
    let options = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--username", USER, "-D"];
    words.extend(options.map(OsString::from));
    words.push(directory.into());
    let start = Start {
        title: "initdb".to_owned(),
        words,
        plan,
        strict: false,
        run: None,
        // SIGTERM ends it between two steps, and it removes what it had made. The server for its
        // first tables, which it feeds through a pipe, then shuts down as well.
        end_with_parent: libc::SIGTERM,
        stop_signal: libc::SIGTERM,
    };
    let initdb = Process::start(start, |command| system.owner.apply(command))?;
    if !initdb.ended_within(INITDB) {
        return Err(refused(format!("initdb took more than {} s", INITDB.as_secs())));
    }
    let message = initdb.last_words();
    if initdb.wait().is_ok() {
        return Ok(());
    }
    // The line that names a full disk gives the reason; what follows is often a panic. A hint does
    // not name its cause, so in that case everything is quoted.
    let is_reason = |line: &&str| {
        if names_full_disk(&message) {
            names_full_disk(line) && !line.contains("HINT:")
        } else {
            ["error", "FATAL", "PANIC"].iter().any(|word| line.contains(word))
        }
    };
    let cause = message.split(" | ").find(is_reason);
    Err(refused(cause.unwrap_or(&message).to_owned()))
}

fn fill(
    system: &PostgreSql,
    server: &Server,
    dataset: &Dataset,
    rows: &Rows<'_>,
    say: &mut dyn FnMut(Step),
    stop: &AtomicBool,
) -> Result<(), EngineError> {
    let mut connection = server.client()?;
    let tables = dataset.tables();
    for table in &tables {
        say(Step::Detail(format!("loading {}: {}", dataset.name(), table.name)));
        let doing = format!("load {}", table.name);
        copy(&mut connection, rows, table, stop).map_err(|error| {
            if stop.load(Ordering::Relaxed) {
                return EngineError::Interrupted;
            }
            failed(system, &doing, &error)
        })?;
    }
    let mut run = |sql: &str, doing: String| {
        if stop.load(Ordering::Relaxed) {
            return Err(EngineError::Interrupted);
        }
        say(Step::Detail(format!("loading {}: {doing}", dataset.name())));
        connection.client.batch_execute(sql).map_err(|error| failed(system, &doing, &error.into()))
    };
    for table in &tables {
        let (name, key) = (table.name, table.key);
        run(&format!("alter table {name} add primary key ({key})"), format!("key of {name}"))?;
        for columns in table.indexes {
            run(&format!("create index on {name} ({columns})"), format!("index of {name}"))?;
        }
    }
    // Collects statistics for the planner, and marks rows as visible to all. Otherwise a query
    // would do so when it first reads them.
    run("vacuum (freeze, analyze)", "statistics".to_owned())?;
    run("checkpoint", "checkpoint".to_owned())
}

/// Why a table was not loaded.
enum CopyError {
    Server(postgres::Error),
    Data(io::Error),
}

impl From<postgres::Error> for CopyError {
    fn from(error: postgres::Error) -> Self {
        Self::Server(error)
    }
}

fn failed(system: &PostgreSql, doing: &str, error: &CopyError) -> EngineError {
    let message_of =
        |error: &postgres::Error| error.as_db_error().map(|error| error.message().to_owned());
    let cause = match error {
        CopyError::Server(error) => message_of(error),
        // The writer wraps the server's message.
        CopyError::Data(error) => error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<postgres::Error>())
            .and_then(message_of),
    };
    let engine = system.title();
    match cause {
        Some(cause) => EngineError::Refused { engine, doing: doing.to_owned(), cause },
        None => {
            let cause = match error {
                CopyError::Server(error) => error.to_string(),
                CopyError::Data(error) => error.to_string(),
            };
            EngineError::Connection { engine, cause }
        }
    }
}

fn copy(
    connection: &mut Connection,
    rows: &Rows<'_>,
    table: &Table<'_>,
    stop: &AtomicBool,
) -> Result<(), CopyError> {
    let mut transaction = connection.client.transaction()?;
    let (name, columns) = (table.name, table.columns);
    transaction.batch_execute(&format!("create table {name} ({columns})"))?;
    stream(&mut transaction, rows, name, stop)?;
    Ok(transaction.commit()?)
}

fn stream(
    transaction: &mut Transaction<'_>,
    rows: &Rows<'_>,
    table: &str,
    stop: &AtomicBool,
) -> Result<(), CopyError> {
    let sql = format!("copy {table} from stdin (format csv, freeze)");
    let writer = transaction.copy_in(&sql)?;
    let mut buffered = io::BufWriter::with_capacity(CHUNK, Stoppable { writer, stop });
    rows.write(table, &mut buffered).map_err(CopyError::Data)?;
    let stoppable = buffered.into_inner().map_err(|e| CopyError::Data(e.into_error()))?;
    stoppable.writer.finish()?;
    Ok(())
}

/// A writer that Ctrl-C ends.
struct Stoppable<'a, W> {
    writer: W,
    stop: &'a AtomicBool,
}

impl<W: Write> Write for Stoppable<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

//! A client of the server.
//!
//! The server's own timer is `log_duration`: the time from receiving a statement to sending its
//! last row. With `client_min_messages = log` the server reports it to the client as well. Source:
//! PostgreSQL's manual, sections 20.8 and 20.11.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use postgres::error::DbError;
use postgres::{Client, Config, NoTls, SimpleQueryMessage};

use crate::{Answer, Execution, Session, SessionError};

/// The user of every cluster made here.
pub const USER: &str = "numapilot";
/// A database that every cluster has.
const DATABASE: &str = "postgres";

/// A connected client.
pub struct Connection {
    /// For our own statements.
    pub client: Client,
    /// The last report of the server's timer.
    server_time: Arc<Mutex<Option<Duration>>>,
}

/// Connects through the socket in a directory.
pub fn connect(directory: &Path, timeout: Option<Duration>) -> Result<Connection, postgres::Error> {
    let server_time = Arc::new(Mutex::new(None));
    let tell = Arc::clone(&server_time);
    let mut client = Config::new()
        .host_path(directory)
        .user(USER)
        .dbname(DATABASE)
        .application_name("numapilot")
        .notice_callback(move |notice: DbError| {
            if let Some(duration) = duration(notice.message()) {
                *tell.lock().unwrap_or_else(PoisonError::into_inner) = Some(duration);
            }
        })
        .connect(NoTls)?;
    let limit = timeout.map_or(0, |limit| limit.as_millis().max(1));
    client.batch_execute(&format!(
        "set client_min_messages = log; set log_duration = on; set statement_timeout = {limit}"
    ))?;
    Ok(Connection { client, server_time })
}

/// Parses `duration: 12.345 ms`.
fn duration(message: &str) -> Option<Duration> {
    let ms: f64 = message.strip_prefix("duration: ")?.strip_suffix(" ms")?.parse().ok()?;
    Duration::try_from_secs_f64(ms / 1e3).ok()
}

impl Session for Connection {
    fn run(&mut self, sql: &str) -> Result<Execution, SessionError> {
        *self.server_time.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let began = Instant::now();
        let messages = self.client.simple_query(sql).map_err(|error| session_error(&error))?;
        let wall = began.elapsed();
        let rows = messages.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
            }
            _ => None,
        });
        let answer = Answer { rows: rows.collect() };
        let engine = self.server_time.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(Execution { answer, engine, wall })
    }
}

/// The server's message, or that it disappeared. A server that shuts down reports that first, which
/// is not an answer to the query.
pub fn session_error(error: &postgres::Error) -> SessionError {
    match error.as_db_error() {
        // Class 57P is "operator intervention": shutdown, crash, cannot connect now.
        Some(error) if !error.code().code().starts_with("57P") => {
            SessionError::Refused(error.message().to_owned())
        }
        Some(error) => SessionError::Lost(error.message().to_owned()),
        None => SessionError::Lost(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_timer_is_read() {
        assert_eq!(duration("duration: 12.345 ms"), Some(Duration::from_micros(12_345)));
        for other in ["duration: x ms", "duration: -1 ms", "notice", "duration: 1 s"] {
            assert_eq!(duration(other), None, "{other}");
        }
    }
}

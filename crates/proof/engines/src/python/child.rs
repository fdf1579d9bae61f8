//! The Python process. It receives requests and returns answers, each to the client that waits for
//! it.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Installed;
use crate::process::{Process, Start};
use crate::{Answer, Engine, EngineError, Execution, Launch, Session, SessionError, System};

/// The script, which needs the module of the engine beside it.
const SCRIPT: &str = include_str!("child.py");

/// The purpose for which the database is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Writing, by this process only.
    Load,
    /// Reading.
    Serve,
}

/// A line from the child.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reply {
    ready: Option<String>,
    failed: Option<String>,
    client: usize,
    seconds: Option<f64>,
    rows: Vec<Vec<Option<String>>>,
    error: Option<String>,
}

/// A line to the child.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Request<'a> {
    Run { client: usize, sql: &'a str },
    Stop { stop: bool },
}

type Clients = Arc<Mutex<HashMap<usize, Sender<Reply>>>>;

/// A running child.
#[derive(Debug)]
pub struct Child {
    process: Process,
    requests: Arc<Mutex<PipeWriter>>,
    clients: Clients,
    next: usize,
}

impl Child {
    /// Starts a child and waits until it has opened the database.
    pub fn start(
        system: &Installed,
        database: &Path,
        mode: Mode,
        launch: &Launch<'_>,
    ) -> Result<Self, EngineError> {
        let directory = launch.run.path();
        let (script, engine) = (directory.join("child.py"), directory.join("engine.py"));
        fs::write(&script, SCRIPT).map_err(EngineError::file("write", &script))?;
        fs::write(&engine, system.module.source).map_err(EngineError::file("write", &engine))?;
        let pipe = || io::pipe().map_err(EngineError::file("make a pipe for", &script));
        let ((input, requests), (replies, output)) = (pipe()?, pipe()?);
        // Unbuffered errors, so that its last messages are there when it dies.
        let mut words = system.python.words(["-u".into(), script.into_os_string()]);
        words.push(database.join(system.module.file).into());
        words.push(match mode {
            Mode::Load => "load".into(),
            Mode::Serve => "serve".into(),
        });
        words.push(directory.join("spill").into());
        words.push(launch.timeout.map_or(0.0, |limit| limit.as_secs_f64()).to_string().into());
        words.extend(launch.settings.iter().map(|(name, value)| format!("{name}={value}").into()));
        let start = Start {
            title: system.title(),
            words,
            plan: launch.plan,
            strict: launch.strict,
            run: Some(launch.run),
            end_with_parent: libc::SIGKILL,
            // It only reads, or its output is thrown away with it.
            stop_signal: libc::SIGKILL,
        };
        let process = Process::start(start, |command| {
            command.stdin(input).stdout(output);
        })?;
        let mut lines = BufReader::new(replies);
        let first = read(&mut lines).unwrap_or_default();
        if first.ready.is_none() {
            return Err(match first.failed {
                Some(message) => EngineError::NotStarted {
                    engine: system.title(),
                    status: "it could not open the database".to_owned(),
                    message,
                },
                None => process.not_started(),
            });
        }
        let clients = Clients::default();
        let to = Arc::clone(&clients);
        thread::Builder::new()
            .name("replies".to_owned())
            .spawn(move || distribute(&mut lines, &to))
            .map_err(EngineError::Thread)?;
        Ok(Self { process, requests: Arc::new(Mutex::new(requests)), clients, next: 0 })
    }

    /// A new client.
    pub fn client(&mut self) -> Client {
        let (to, replies) = mpsc::channel();
        let number = self.next;
        self.next += 1;
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).insert(number, to);
        Client { number, requests: Arc::clone(&self.requests), replies }
    }
}

fn read(lines: &mut BufReader<PipeReader>) -> Option<Reply> {
    let mut line = Vec::new();
    lines.read_until(b'\n', &mut line).ok()?;
    serde_json::from_slice(&line).ok()
}

/// Passes replies to the clients until the child ends. The end of their channel then tells waiting
/// clients.
fn distribute(lines: &mut BufReader<PipeReader>, clients: &Clients) {
    while let Some(reply) = read(lines) {
        let clients = clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&reply.client) {
            // A client that has ended does not need its reply.
            let _ = client.send(reply);
        }
    }
    clients.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

fn send(requests: &Mutex<PipeWriter>, request: &Request<'_>) -> io::Result<()> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    requests.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)
}

/// A client of the child.
pub struct Client {
    number: usize,
    requests: Arc<Mutex<PipeWriter>>,
    replies: Receiver<Reply>,
}

impl Session for Client {
    fn run(&mut self, sql: &str) -> Result<Execution, SessionError> {
        let lost = |cause: &dyn std::fmt::Display| SessionError::Lost(cause.to_string());
        let began = Instant::now();
        let request = Request::Run { client: self.number, sql };
        send(&self.requests, &request).map_err(|e| lost(&e))?;
        let reply = self.replies.recv().map_err(|_| lost(&"the process has ended"))?;
        let wall = began.elapsed();
        if let Some(error) = reply.error {
            return Err(SessionError::Refused(error));
        }
        let engine = reply.seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
        Ok(Execution { answer: Answer { rows: reply.rows }, engine, wall })
    }
}

impl Engine for Child {
    fn process(&self) -> &Process {
        &self.process
    }

    fn connect(&mut self) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(self.client()))
    }

    fn interrupt(&self) {
        self.process.signal(libc::SIGKILL);
    }

    fn stop(self: Box<Self>) -> Result<(), EngineError> {
        if let Some(death) = self.death() {
            return Err(death);
        }
        // If the child dies now, waiting for it reports that.
        let _ = send(&self.requests, &Request::Stop { stop: true });
        self.process.wait()
    }
}

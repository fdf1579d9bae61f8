//! A running server. It listens only on a socket in its own directory, and runs nothing in the
//! background that would disturb a measurement.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use numapilot_sys::process::PidFd;

use super::PostgreSql;
use super::session::{Connection, connect};
use crate::files::give_directory;
use crate::process::{Process, Start};
use crate::{Engine, EngineError, Launch, RunDirectory, Session, System};

/// Disconnects clients and shuts the server down (section 19.5 of the manual).
const FAST_SHUTDOWN: i32 = libc::SIGINT;
/// Time for the server of a killed bench to end, before it is killed.
const LEFT: Duration = Duration::from_secs(10);
/// How long a server may take to accept the first client; after a crash it replays its log.
const START: Duration = Duration::from_secs(120);
/// Most clients at the same time.
const CLIENTS: u32 = 1000;
/// The longest path of a socket (unix(7)).
const SOCKET_PATH: usize = 107;
/// The name of a server's socket at the default port.
const SOCKET: &str = ".s.PGSQL.5432";

/// The setting for the directory of the socket.
const SOCKET_DIRECTORY: &str = "unix_socket_directories";

/// Settings of every server, in place of the package's defaults.
const SETTINGS: &[(&str, &str)] = &[
    ("listen_addresses", ""),
    ("port", "5432"),
    ("unix_socket_permissions", "0700"),
    // Run nothing in the background while a query is timed.
    ("autovacuum", "off"),
    ("logging_collector", "off"),
    ("log_destination", "stderr"),
    ("log_line_prefix", ""),
    // The timer's messages go to the client; the server's log is left for errors.
    ("log_min_messages", "fatal"),
    ("log_checkpoints", "off"),
    ("wal_level", "minimal"),
    ("max_wal_senders", "0"),
    ("dynamic_library_path", "$libdir"),
];

/// A server that accepts clients.
#[derive(Debug)]
pub struct Server {
    process: Process,
    socket: PathBuf,
    timeout: Option<Duration>,
}

impl Server {
    /// Starts a server on a cluster and waits until it accepts a client.
    pub fn start(
        system: &PostgreSql,
        cluster: &Path,
        launch: &Launch<'_>,
        more: &[(&str, &str)],
    ) -> Result<Self, EngineError> {
        let run = launch.run;
        let socket = run.path();
        if socket.join(SOCKET).as_os_str().len() > SOCKET_PATH {
            return Err(EngineError::Refused {
                engine: system.title(),
                doing: format!("listen in {}", socket.display()),
                cause: format!(
                    "the path of a socket has at most {SOCKET_PATH} bytes; give a shorter --cache DIR"
                ),
            });
        }
        run.give_to(system.owner.0)?;
        give_directory(cluster, system.owner.0)?;
        end_left(cluster);
        let mut words: Vec<OsString> =
            vec![system.programs.join("postgres").into(), "-D".into(), cluster.into()];
        let mut set =
            |name: &str, value: &str| words.extend(["-c".into(), format!("{name}={value}").into()]);
        for (name, value) in SETTINGS.iter().chain(more) {
            set(name, value);
        }
        set("max_connections", &CLIENTS.to_string());
        set(SOCKET_DIRECTORY, &socket.to_string_lossy());
        for (name, value) in launch.settings {
            set(name, value);
        }
        let start = Start {
            title: system.title(),
            words,
            plan: launch.plan,
            strict: launch.strict,
            run: Some(run),
            // The server ends its children and frees its shared memory.
            end_with_parent: libc::SIGQUIT,
            stop_signal: FAST_SHUTDOWN,
        };
        let owner = system.owner;
        let process = Process::start(start, |command| owner.apply(command))?;
        let socket = socket.to_owned();
        let server = Self { process, socket, timeout: launch.timeout };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&self) -> Result<(), EngineError> {
        let deadline = Instant::now() + START;
        loop {
            let error = match connect(&self.socket, None) {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if self.process.ended_within(Duration::from_millis(20)) {
                return Err(self.process.not_started());
            }
            if Instant::now() >= deadline {
                return Err(EngineError::NotStarted {
                    engine: self.title().to_owned(),
                    status: format!("no client could connect for {} s: {error}", START.as_secs()),
                    message: self.process.last_words(),
                });
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// A client for our own statements.
    pub fn client(&self) -> Result<Connection, EngineError> {
        connect(&self.socket, self.timeout).map_err(|error| {
            self.process.death().unwrap_or_else(|| EngineError::Connection {
                engine: self.title().to_owned(),
                cause: error.to_string(),
            })
        })
    }
}

/// Ends the server of a killed bench. The kernel has told it to end, but it may not have ended yet.
/// This bench has locked the database, so no other bench uses it.
fn end_left(cluster: &Path) {
    let Some(server) = left(cluster) else { return };
    // First an immediate shutdown, then a kill. A missing process is fine.
    for signal in [libc::SIGQUIT, libc::SIGKILL] {
        let _ = server.signal(signal);
        if server.ended_within(Some(LEFT)).unwrap_or(true) {
            return;
        }
    }
}

/// The server that a cluster's files name as its own, if it runs and a bench started it: the
/// directory of its socket is then a run's.
fn left(cluster: &Path) -> Option<PidFd> {
    let text = fs::read_to_string(cluster.join("postmaster.pid")).ok()?;
    let pid: i32 = text.lines().next()?.trim().parse().ok()?;
    // Open the process before checking it, so that its number cannot be reused meanwhile. The
    // working directory of a server is its cluster.
    let server = PidFd::open(pid).ok()?;
    let directory = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let is_of_a_bench = words.split(|byte| *byte == 0).any(|word| {
        let socket = word.strip_prefix(SOCKET_DIRECTORY.as_bytes());
        socket
            .and_then(|rest| rest.strip_prefix(b"="))
            .is_some_and(|path| RunDirectory::is_run(Path::new(OsStr::from_bytes(path))))
    });
    (is_of_a_bench && directory == cluster.canonicalize().ok()?).then_some(server)
}

impl Engine for Server {
    fn process(&self) -> &Process {
        &self.process
    }

    fn connect(&mut self) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(self.client()?))
    }

    fn interrupt(&self) {
        self.process.signal(FAST_SHUTDOWN);
    }

    fn stop(self: Box<Self>) -> Result<(), EngineError> {
        if let Some(death) = self.death() {
            return Err(death);
        }
        self.process.signal(FAST_SHUTDOWN);
        self.process.wait()
    }
}

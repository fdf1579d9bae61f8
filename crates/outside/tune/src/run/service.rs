//! What makes a program a server in a search: how to see that it is ready, and its load.

use std::time::Duration;

/// A server, and what measures it. Once it is ready, a load outside of the plan gives the figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// A shell command that succeeds as soon as the server is ready.
    pub ready: String,
    /// The time that a server has to get ready.
    pub ready_timeout: Duration,
    /// The time that a server has to end after SIGTERM.
    pub stop_timeout: Duration,
    /// A shell command that puts load on the server, and prints the metric.
    pub load: String,
    /// The CPUs of the load and of the server, apart from each other.
    pub cpus: Option<Apart>,
    /// When it is started.
    pub restart: Restart,
}

/// When a server is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    /// For every run, under its plan.
    #[default]
    Plan,
    /// Once, under no plan: each run changes the plan of the running server.
    Never,
}

/// CPUs as a plan writes them (`0-3,8`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apart {
    /// The load's.
    pub load: String,
    /// The server's.
    pub server: String,
}

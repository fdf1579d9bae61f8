//! Arguments of `tune __serve`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use numapilot_cli_kit::units;

/// Arguments of `tune __serve`: those of `tune --server`, and the plan.
#[derive(clap::Args)]
pub struct ServeArgs {
    /// The plan, as a profile.
    #[arg(long, value_name = "FILE")]
    pub profile: PathBuf,

    /// Repeat this in a shell until it succeeds: the server is ready.
    #[arg(long, value_name = "SHELL")]
    pub ready: String,

    /// Put load on the server with this, in a shell and outside of the plan.
    #[arg(long, value_name = "SHELL")]
    pub load: String,

    /// Run the load on these CPUs, and the server on the others.
    #[arg(long, value_name = "CPUS")]
    pub load_cpus: Option<String>,

    /// A server that is not ready after this time has failed.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub ready_timeout: Duration,

    /// Kill a server that has not ended this long after SIGTERM.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub stop_timeout: Duration,

    /// The server and its arguments.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

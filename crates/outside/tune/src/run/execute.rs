//! Executes one run of a prepared program: captures its output, limits its time, allows
//! interruption, and measures its peak of resident memory.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use numapilot_place::{Prepared, Running};

use super::execution::Execution;
use super::watched::{Memory, Watched};
use super::{RunError, io_error};

/// The parameters of a run, in addition to its plan.
#[derive(Debug)]
pub struct RunContext<'a> {
    /// Standard input.
    pub stdin: Stdio,
    /// Working directory; by default this process's own.
    pub directory: Option<&'a Path>,
    /// The time after which the program and its whole group are ended.
    pub timeout: Option<Duration>,
    /// Ends the run when it becomes true.
    pub interrupted: &'a AtomicBool,
}

/// Runs a program to its end. `started` is called as soon as it runs.
///
/// # Errors
/// [`RunError`] if it cannot be started or watched, or if the user interrupts. A program that fails
/// is not an error.
pub fn execute(
    prepared: &Prepared,
    context: RunContext<'_>,
    started: impl FnOnce(&Running),
) -> Result<Execution, RunError> {
    execute_while(prepared, context, started, |_| true)
}

/// The same, for as long as `goes_on` says so. It is called whenever the program may have printed.
///
/// # Errors
/// As [`execute`].
pub fn execute_while(
    prepared: &Prepared,
    context: RunContext<'_>,
    started: impl FnOnce(&Running),
    mut goes_on: impl FnMut(&mut Watched) -> bool,
) -> Result<Execution, RunError> {
    let RunContext { stdin, directory, timeout, interrupted } = context;
    let mut program = Watched::start(prepared, stdin, directory, Memory::Alone)?;
    started(program.running());
    loop {
        if interrupted.load(Ordering::Relaxed) {
            // Dropping it kills its whole group.
            return Err(RunError::Interrupted);
        }
        let left = timeout.map(|limit| limit.saturating_sub(program.age()));
        let ended = Watched::wait_any(&mut [&mut program], left.unwrap_or(Duration::MAX))?;
        if ended || left.is_some_and(|left| left.is_zero()) || !goes_on(&mut program) {
            return program.finish();
        }
    }
}

/// Opens standard input from a file; without one it is empty.
///
/// # Errors
/// Fails if the file cannot be opened; `name` is the option that gave it.
pub fn stdin(path: Option<&Path>, name: &str) -> Result<Stdio, RunError> {
    let Some(path) = path else { return Ok(Stdio::null()) };
    let open = |e: io::Error| io_error(&format!("cannot open {name} {}", path.display()), e);
    std::fs::File::open(path).map(Into::into).map_err(open)
}

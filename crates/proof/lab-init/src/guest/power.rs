//! Powers the machine off.

use std::process::ExitCode;

use rustix::system::{RebootCommand, reboot};

/// Powers the machine off. It returns only on failure.
pub fn off() -> ExitCode {
    match reboot(RebootCommand::PowerOff) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot power off: {error}");
            ExitCode::FAILURE
        }
    }
}

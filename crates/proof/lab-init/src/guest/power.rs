//! The end of the machine.

use std::process::ExitCode;

use rustix::system::{RebootCommand, reboot};

/// Powers the machine off; only a machine that cannot be leaves this.
pub fn off() -> ExitCode {
    match reboot(RebootCommand::PowerOff) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot power off: {error}");
            ExitCode::FAILURE
        }
    }
}

//! Process 1 of an emulated machine: sets the guest up, runs one program, and reports how it ended.
//!
//! It is an ordinary dynamic program, because the image has the C library for other programs
//! anyway. It needs no kernel module: the kernel unpacks the image into memory, and process 1 calls
//! the host through memory that both share.
#![forbid(unsafe_code)]

mod guest;

use std::convert::Infallible;
use std::process::ExitCode;

use numapilot_lab_init::{Failure, Report};

use crate::guest::ports::Ports;
use crate::guest::{Trouble, mounts, power, program};

fn main() -> ExitCode {
    if !rustix::process::getpid().is_init() {
        eprintln!("{}: this is process 1 of an emulated machine", numapilot_lab_init::PROGRAM);
        return ExitCode::from(125);
    }
    // Without the ports, only the console receives the error, which the host keeps.
    let Err(trouble) = mounts::mount_all().and_then(|()| run());
    eprintln!("{}: {trouble}", numapilot_lab_init::PROGRAM);
    power::off()
}

fn run() -> Result<Infallible, Trouble> {
    let ports = Ports::open()?;
    let end = match program::run(&ports) {
        Ok(status) => Report::Exited(status),
        Err(trouble) => {
            let errno = trouble.errno_of_program();
            Report::Failed(Failure { errno, what: trouble.to_string() })
        }
    };
    ports.report(&end)?;
    ports.wait_for_end()
}

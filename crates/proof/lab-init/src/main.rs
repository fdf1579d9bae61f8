//! Process 1 of an emulated machine: sets the guest up, runs one program, reports how it
//! ended.
//!
//! It is an ordinary dynamic program: the image holds the C library for the programs that
//! are run anyway. It needs no kernel module, because the disk (NVMe), the file system
//! (ext4) and the ports (virtio-console) are built into the kernels that the lab uses.
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
    // Without the ports nobody hears of it but the console, which the host keeps.
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
    ports.control.report(&end)?;
    ports.control.wait_for_end()
}

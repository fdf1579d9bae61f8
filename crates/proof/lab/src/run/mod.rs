//! Running a program on an emulated machine.

mod boot_watchdog;
mod console;
mod counters;
mod guest_session;
mod implicit_includes;
mod machine;
mod output;
mod reports;
mod task;
mod terminal;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use numapilot_lab_init::{PROGRAM, User, WindowSize};
use numapilot_lab_model::{Model, Report};
use numapilot_place::allocators::own_directories;
use numapilot_place::own_program;

use crate::emulator::Emulator;
use crate::{Kernel, LabError, Shape};

/// numapilot's programs, which are in every guest.
const OWN_PROGRAMS: [&str; 2] = ["numapilot", "numapilot-lab"];

/// The parts that every emulated machine is made of.
#[derive(Clone, Debug)]
pub struct Lab {
    /// QEMU.
    pub emulator: Emulator,
    /// The guest's kernel.
    pub kernel: Kernel,
    /// Its file that is booted.
    boot_file: PathBuf,
    /// Process 1, on the host.
    init: PathBuf,
    /// numapilot's programs and libraries.
    own: Vec<PathBuf>,
}

/// What is to run, and on what.
#[derive(Clone, Debug)]
pub struct Request {
    /// The machine.
    pub shape: Shape,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Files, directories and programs that it needs besides.
    pub include: Vec<OsString>,
    /// More for the kernel's command line.
    pub append: Vec<String>,
    /// Kernel settings.
    pub tuning: Tuning,
    /// Who it runs as; root when nobody is named.
    pub user: Option<User>,
    /// Room on the guest's disk.
    pub free_bytes: u64,
    /// How long the machine may take until it runs. One that hangs or dies until then is booted
    /// again.
    pub boot_timeout: Duration,
    /// How long it may run.
    pub timeout: Option<Duration>,
    /// Where its input and output are.
    pub streams: Streams,
    /// How long what takes; without it nothing is counted, and the guest runs faster.
    pub model: Option<Model>,
}

/// Kernel settings of the guest; what is not named is as the kernel has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub thp: Option<String>,
    /// Automatic NUMA balancing: 0 off, 1 on, 2 memory tiering.
    pub numa_balancing: Option<u8>,
    /// Weights of nodes for weighted interleave.
    pub weights: Vec<(usize, u8)>,
}

/// Input and output of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// Pipes, from and to this process's own.
    Pipes,
    /// A terminal, which is this process's own.
    Terminal(WindowSize),
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Its status, or 128+n when signal n ended it.
    pub status: u8,
    /// How often the machine was booted until it ran.
    pub boots: u32,
    /// From the request to the program's first instruction.
    pub boot: Duration,
    /// From there to its end, on the host's clock.
    pub wall: Duration,
    /// What was counted.
    pub report: Option<Report>,
}

impl Lab {
    /// Finds the parts.
    ///
    /// # Errors
    /// [`LabError`] naming the first that is missing or will not do.
    pub fn find() -> Result<Self, LabError> {
        let emulator = Emulator::find()?;
        let kernel = Kernel::find()?;
        let boot_file = kernel.boot_file()?;
        let init = part(PROGRAM)?;
        let mut own = OWN_PROGRAMS.map(own_file).into_iter().collect::<Result<Vec<_>, _>>()?;
        own.extend(own_directories().iter().flat_map(|d| own_libraries(d)));
        Ok(Self { emulator, kernel, boot_file, init, own })
    }

    /// Boots the machine, runs the program, waits for it.
    ///
    /// Signals that ask this process to end go to the program; a second one ends the machine.
    /// To be called from the first thread: QEMU ends with the thread that started it.
    ///
    /// # Errors
    /// [`LabError`]; nothing is left running or lying about.
    pub fn run(&self, request: &Request) -> Result<Outcome, LabError> {
        guest_session::run(self, request)
    }
}

/// A program of numapilot's that is in every guest.
fn own_file(name: &'static str) -> Result<PathBuf, LabError> {
    own_program(name).ok_or_else(|| missing(name, &own_directories()))
}

/// A file that belongs to numapilot.
fn part(name: &'static str) -> Result<PathBuf, LabError> {
    let directories = own_directories();
    let found = directories.iter().map(|d| d.join(name)).find(|p| p.is_file());
    found.ok_or_else(|| missing(name, &directories))
}

fn missing(name: &'static str, directories: &[PathBuf]) -> LabError {
    let searched: Vec<_> = directories.iter().map(|d| d.display().to_string()).collect();
    LabError::NoPart { name, searched: searched.join(", ") }
}

/// The libraries that ride inside programs.
fn own_libraries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).ok().into_iter().flatten();
    let files = entries.filter_map(Result::ok).map(|entry| entry.path());
    files
        .filter(|path| {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
            name.is_some_and(|n| n.starts_with("libnumapilot_") && n.ends_with(".so"))
        })
        .collect()
}

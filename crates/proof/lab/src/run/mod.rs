//! Runs a program on an emulated machine.

mod console;
mod guest_session;
mod implicit_includes;
mod machine;
mod output;
mod plugin;
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

pub(crate) use self::plugin::checking_plugin;
use crate::emulator::Emulator;
use crate::{Kernel, LabError, Shape};

/// numapilot's programs, which every guest has.
const OWN_PROGRAMS: [&str; 2] = ["numapilot", "numapilot-lab"];

/// The parts of every emulated machine.
#[derive(Clone, Debug)]
pub struct Lab {
    /// QEMU.
    pub emulator: Emulator,
    /// The guest's kernel.
    pub kernel: Kernel,
    /// The file to boot.
    boot_file: PathBuf,
    /// The file of process 1 on the host.
    init: PathBuf,
    /// numapilot's programs and libraries.
    own: Vec<PathBuf>,
}

/// The program and its machine.
#[derive(Clone, Debug)]
pub struct Request {
    /// The machine.
    pub shape: Shape,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Additional files, directories and programs.
    pub include: Vec<OsString>,
    /// Additions to the kernel's command line.
    pub append: Vec<String>,
    /// Kernel settings.
    pub tuning: Tuning,
    /// The user that runs the program; root if `None`.
    pub user: Option<User>,
    /// Space in bytes for files that the guest writes; it is added to the memory of the first node.
    pub free_bytes: u64,
    /// Time limit for booting, on the host's clock.
    pub boot_timeout: Duration,
    /// Time limit for the program, on the host's clock.
    pub timeout: Option<Duration>,
    /// The program's input and output.
    pub streams: Streams,
    /// Seed of what differs between repetitions: the guest's random numbers, and the start of the
    /// program relative to the kernel's ticks.
    pub seed: u64,
    /// Seconds on the guest's clocks per simulated second.
    pub time_scale: u64,
    /// Length of a scheduling quantum, which limits the difference between the CPUs' clocks;
    /// [`QUANTUM_PS`](numapilot_lab_model::QUANTUM_PS) if `None`.
    pub quantum: Option<Duration>,
    /// The timing model.
    pub model: Model,
    /// Whether accesses are modelled and counted. If not, time depends on instructions only, there
    /// is no report, and the guest runs faster.
    pub counts: bool,
}

/// Kernel settings of the guest; those that are not set keep the kernel's defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub thp: Option<String>,
    /// Automatic NUMA balancing: 0 off, 1 on, 2 memory tiering.
    pub numa_balancing: Option<u8>,
    /// The divisor of the scan delay and the scan periods of automatic NUMA balancing. If there is
    /// one, the size of a scan is divided by the machine's `cache_scale`.
    pub autonuma_scale: Option<u64>,
    /// Weights of the nodes for weighted interleave.
    pub weights: Vec<(usize, u8)>,
}

/// Input and output of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// Pipes to and from this process's standard streams.
    Pipes,
    /// This process's terminal.
    Terminal(WindowSize),
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The program's status, or 128+n when signal n ended it.
    pub status: u8,
    /// Time from the request to the program's start, on the host's clock.
    pub boot: Duration,
    /// Time from there to the program's end, on the host's clock.
    pub wall: Duration,
    /// The plugin's report; `None` if accesses were not modelled, or a signal ended the machine.
    pub report: Option<Report>,
}

impl Lab {
    /// Finds the parts.
    ///
    /// # Errors
    /// [`LabError`] with the first part that is missing or unusable.
    pub fn find() -> Result<Self, LabError> {
        let emulator = Emulator::find()?;
        let kernel = Kernel::find()?;
        let boot_file = kernel.boot_file()?;
        let init = part(PROGRAM)?;
        let mut own = OWN_PROGRAMS.map(own_file).into_iter().collect::<Result<Vec<_>, _>>()?;
        own.extend(own_directories().iter().flat_map(|d| own_libraries(d)));
        Ok(Self { emulator, kernel, boot_file, init, own })
    }

    /// Boots the machine, runs the program, and waits for it.
    ///
    /// Signals that ask this process to end are forwarded to the program; a second one ends the
    /// machine. The caller must be the main thread, because QEMU ends with the thread that started
    /// it.
    ///
    /// # Errors
    /// [`LabError`]; nothing is left running or on disk.
    pub fn run(&self, request: &Request) -> Result<Outcome, LabError> {
        guest_session::run(self, request)
    }
}

/// One of numapilot's programs for the guest.
fn own_file(name: &'static str) -> Result<PathBuf, LabError> {
    own_program(name).ok_or_else(|| missing(name, &own_directories()))
}

/// A file of numapilot's installation.
fn part(name: &'static str) -> Result<PathBuf, LabError> {
    let directories = own_directories();
    let found = directories.iter().map(|d| d.join(name)).find(|p| p.is_file());
    found.ok_or_else(|| missing(name, &directories))
}

fn missing(name: &'static str, directories: &[PathBuf]) -> LabError {
    let searched: Vec<_> = directories.iter().map(|d| d.display().to_string()).collect();
    LabError::NoPart { name, searched: searched.join(", ") }
}

/// The libraries that numapilot loads into programs.
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

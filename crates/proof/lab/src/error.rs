//! Why an emulated machine did not run.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use numapilot_place::DirectoryError;
use numapilot_topology::description::DescriptionError;
use thiserror::Error;

/// The remedy in most cases.
const SETUP: &str = "run: numapilot lab setup";

/// Why an emulated machine did not run. Each message names cause and remedy.
#[derive(Debug, Error)]
pub enum LabError {
    /// Neither a home nor a cache directory is known.
    #[error("there is no cache directory: neither XDG_CACHE_HOME nor HOME is set; set one")]
    NoHome,
    /// The processor differs from the emulated one.
    #[error(
        "the lab runs this machine's programs on emulated x86-64 machines; this is {0}, whose \
         programs they cannot run"
    )]
    Processor(&'static str),
    /// QEMU was not found.
    #[error("no {program} on PATH, and none was fetched; {SETUP}")]
    NoEmulator {
        /// Name of the program.
        program: &'static str,
    },
    /// QEMU is too old for the plugin.
    #[error("{} is version {version}; the lab needs {oldest} or newer; {SETUP}", path.display())]
    OldEmulator {
        /// Path of QEMU.
        path: PathBuf,
        /// Its version.
        version: String,
        /// The required version.
        oldest: String,
    },
    /// The plugin cannot run in this QEMU.
    #[error("{}: {message}", path.display())]
    UnsuitableEmulator {
        /// Path of QEMU.
        path: PathBuf,
        /// The plugin's message, with the remedy.
        message: String,
    },
    /// QEMU has no support for plugins.
    #[error("{} was built without plugins ({message}); {SETUP}", path.display())]
    NoPlugins {
        /// Path of QEMU.
        path: PathBuf,
        /// QEMU's message.
        message: String,
    },
    /// QEMU does not run.
    #[error("{} does not run: {message}; {SETUP}", path.display())]
    BrokenEmulator {
        /// Path of QEMU.
        path: PathBuf,
        /// QEMU's message.
        message: String,
    },
    /// No kernel was downloaded.
    #[error("no kernel for the guest in {}; {SETUP}", directory.display())]
    NoKernel {
        /// The directory that should have it.
        directory: PathBuf,
    },
    /// The file is not a kernel.
    #[error("{} is not an x86-64 Linux kernel; give a bzImage (vmlinuz)", path.display())]
    NotAKernel {
        /// The file.
        path: PathBuf,
    },
    /// A part of numapilot is missing.
    #[error(
        "{name} is missing; it belongs beside the numapilot binary or in ../lib/numapilot \
         (searched: {searched}); build the whole workspace, or install numapilot again"
    )]
    NoPart {
        /// File name of the part.
        name: &'static str,
        /// The directories that were searched.
        searched: String,
    },
    /// A file for the guest has 4 GiB or more, which the archive's format cannot hold.
    #[error("{} is too large: files of 4 GiB and more cannot be taken into a guest", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A description cannot be emulated.
    #[error("machine {name}: {cause}")]
    Description {
        /// The machine.
        name: String,
        /// The problem.
        cause: DescriptionError,
    },
    /// The program to run was not found.
    #[error("{program}: not found in {searched}; check the spelling or give its path")]
    NoProgram {
        /// The name as the user wrote it.
        program: String,
        /// `PATH`, or the file system for a path.
        searched: String,
    },
    /// The guest cannot run the program.
    #[error("{program}: cannot be executed: {why}")]
    NotExecutable {
        /// The name as the user wrote it.
        program: String,
        /// The kernel's reason.
        why: String,
    },
    /// A library that a program needs was not found.
    #[error(
        "{program} needs {library}, which is not found; install it or name its directory in LD_LIBRARY_PATH"
    )]
    NoLibrary {
        /// The program or library that needs it.
        program: PathBuf,
        /// Name of the library.
        library: String,
    },
    /// A file to include was not found.
    #[error("--include {what}: neither a file or directory nor a program on PATH")]
    NothingToInclude {
        /// The name as the user wrote it.
        what: String,
    },
    /// A setting refers to a node that the machine lacks.
    #[error("--weights {node}=...: {machine} has no node {node}; its nodes are 0 to {last}")]
    NoNode {
        /// The machine.
        machine: String,
        /// The node as the user wrote it.
        node: usize,
        /// The machine's last node.
        last: usize,
    },
    /// The guest has its own version of this directory.
    #[error("{} cannot be included: the guest has a {own} of its own", path.display())]
    KernelsOwn {
        /// The path as the user wrote it.
        path: PathBuf,
        /// The directory, such as `/proc`.
        own: &'static str,
    },
    /// An operation on a file or directory failed.
    #[error("cannot {what} {}: {cause}{}", path.display(), remedy(cause))]
    System {
        /// The operation.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// An operation without a file failed.
    #[error("cannot {what}: {cause}")]
    Host {
        /// The operation.
        what: &'static str,
        /// The system's error.
        cause: io::Error,
    },
    /// QEMU ended before the program did.
    #[error("QEMU ended early ({status}){}{}", emulator_remedy(message), last_words(message))]
    EmulatorEnded {
        /// QEMU's exit status.
        status: String,
        /// QEMU's messages.
        message: String,
    },
    /// The guest's kernel crashed.
    #[error("the guest's kernel ended before the program did{}", last_words(console))]
    GuestEnded {
        /// The last lines of its console.
        console: String,
    },
    /// The guest could not be set up.
    #[error("the guest cannot run the program: {what}{}", last_words(console))]
    GuestFailed {
        /// The operation that failed.
        what: String,
        /// The last lines of its console.
        console: String,
    },
    /// The guest did not start the program in time.
    #[error(
        "the guest did not boot within {limit:?}; give it --boot-timeout or a less busy host, and \
         check kernel options of --append{}",
        last_words(console)
    )]
    BootTimeout {
        /// The limit.
        limit: Duration,
        /// The last lines of its console.
        console: String,
    },
    /// The guest did not acknowledge a signal.
    #[error(
        "the guest hangs: it did not take the signal for its program, and was ended; run it \
         again, on a less busy host if it happens often{}",
        last_words(console)
    )]
    GuestHangs {
        /// The last lines of its console.
        console: String,
    },
    /// The program did not end in time.
    #[error("the program did not end within {seconds} s (--timeout){}", last_words(console))]
    Timeout {
        /// The limit.
        seconds: f64,
        /// The last lines of its console.
        console: String,
    },
    /// `lab setup` failed.
    #[error("{what}: {message}")]
    Setup {
        /// The step.
        what: String,
        /// The tool's message.
        message: String,
    },
    /// `lab setup` does not support this system.
    #[error(
        "QEMU 10.0 with plugins, and a kernel, can be fetched on Debian 12 and 13 only; \
         {advice}"
    )]
    Unsupported {
        /// The packages to install instead.
        advice: String,
    },
}

impl From<DirectoryError> for LabError {
    fn from(DirectoryError { doing, path, cause }: DirectoryError) -> Self {
        Self::System { what: doing, path, cause }
    }
}

impl LabError {
    pub(crate) fn description(name: &str, cause: DescriptionError) -> Self {
        Self::Description { name: name.to_owned(), cause }
    }

    pub(crate) fn at<E: Into<io::Error>>(
        what: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(E) -> Self {
        let path = path.as_ref().to_owned();
        move |cause| Self::System { what, path, cause: cause.into() }
    }

    pub(crate) fn host<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |cause| Self::Host { what, cause: cause.into() }
    }

    /// The exit status that shells use for the same failure: 127 not found, 126 not executable, and
    /// 125 for numapilot's own failures.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::NoProgram { .. } => 127,
            Self::NotExecutable { .. } => 126,
            _ => 125,
        }
    }
}

/// A remedy for a system error.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free space there, or set XDG_CACHE_HOME to a file system with more"
        }
        io::ErrorKind::FileTooLarge => {
            "; include less, or raise the limit of file sizes (ulimit -f)"
        }
        io::ErrorKind::PermissionDenied => "; check its permissions",
        _ => "",
    }
}

/// A remedy for an error that QEMU reports.
fn emulator_remedy(message: &str) -> &'static str {
    if message.contains("cannot set up guest memory") {
        "; the host has too little memory: give a smaller --disk, or a machine with a smaller \
         lab.memory_per_node"
    } else {
        ""
    }
}

/// The last lines of some output, for the end of a message.
fn last_words(text: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = text.lines().map(|line| format!("\n    {line}")).collect();
    format!("; its last lines:{}", lines.concat())
}

//! Why an emulated machine did not run.

use std::io;
use std::path::{Path, PathBuf};

use numapilot_topology::description::DescriptionError;
use thiserror::Error;

/// What helps in most cases.
const SETUP: &str = "run: numapilot lab setup";

/// Why an emulated machine did not run. Each message names cause and remedy.
#[derive(Debug, Error)]
pub enum LabError {
    /// Neither home nor cache directory.
    #[error("there is no cache directory: neither XDG_CACHE_HOME nor HOME is set; set one")]
    NoHome,
    /// Another processor than the emulated one.
    #[error(
        "the lab runs this machine's programs on emulated x86-64 machines; this is {0}, whose \
         programs they cannot run"
    )]
    Processor(&'static str),
    /// No QEMU at all.
    #[error("no {program} on PATH, and none was fetched; {SETUP}")]
    NoEmulator {
        /// Its name.
        program: &'static str,
    },
    /// A QEMU without what the plugin needs.
    #[error("{} is version {version}; the lab needs {oldest} or newer; {SETUP}", path.display())]
    OldEmulator {
        /// Its file.
        path: PathBuf,
        /// As it says itself.
        version: String,
        /// What is needed.
        oldest: String,
    },
    /// A QEMU that loads no plugins.
    #[error("{} was built without plugins ({said}); {SETUP}", path.display())]
    NoPlugins {
        /// Its file.
        path: PathBuf,
        /// Its message.
        said: String,
    },
    /// A QEMU that does not run.
    #[error("{} does not run: {said}; {SETUP}", path.display())]
    BrokenEmulator {
        /// Its file.
        path: PathBuf,
        /// Its message.
        said: String,
    },
    /// No kernel was fetched.
    #[error("no kernel for the guest in {}; {SETUP}", directory.display())]
    NoKernel {
        /// Where it should be.
        directory: PathBuf,
    },
    /// Not a kernel.
    #[error("{} is no x86-64 Linux kernel; give a bzImage (vmlinuz)", path.display())]
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
        /// Its file name.
        name: &'static str,
        /// The directories.
        searched: String,
    },
    /// `mke2fs` is missing.
    #[error("mke2fs makes the guest's disk and is not here; Debian: apt-get install e2fsprogs")]
    NoMke2fs,
    /// `mke2fs` failed.
    #[error("mke2fs could not make the guest's disk: {said}")]
    Mke2fs {
        /// Its message.
        said: String,
    },
    /// A description that cannot be emulated.
    #[error("machine {name}: {cause}")]
    Description {
        /// Its name.
        name: String,
        /// What is wrong with it.
        cause: DescriptionError,
    },
    /// The program to run is not here.
    #[error("{program}: not found in {searched}; check the spelling or give its path")]
    NoProgram {
        /// As the user wrote it.
        program: String,
        /// `PATH` or where a path leads.
        searched: String,
    },
    /// The program is not one that the guest can run.
    #[error("{program}: cannot be executed: {why}")]
    NotExecutable {
        /// As the user wrote it.
        program: String,
        /// What the kernel said, or would say.
        why: String,
    },
    /// A library that a program needs is not here.
    #[error(
        "{program} needs {library}, which is not found; install it or name its directory in LD_LIBRARY_PATH"
    )]
    NoLibrary {
        /// The program or library that needs it.
        program: PathBuf,
        /// Its name.
        library: String,
    },
    /// Something to include is not here.
    #[error("--include {what}: neither a file or directory nor a program on PATH")]
    NothingToInclude {
        /// As the user wrote it.
        what: String,
    },
    /// A setting for a node that the machine lacks.
    #[error("--weights {node}=...: {machine} has no node {node}; its nodes are 0 to {last}")]
    NoNode {
        /// The machine.
        machine: String,
        /// As the user wrote it.
        node: usize,
        /// Its last node.
        last: usize,
    },
    /// Something that the guest has of its own.
    #[error("{} cannot be taken along: the guest has a {own} of its own", path.display())]
    KernelsOwn {
        /// As the user wrote it.
        path: PathBuf,
        /// `/proc`, for instance.
        own: &'static str,
    },
    /// A file, directory or system call failed.
    #[error("cannot {what} {}: {cause}{}", path.display(), remedy(cause))]
    System {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A step that has no file failed.
    #[error("cannot {what}: {cause}")]
    Host {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        cause: io::Error,
    },
    /// QEMU ended before the program did.
    #[error("QEMU ended early ({status}){}", last_words(said))]
    EmulatorEnded {
        /// Its status.
        status: String,
        /// Its messages.
        said: String,
    },
    /// The guest's kernel gave up.
    #[error("the guest's kernel ended before the program did{}", last_words(console))]
    GuestEnded {
        /// The last lines of its console.
        console: String,
    },
    /// The guest could not be set up.
    #[error("the guest cannot run the program: {what}{}", last_words(console))]
    GuestFailed {
        /// What failed in it.
        what: String,
        /// The last lines of its console.
        console: String,
    },
    /// The guest did not get to run the program.
    #[error(
        "the guest did not boot within {seconds} s; give it --boot-timeout, or a less busy \
         host{}",
        last_words(console)
    )]
    BootTimeout {
        /// The limit.
        seconds: u64,
        /// The last lines of its console.
        console: String,
    },
    /// The guest does not take a signal.
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
    /// Fetching failed.
    #[error("{what}: {said}")]
    Setup {
        /// Which step.
        what: String,
        /// The tool's message.
        said: String,
    },
    /// This system's packages are not known.
    #[error(
        "QEMU 9.1 or newer with plugins, and a kernel, can be fetched on Debian 12 and 13 only; \
         {advice}"
    )]
    Unsupported {
        /// What to install instead.
        advice: String,
    },
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

    /// The exit status that shells give to the same failure: 127 not found, 126 not
    /// executable, 125 anything that is numapilot's own.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::NoProgram { .. } => 127,
            Self::NotExecutable { .. } => 126,
            _ => 125,
        }
    }
}

/// What the user can do about an error of the system.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free space there, or set XDG_CACHE_HOME to a file system with more"
        }
        io::ErrorKind::FileTooLarge => "; give a smaller --disk",
        io::ErrorKind::PermissionDenied => "; check its permissions",
        _ => "",
    }
}

/// The last words of somebody, below the message.
fn last_words(text: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = text.lines().map(|line| format!("\n    {line}")).collect();
    format!("; its last lines:{}", lines.concat())
}

//! The plugin's arguments, and the files and descriptors that they name.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use numapilot_lab_model::{Model, QUANTUM_PS};
use numapilot_sys::shared::SharedWords;
use thiserror::Error;

use crate::report::ReportFile;

/// Why the plugin cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// An argument that is not `name=value` with a known name.
    #[error(
        "'{argument}' is not an argument of the lab's plugin; it takes model=FILE, report=FILE, mailbox=FILE, streams=DESCRIPTORS, scale=NUMBER, quantum=NANOSECONDS, paced=on, check=on and pmu=FILE"
    )]
    Unknown {
        /// The argument.
        argument: String,
    },
    /// A required argument is missing.
    #[error("argument {name}=FILE is missing")]
    Missing {
        /// Its name.
        name: &'static str,
    },
    /// A file cannot be used.
    #[error("{name}={}: {cause}", path.display())]
    File {
        /// The argument.
        name: &'static str,
        /// The file.
        path: PathBuf,
        /// The problem.
        cause: String,
    },
    /// QEMU does not export a function that the clock needs: it was built without loadable modules,
    /// or is another version.
    #[error(
        "this QEMU does not export {name}; the lab's clock needs a QEMU 10.0 with loadable modules, \
         such as the one that `numapilot lab setup` installs"
    )]
    Symbol {
        /// The missing symbol.
        name: String,
    },
    /// QEMU's virtual clock does not show the simulated time.
    #[error(
        "this QEMU's clock shows {shown} ns where the simulated time is {expected} ns; the lab's \
         clock needs a QEMU 10.0 such as the one that `numapilot lab setup` installs"
    )]
    Clock {
        /// QEMU's virtual clock, in nanoseconds.
        shown: i64,
        /// The simulated time on the guest's clock, in nanoseconds.
        expected: i64,
    },
    /// The accelerator's table is not laid out as in QEMU 10.0, or each CPU has its own thread.
    #[error(
        "this QEMU keeps its clock in another way; the lab's clock needs a QEMU 10.0 with \
         -accel tcg,thread=single, such as the one that `numapilot lab setup` installs"
    )]
    Accelerator,
    /// `streams` is not a list of four descriptors.
    #[error("streams={text}: give four descriptors, with colons between")]
    Streams {
        /// The argument's value.
        text: String,
    },
    /// An argument is not a positive number.
    #[error("{name}={text}: give a number from 1 on")]
    Number {
        /// The argument.
        name: &'static str,
        /// Its value.
        text: String,
    },
    /// QEMU and the model have different numbers of CPUs.
    #[error("the model has {model} CPUs, QEMU has {qemu}; start QEMU with -smp {model}")]
    Cpus {
        /// Number of CPUs in the model.
        model: usize,
        /// Number of CPUs in QEMU.
        qemu: i32,
    },
    /// QEMU emulates another architecture.
    #[error("the lab's plugin needs system emulation of x86-64 (qemu-system-x86_64), not {target}")]
    Target {
        /// QEMU's name of the architecture.
        target: String,
    },
}

/// The arguments as given; they are checked when they are used.
#[derive(Debug, Default)]
pub struct Arguments {
    model: Option<PathBuf>,
    report: Option<PathBuf>,
    pmu: Option<PathBuf>,
    mailbox: Option<PathBuf>,
    streams: String,
    scale: String,
    quantum: String,
    paced: bool,
    checks: bool,
}

/// The relation of simulated time to the guest's clocks and to the host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Seconds on the guest's clocks per simulated second.
    pub scale: u64,
    /// Length of a scheduling quantum in picoseconds: the limit of the difference between the
    /// clocks of the CPUs.
    pub quantum_ps: u64,
    /// Whether an idle machine sleeps until the host's clock catches up, as an interactive machine
    /// must. Otherwise it skips idle time.
    pub paced: bool,
}

impl Arguments {
    /// Parses `name=value` texts.
    ///
    /// # Errors
    /// [`StartError::Unknown`] for an unknown name.
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, StartError> {
        let mut parsed = Self::default();
        for argument in arguments {
            let (name, value) = argument.split_once('=').unwrap_or((&argument, ""));
            match name {
                "model" => parsed.model = Some(value.into()),
                "report" => parsed.report = Some(value.into()),
                "pmu" => parsed.pmu = Some(value.into()),
                "mailbox" => parsed.mailbox = Some(value.into()),
                "quantum" => value.clone_into(&mut parsed.quantum),
                "scale" => value.clone_into(&mut parsed.scale),
                "check" => parsed.checks = value == "on",
                "paced" => parsed.paced = value == "on",
                "streams" => value.clone_into(&mut parsed.streams),
                _ => return Err(StartError::Unknown { argument }),
            }
        }
        Ok(parsed)
    }

    /// Reads the model from its file.
    pub fn read_model(&self) -> Result<Model, StartError> {
        let path = self.model.clone().ok_or(StartError::Missing { name: "model" })?;
        let read = || -> io::Result<Model> { Ok(serde_json::from_slice(&std::fs::read(&path)?)?) };
        read().map_err(|e| StartError::File {
            name: "model",
            cause: e.to_string(),
            path: path.clone(),
        })
    }

    /// Opens the report file.
    pub fn open_report(&self) -> Result<ReportFile, StartError> {
        let path = self.report.clone().ok_or(StartError::Missing { name: "report" })?;
        ReportFile::open(&path).map_err(|e| StartError::File {
            name: "report",
            cause: e.to_string(),
            path,
        })
    }

    /// Maps the PMU's memory; `None` if accesses are not modelled.
    pub fn map_pmu(&self) -> Result<Option<SharedWords>, StartError> {
        self.pmu.as_deref().map(|path| map("pmu", path)).transpose()
    }

    /// Maps the mailbox through which process 1 of the guest calls the host.
    pub fn map_mailbox(&self) -> Result<SharedWords, StartError> {
        let path = self.mailbox.as_deref().ok_or(StartError::Missing { name: "mailbox" })?;
        map("mailbox", path)
    }

    /// Whether the plugin only checks that it can run in this QEMU.
    pub fn only_checks(&self) -> bool {
        self.checks
    }

    /// The pace; by default, the guest's clocks show simulated time, and a quantum is
    /// [`QUANTUM_PS`].
    pub fn pace(&self) -> Result<Pace, StartError> {
        let number = |name, text: &String, default| match text.as_str() {
            "" => Ok(default),
            _ => {
                let number = text.parse().ok().filter(|number| *number > 0);
                number.ok_or_else(|| StartError::Number { name, text: text.clone() })
            }
        };
        Ok(Pace {
            scale: number("scale", &self.scale, 1)?,
            quantum_ps: number("quantum", &self.quantum, QUANTUM_PS / 1000)?.saturating_mul(1000),
            paced: self.paced,
        })
    }

    /// The descriptors of standard input, output and error, and of the control socket.
    pub fn descriptors(&self) -> Result<[i32; 4], StartError> {
        let numbers = self.streams.split(':').map(str::parse).collect::<Result<Vec<i32>, _>>();
        let all = numbers.ok().and_then(|numbers| numbers.try_into().ok());
        all.ok_or_else(|| StartError::Streams { text: self.streams.clone() })
    }
}

/// Maps a file that other processes, or the guest, map as well.
fn map(name: &'static str, path: &Path) -> Result<SharedWords, StartError> {
    let file = File::options().read(true).write(true).open(path);
    let mapped = file.and_then(|file| SharedWords::map(&file));
    mapped.map_err(|e| StartError::File { name, cause: e.to_string(), path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Arguments, StartError> {
        Arguments::parse(arguments.iter().map(|a| (*a).to_owned()))
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(parse(&["modle=x"]).unwrap_err().to_string().contains("'modle=x'"));
        let arguments = parse(&["model=/nonexistent/m"]).unwrap();
        assert!(arguments.open_report().unwrap_err().to_string().contains("report=FILE"));
        let error = arguments.read_model().unwrap_err().to_string();
        assert!(error.starts_with("model=/nonexistent/m: No such file"), "{error}");
        assert!(arguments.map_pmu().unwrap().is_none());
        assert_eq!(parse(&["streams=3:4:5:6"]).unwrap().descriptors().unwrap(), [3, 4, 5, 6]);
        let error = parse(&["streams=3:x"]).unwrap().descriptors().unwrap_err().to_string();
        assert!(error.starts_with("streams=3:x: give four"), "{error}");
        let pace = parse(&["scale=20", "quantum=1000", "paced=on"]).unwrap().pace().unwrap();
        assert_eq!(pace, Pace { scale: 20, quantum_ps: 1_000_000, paced: true });
        let pace = parse(&[]).unwrap().pace().unwrap();
        assert_eq!((pace.scale, pace.quantum_ps), (1, QUANTUM_PS));
        let error = parse(&["scale=0"]).unwrap().pace().unwrap_err().to_string();
        assert_eq!(error, "scale=0: give a number from 1 on");
        let error = parse(&["pmu=/dev/null"]).unwrap().map_pmu().unwrap_err().to_string();
        assert!(error.starts_with("pmu=/dev/null: "), "{error}");
    }
}

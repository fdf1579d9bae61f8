//! The plugin's arguments, and the files that they name.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use numapilot_lab_model::Model;
use numapilot_sys::shared::SharedWords;
use thiserror::Error;

use crate::report::ReportFile;

/// Why the plugin cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// An argument that is not `name=value` with a known name.
    #[error(
        "'{argument}' is not an argument of the lab's plugin; it takes model=FILE, report=FILE, apic=NUMBERS and pmu=FILE"
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
    /// The number of APIC IDs differs from that of CPUs.
    #[error(
        "apic={text}: give the local APIC's number of each of {cpus} CPUs, with colons between"
    )]
    Apic {
        /// The given text.
        text: String,
        /// CPUs of the model.
        cpus: usize,
    },
    /// QEMU and the model have different numbers of CPUs.
    #[error("the model has {model} CPUs, QEMU has {qemu}; start QEMU with -smp {model}")]
    Cpus {
        /// In the model.
        model: usize,
        /// In QEMU.
        qemu: i32,
    },
    /// QEMU emulates another architecture.
    #[error("the lab's plugin needs system emulation of x86-64 (qemu-system-x86_64), not {target}")]
    Target {
        /// What QEMU emulates.
        target: String,
    },
}

/// The arguments.
#[derive(Debug, Default)]
pub struct Arguments {
    model: Option<PathBuf>,
    report: Option<PathBuf>,
    pmu: Option<PathBuf>,
    apic: String,
}

impl Arguments {
    /// Parses `name=value` texts.
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, StartError> {
        let mut parsed = Self::default();
        for argument in arguments {
            let (name, value) = argument.split_once('=').unwrap_or((&argument, ""));
            match name {
                "model" => parsed.model = Some(value.into()),
                "report" => parsed.report = Some(value.into()),
                "pmu" => parsed.pmu = Some(value.into()),
                "apic" => value.clone_into(&mut parsed.apic),
                _ => return Err(StartError::Unknown { argument }),
            }
        }
        Ok(parsed)
    }

    /// Reads the model.
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

    /// The local APIC ID of each CPU.
    pub fn apic_ids(&self, cpus: usize) -> Result<Vec<u32>, StartError> {
        let numbers = self.apic.split(':').map(str::parse).collect::<Result<Vec<u32>, _>>();
        let numbers = numbers.ok().filter(|numbers| numbers.len() == cpus);
        numbers.ok_or_else(|| StartError::Apic { text: self.apic.clone(), cpus })
    }

    /// Maps the PMU's memory, if there is any.
    pub fn map_pmu(&self) -> Result<Option<SharedWords>, StartError> {
        let Some(path) = self.pmu.clone() else { return Ok(None) };
        let file = File::options().read(true).write(true).open(&path);
        let mapped = file.and_then(|file| SharedWords::map(&file)).map(Some);
        mapped.map_err(|e| StartError::File { name: "pmu", cause: e.to_string(), path })
    }
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
        let arguments = parse(&["apic=0:1:4"]).unwrap();
        assert_eq!(arguments.apic_ids(3).unwrap(), [0, 1, 4]);
        let error = arguments.apic_ids(4).unwrap_err().to_string();
        assert!(error.starts_with("apic=0:1:4: ") && error.contains("4 CPUs"), "{error}");
        assert!(parse(&["apic=0:x"]).unwrap().apic_ids(2).is_err());
        let error = parse(&["pmu=/dev/null"]).unwrap().map_pmu().unwrap_err().to_string();
        assert!(error.starts_with("pmu=/dev/null: "), "{error}");
    }
}

//! What took effect on the far side of a launcher: written there, read here.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use numapilot_topology::{Extent, bounded, read_extent};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::task::Task;
use crate::effect::Outcome;
use crate::{Plan, regular_file};

const PREFIX: &str = "attest-";
const SUFFIX: &str = ".json";
/// Most bytes of a file. It has a line for each setting, and the variables of the plan.
const MOST: u64 = 16 << 20;

/// Why an attestation could not be written.
#[derive(Debug, Error)]
#[error("cannot write what took effect into {}; {}", directory.display(), self.remedy())]
pub struct AttestError {
    directory: PathBuf,
    source: io::Error,
}

impl AttestError {
    fn remedy(&self) -> &'static str {
        match self.source.kind() {
            ErrorKind::NotFound => {
                "make the directory, on a file system that both sides of the launcher see"
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "free space there, or give --attest another directory that both sides of the \
                 launcher see"
            }
            _ => {
                "give --attest a directory that you can write, on a file system that both sides of \
                 the launcher see"
            }
        }
    }
}

/// Why attestations could not be read.
#[derive(Debug, Error)]
#[error(
    "cannot read the attestations, {}: {cause}; remove it if numapilot run did not write it, and \
     run again", path.display()
)]
pub struct ReadError {
    path: PathBuf,
    cause: io::Error,
}

/// What one far end states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attestation {
    /// The host.
    pub host: String,
    /// The number of the process that ran the program.
    pub process: u32,
    /// The version of numapilot.
    pub version: String,
    /// What the launcher told the process.
    pub task: Option<Task>,
    /// The [topology](numapilot_topology::Machine::topology_hash) of the machine; absent if it could
    /// not be read.
    pub topology: Option<String>,
    /// The plan in one line.
    pub plan: String,
    /// The settings; absent until the program has ended.
    pub settings: Option<Vec<Outcome>>,
}

impl Attestation {
    /// Where the program ran, for a message.
    #[must_use]
    pub fn place(&self) -> String {
        let Self { host, process, .. } = self;
        match &self.task {
            Some(task) => format!("{host}, process {process} ({task})"),
            None => format!("{host}, process {process}"),
        }
    }
}

/// An attestation that is not finished. If its process is killed, the file says so.
#[derive(Debug)]
pub struct Attesting {
    directory: PathBuf,
    file: PathBuf,
    attestation: Attestation,
}

impl Attesting {
    /// Begins an attestation in a directory, before the program starts.
    ///
    /// # Errors
    /// [`AttestError`] if the directory cannot be written.
    pub fn begin(directory: &Path, plan: &Plan) -> Result<Self, AttestError> {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let attestation = Attestation {
            host: host.trim().to_owned(),
            process: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            task: Task::of_this_process(),
            topology: topology_hash(),
            plan: plan.to_string(),
            settings: None,
        };
        let file = write(directory, &attestation, None)
            .map_err(|source| AttestError { directory: directory.to_owned(), source })?;
        Ok(Self { directory: directory.to_owned(), file, attestation })
    }

    /// Completes it with what took effect.
    ///
    /// # Errors
    /// [`AttestError`] if the directory cannot be written.
    pub fn finish(self, settings: Vec<Outcome>) -> Result<(), AttestError> {
        let Self { directory, file, attestation } = self;
        let attestation = Attestation { settings: Some(settings), ..attestation };
        write(&directory, &attestation, Some(&file))
            .map_err(|source| AttestError { directory, source })
            .map(drop)
    }
}

/// The topology of this machine, if it can be read.
fn topology_hash() -> Option<String> {
    let machine = read_extent(Path::new("/"), Extent::Cpus).ok()?;
    Some(machine.topology_hash().to_string())
}

/// Writes a file as a whole, under a new name or in place of another one. Everybody may read it: the
/// far side may belong to another user.
fn write(directory: &Path, attestation: &Attestation, file: Option<&Path>) -> io::Result<PathBuf> {
    let mode = Permissions::from_mode(0o644);
    let prefix = format!("{PREFIX}{}-", attestation.process);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).permissions(mode);
    let mut new = builder.tempfile_in(directory)?;
    let mut text = serde_json::to_vec(attestation)?;
    text.push(b'\n');
    new.write_all(&text)?;
    let file = match file {
        Some(file) => file.to_owned(),
        None => {
            // The random part of the name distinguishes processes of several machines.
            let mut name = new.path().as_os_str().to_owned();
            name.push(SUFFIX);
            PathBuf::from(name)
        }
    };
    new.persist(&file)?;
    Ok(file)
}

/// Reads all attestations of a run.
///
/// # Errors
/// [`ReadError`] of the first file that cannot be read.
pub fn read(directory: &Path) -> Result<Vec<Attestation>, ReadError> {
    let mut paths =
        paths(directory).map_err(|cause| ReadError { path: directory.to_owned(), cause })?;
    paths.sort();
    let one = |path: PathBuf| read_one(&path).map_err(|cause| ReadError { path, cause });
    paths.into_iter().map(one).collect()
}

fn paths(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if name.starts_with(PREFIX.as_bytes()) && name.ends_with(SUFFIX.as_bytes()) {
            paths.push(entry.path());
        }
    }
    Ok(paths)
}

fn read_one(path: &Path) -> io::Result<Attestation> {
    let file = regular_file::open(path)?;
    Ok(serde_json::from_slice(&bounded::read_bytes_of(file, MOST)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Note, Thp};

    #[test]
    fn a_directory_that_exists_is_not_to_be_made() {
        let text = |number| {
            let source = io::Error::from_raw_os_error(number);
            AttestError { directory: "/d".into(), source }.to_string()
        };
        assert!(text(libc::ENOENT).contains("/d; make the directory"));
        assert!(text(libc::ENOSPC).contains("/d; free space there"));
        assert!(text(libc::EROFS).contains("/d; give --attest a directory that you can write"));
    }

    #[test]
    fn what_is_written_there_is_read_here() {
        let directory = tempfile::tempdir().unwrap();
        let plan = Plan { thp: Thp::Never, ..Plan::default() };
        let settings = || -> Vec<_> {
            read(directory.path()).unwrap().into_iter().map(|a| a.settings).collect()
        };
        let one = Attesting::begin(directory.path(), &plan).unwrap();
        assert_eq!(settings(), [None]);
        one.finish(Vec::new()).unwrap();
        assert_eq!(settings(), [Some(Vec::new())]);
        let two = Attesting::begin(directory.path(), &plan).unwrap();
        two.finish(vec![Note::new("thp never", "refused", "allow it").into()]).unwrap();
        let all = read(directory.path()).unwrap();
        assert_eq!(all.len(), 2);
        for attestation in all {
            assert_eq!(attestation.plan, "thp never");
            assert_eq!(attestation.process, std::process::id());
            let here = numapilot_topology::read(Path::new("/")).unwrap().topology_hash();
            assert_eq!(attestation.topology, Some(here.to_string()));
        }
        let error = Attesting::begin(Path::new("/nonexistent"), &plan).unwrap_err().to_string();
        assert!(error.contains("/nonexistent") && error.contains("both sides"), "{error}");
    }

    #[test]
    fn only_regular_files_of_a_limited_size_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("other.json"), "{").unwrap();
        fs::write(path("attest-unfinished"), "{").unwrap();
        assert_eq!(read(directory.path()).unwrap(), []);
        let file = path("attest-1-a.json");
        let refused = |cause: &str| {
            let error = read(directory.path()).unwrap_err().to_string();
            fs::remove_file(&file).unwrap();
            for part in [file.to_str().unwrap(), cause, "remove it if"] {
                assert!(error.contains(part), "{error}");
            }
        };
        fs::write(&file, "{").unwrap();
        refused("EOF");
        std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
        refused("symbolic links");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &file, mode).unwrap();
        refused("not a regular file");
        fs::File::create(&file).unwrap().set_len(MOST + 1).unwrap();
        refused("the limit");
    }
}

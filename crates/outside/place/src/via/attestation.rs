//! What took effect on the far side of a launcher: written there, read here.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use numapilot_topology::bounded;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Plan;
use crate::effect::{Outcome, State};

const PREFIX: &str = "attest-";
const SUFFIX: &str = ".json";
/// Most bytes of a file. It has a line for each setting, and the variables of the plan.
const MOST: u64 = 16 << 20;

/// Why an attestation could not be written.
#[derive(Debug, Error)]
#[error(
    "cannot write what took effect into {}; make the directory, on a file system that both sides of \
     the launcher see", directory.display()
)]
pub struct AttestError {
    directory: PathBuf,
    source: io::Error,
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
    /// The plan in one line.
    pub plan: String,
    /// The settings; absent until the program has ended.
    pub settings: Option<Vec<Outcome>>,
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

/// Writes a file as a whole, under a new name or in place of another one. Everybody may read it: the
/// far side may belong to another user.
fn write(directory: &Path, attestation: &Attestation, file: Option<&Path>) -> io::Result<PathBuf> {
    let mode = Permissions::from_mode(0o644);
    let prefix = format!("{PREFIX}{}-", attestation.process);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).permissions(mode);
    let mut new = builder.tempfile_in(directory)?;
    new.write_all(&serde_json::to_vec(attestation)?)?;
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

/// Others may write into the directory: a link could lead to a device, and a FIFO would wait for a
/// writer.
fn read_one(path: &Path) -> io::Result<Attestation> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"));
    }
    Ok(serde_json::from_slice(&bounded::read_bytes_of(file, MOST)?)?)
}

/// Why a run does not count.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Missing {
    /// No far end has attested anything.
    #[error(
        "no attestation: numapilot run did not begin on the other side, or the directory of \
         --attest is not shared with it"
    )]
    Nothing,
    /// A far end could not run the program. It has said so itself.
    #[error("{0}")]
    NotRun(String),
    /// A far end attests something else, or nothing but that it began.
    #[error("{0}")]
    Other(String),
}

/// Checks that all far ends ran this plan, and that no setting was without effect.
///
/// # Errors
/// [`Missing`], with host and reason.
pub fn judge(plan: &Plan, attestations: &[Attestation]) -> Result<(), Missing> {
    if attestations.is_empty() {
        return Err(Missing::Nothing);
    }
    let plan = plan.to_string();
    for Attestation { host, process, plan: attested, settings } in attestations {
        let text = |reason: String| format!("{host}, process {process}: {reason}");
        let other = |reason| Err(Missing::Other(text(reason)));
        if *attested != plan {
            return other(format!("the plan was '{attested}', not '{plan}'"));
        }
        let Some(settings) = settings else {
            return other("numapilot run was ended before it could attest what took effect".into());
        };
        if let Some(without) = settings.iter().find(|s| s.state == State::NotInEffect) {
            if without.is_of_failed_run() {
                return Err(Missing::NotRun(text(without.to_string())));
            }
            return other(without.to_string());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Note, Thp};

    #[test]
    fn what_is_written_there_is_judged_here() {
        let directory = tempfile::tempdir().unwrap();
        let plan = Plan { thp: Thp::Never, ..Plan::default() };
        let judged = |plan: &Plan| judge(plan, &read(directory.path()).unwrap());
        assert_eq!(judged(&plan), Err(Missing::Nothing));
        let one = Attesting::begin(directory.path(), &plan).unwrap();
        let reason = judged(&plan).unwrap_err().to_string();
        assert!(reason.contains("ended before it could attest"), "{reason}");
        one.finish(Vec::new()).unwrap();
        assert_eq!(judged(&plan), Ok(()));
        let reason = judged(&Plan::default()).unwrap_err().to_string();
        assert!(reason.contains("the plan was 'thp never', not 'default'"), "{reason}");
        let two = Attesting::begin(directory.path(), &plan).unwrap();
        two.finish(vec![Note::new("thp never", "refused", "allow it").into()]).unwrap();
        assert_eq!(read(directory.path()).unwrap().len(), 2);
        let reason = judged(&plan).unwrap_err().to_string();
        assert!(reason.ends_with("thp never: not in effect: refused; allow it"), "{reason}");
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

    #[test]
    fn a_program_that_could_not_be_run_is_distinguished() {
        let directory = tempfile::tempdir().unwrap();
        let plan = Plan::default();
        let one = Attesting::begin(directory.path(), &plan).unwrap();
        one.finish(vec![Outcome::failed("x: not found".into())]).unwrap();
        let judged = judge(&plan, &read(directory.path()).unwrap());
        assert!(matches!(judged, Err(Missing::NotRun(_))), "{judged:?}");
    }
}

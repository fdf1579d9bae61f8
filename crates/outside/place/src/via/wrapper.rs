//! Scripts in place of an interpreter, for launchers that run one by its path: a script starts it by
//! `numapilot run`. They are in the directory of the run, which the machines share.
//!
//! Source: Spark's `AbstractCommandBuilder.buildJavaCommand` (launcher/) takes `bin/java` of the
//! executor's JAVA_HOME; the schedulers of dask-jobqueue take `python` of their configuration
//! (jobqueue.yaml), and `dask ssh` takes --remote-python.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::prepare::find_program;
use crate::shell::quote;

/// Why a launcher cannot be made to start programs by `numapilot run`.
#[derive(Debug, Error)]
pub enum WrapperError {
    /// The interpreter is missing.
    #[error("--via {launcher} finds no {program}; {remedy}")]
    NoInterpreter {
        /// The name of the template.
        launcher: &'static str,
        /// The interpreter.
        program: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// The script cannot be written.
    #[error(
        "cannot write {}, which starts the interpreter on the other side: {cause}; give --attest \
         DIR, a directory that you can write, on a file system that the machines share",
        path.display()
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// There is no directory to write it to.
    #[error(
        "--via {launcher} writes a file for a run and removes it at its end, so no command can be \
         printed; `numapilot profile export` prints what {launcher} itself can set"
    )]
    NoDirectory {
        /// The name of the template.
        launcher: &'static str,
    },
    /// The command is not the launcher's.
    #[error("--via {launcher} starts {expected}, not {command}; {remedy}")]
    OtherCommand {
        /// The name of the template.
        launcher: &'static str,
        /// The programs that it knows.
        expected: String,
        /// The user's command.
        command: String,
        /// The remedy.
        remedy: &'static str,
    },
}

/// Writes a Java home below the directory: that of this machine, with a `bin/java` that starts the
/// real one by `run`, the words of `numapilot run` up to `--`.
pub(super) fn java_home(directory: &Path, run: &[OsString]) -> Result<PathBuf, WrapperError> {
    let real = real_java_home().ok_or(WrapperError::NoInterpreter {
        launcher: "spark",
        program: "java",
        remedy: "set JAVA_HOME, or put java on PATH; the other machines need it at the same path",
    })?;
    let home = directory.join("java-home");
    let bin = home.join("bin");
    let made = private_directory(&home)
        .and_then(|()| private_directory(&bin))
        .and_then(|()| link_all(&real, &home, "bin"))
        .and_then(|()| link_all(&real.join("bin"), &bin, "java"));
    made.map_err(|cause| WrapperError::Write { path: bin.clone(), cause })?;
    let first = [b"JAVA_HOME=".to_vec(), quote(real.as_os_str())].concat();
    let lines = [first, b"export JAVA_HOME".to_vec()];
    script(&bin.join("java"), &lines, run, &real.join("bin/java"))?;
    Ok(home)
}

/// Writes a script `python` into the directory, which starts the real one by `run`.
pub(super) fn python(directory: &Path, run: &[OsString]) -> Result<PathBuf, WrapperError> {
    let real =
        ["python3", "python"].into_iter().find_map(on_path).ok_or(WrapperError::NoInterpreter {
            launcher: "dask",
            program: "python3",
            remedy: "activate the environment of Dask, so that python3 is on PATH",
        })?;
    let path = directory.join("python");
    script(&path, &[], run, &real)?;
    Ok(path)
}

fn script(
    path: &Path,
    lines: &[Vec<u8>],
    run: &[OsString],
    program: &Path,
) -> Result<(), WrapperError> {
    let mut text = b"#!/bin/sh\n".to_vec();
    for line in lines {
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    text.extend_from_slice(b"exec");
    for word in run.iter().map(OsString::as_os_str).chain([program.as_os_str()]) {
        text.push(b' ');
        text.extend(quote(word));
    }
    text.extend_from_slice(b" \"$@\"\n");
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o700)
        .open(path)
        .and_then(|mut file| file.write_all(&text));
    written.map_err(|cause| WrapperError::Write { path: path.to_owned(), cause })
}

fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Links everything in a directory into another one, except for one entry.
fn link_all(from: &Path, to: &Path, except: &str) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_name() != except {
            symlink(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

fn on_path(name: &str) -> Option<PathBuf> {
    find_program(name.as_ref(), &std::env::var_os("PATH")?)
}

/// The Java home of this machine: that of the user, or the one to which `java` leads.
fn real_java_home() -> Option<PathBuf> {
    let given = std::env::var_os("JAVA_HOME").map(PathBuf::from);
    let of_path = || Some(on_path("java")?.canonicalize().ok()?.parent()?.parent()?.to_owned());
    given.filter(|home| home.join("bin/java").is_file()).or_else(of_path)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_script_passes_arguments_and_the_interpreter_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("python");
        let run = ["printf".into(), "[%s]".into(), "a 'b' $c".into()];
        script(&path, &[b"X=1".to_vec()], &run, Path::new("/real")).unwrap();
        let output = Command::new(&path).args(["-m", "x y"]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "[a 'b' $c][/real][-m][x y]");
        let error = script(&path, &[], &run, Path::new("/real")).unwrap_err().to_string();
        assert!(error.contains("File exists") && error.contains("give --attest DIR"), "{error}");
    }

    #[test]
    fn everything_but_one_entry_is_linked() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in ["java", "javac"] {
            fs::write(from.path().join(name), name).unwrap();
        }
        link_all(from.path(), to.path(), "java").unwrap();
        assert!(!to.path().join("java").exists());
        assert_eq!(fs::read_to_string(to.path().join("javac")).unwrap(), "javac");
    }
}

//! Turns a test into a command: finds the program and its input files, and replaces placeholders.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use regex::Regex;
use serde::Serialize;

use crate::suite::Test;

/// Directories of a mimalloc-bench checkout that have programs and inputs, besides its top
/// directory.
const FOLDERS: [&str; 6] =
    ["", "out/bench", "bench/espresso", "bench/barnes", "bench/z3", "benchmarks"];

/// A test that can run.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The name.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Standard input.
    pub stdin: Option<PathBuf>,
    /// Matches the amount of work in the output.
    pub work: Option<Regex>,
    /// Matches the ratio of resident to requested memory in the output.
    pub memory: Option<Regex>,
    /// The behaviour that it stresses.
    pub about: String,
    /// Its number of threads, if that can be chosen.
    pub threads: NonZeroUsize,
    /// Whether every run prints the same.
    pub is_deterministic: bool,
}

/// A test that cannot run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The name.
    pub test: String,
    /// What was not found, and where.
    pub reason: String,
}

/// The directories to search, and the values of placeholders.
#[derive(Clone, Debug)]
pub struct Places {
    /// Directories with programs, in order of preference.
    pub directories: Vec<PathBuf>,
    /// Directory of the input files of installed programs.
    pub inputs: Option<PathBuf>,
    /// The program with the verb `bench`, for numapilot's own tests.
    pub numapilot: PathBuf,
    /// Number of threads of a test.
    pub threads: NonZeroUsize,
}

impl Places {
    /// Finds the program and files of a test.
    ///
    /// # Errors
    /// [`Missing`] names the file that was not found.
    pub fn ready(&self, test: &Test) -> Result<Ready, Missing> {
        let missing = |reason| Missing { test: test.name.clone(), reason };
        let mut command = match &test.program {
            None => vec![self.numapilot.clone().into(), "bench".into()],
            Some(program) => vec![self.program(program).map_err(missing)?.into()],
        };
        for program in &test.needs {
            self.program(program).map_err(missing)?;
        }
        for argument in &test.arguments {
            command.push(self.argument(argument).map_err(missing)?);
        }
        let stdin = test.stdin.as_ref().map(|name| self.file(name)).transpose();
        Ok(Ready {
            name: test.name.clone(),
            command,
            stdin: stdin.map_err(missing)?,
            work: test.work.clone(),
            memory: test.memory.clone(),
            about: test.about.clone(),
            threads: self.threads,
            is_deterministic: test.is_deterministic,
        })
    }

    fn argument(&self, argument: &str) -> Result<OsString, String> {
        match argument.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            None => Ok(argument.into()),
            Some("threads") => Ok(self.threads.to_string().into()),
            Some(name) => self.file(name).map(Into::into),
        }
    }

    /// The path of a program: from the directories, or else from `PATH`.
    fn program(&self, name: &str) -> Result<PathBuf, String> {
        let installed = || {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).map(|d| d.join(name)).find(|p| p.is_file())
        };
        self.find(name).or_else(installed).ok_or_else(|| match self.directories.as_slice() {
            [] => format!("no program {name} in $PATH"),
            _ => format!("no program {name} in {} or $PATH", self.searched()),
        })
    }

    fn file(&self, name: &str) -> Result<PathBuf, String> {
        let input = self.inputs.as_ref().map(|directory| directory.join(name));
        self.find(name)
            .or_else(|| input.filter(|path| path.is_file()))
            .ok_or_else(|| format!("no file {name} in {}", self.searched()))
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
        let folders = self.directories.iter().flat_map(|top| {
            let own = Path::new("benchmarks").join(name);
            FOLDERS.iter().map(|folder| top.join(folder)).chain([top.join(own)])
        });
        folders.map(|folder| folder.join(name)).find(|path| path.is_file())
    }

    fn searched(&self) -> String {
        let names: Vec<_> = self.directories.iter().map(|d| d.display().to_string()).collect();
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::suite::Suite;

    #[test]
    fn programs_and_inputs_are_found_in_a_checkout() {
        let top = tempfile::tempdir().unwrap();
        let put = |path: &str| {
            let path = top.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            path
        };
        let places = Places {
            directories: vec![top.path().to_owned()],
            inputs: None,
            numapilot: "/usr/bin/numapilot".into(),
            threads: NonZeroUsize::new(3).unwrap(),
        };
        let suite = Suite::standard().unwrap();
        let test = |name: &str| suite.foreign.iter().find(|t| t.name == name).unwrap();
        let reason = places.ready(test("espresso")).unwrap_err().reason;
        assert!(reason.starts_with("no program espresso in /"), "{reason}");
        let program = put("out/bench/espresso");
        let reason = places.ready(test("espresso")).unwrap_err().reason;
        assert!(reason.starts_with("no file largest.espresso"), "{reason}");
        let input = put("bench/espresso/largest.espresso");
        assert_eq!(places.ready(test("espresso")).unwrap().command, [program, input]);

        put("benchmarks/threadtest/threadtest");
        let command = places.ready(test("threadtest")).unwrap().command;
        assert_eq!(command[1], "3");

        let own = places.ready(&suite.own[0]).unwrap().command;
        assert_eq!(own[..4], ["/usr/bin/numapilot", "bench", "alloc", "mix"].map(OsString::from));
    }
}

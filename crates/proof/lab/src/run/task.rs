//! From a request to what process 1 is told.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use numapilot_lab_init::{DIRECTORY, Setting, Task};
use numapilot_place::elf::{Kind, inspect};
use numapilot_place::find_program;

use super::{Request, Streams, Tuning};
use crate::{LabError, image};

/// Where the guest looks for programs besides where the host does.
const NO_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Tells numapilot where its libraries are.
const LIBRARIES: &str = "NUMAPILOT_LIB_DIR";

/// What process 1 is to do.
pub fn of(request: &Request) -> Result<Task, LabError> {
    let program = program(request.command.first().map_or(OsStr::new(""), OsString::as_os_str))?;
    Ok(Task {
        hostname: request.shape.name.clone().into(),
        program,
        arguments: request.command.clone(),
        environment: environment(env::vars_os().collect()),
        directory: env::current_dir().map_err(LabError::host("find the working directory"))?,
        user: request.user,
        settings: settings(&request.tuning),
        terminal: match request.streams {
            Streams::Pipes => None,
            Streams::Terminal(size) => Some(size),
        },
    })
}

/// The program's file, absolute, if the guest can run it.
fn program(name: &OsStr) -> Result<PathBuf, LabError> {
    let shown = || name.to_string_lossy().into_owned();
    let path = env::var_os("PATH").unwrap_or_else(|| NO_PATH.into());
    let Some(found) = find_program(name, &path) else {
        let given = Path::new(name);
        if given.components().count() > 1 && given.exists() {
            let why = if given.is_dir() { "it is a directory" } else { "permission denied" };
            return Err(LabError::NotExecutable { program: shown(), why: why.to_owned() });
        }
        let searched = if given.components().count() > 1 { shown() } else { "PATH".to_owned() };
        return Err(LabError::NoProgram { program: shown(), searched });
    };
    let found = std::path::absolute(&found).map_err(LabError::at("find", &found))?;
    let why = |why: String| LabError::NotExecutable { program: shown(), why };
    let binary = inspect(&found).map_err(|error| why(error.to_string()))?;
    match binary.kind {
        Kind::Dynamic { native: false, .. } => {
            Err(why("it is for another processor than x86-64".to_owned()))
        }
        Kind::Other => Err(why("it is neither a program nor a script with a #! line".to_owned())),
        _ => Ok(found),
    }
}

/// Arguments that name files of this machine: scripts and data, which the program is to find.
pub fn named_files(command: &[OsString]) -> Vec<PathBuf> {
    let files = command.iter().skip(1).map(PathBuf::from).filter(|path| path.is_file());
    files.filter(|path| !image::is_kernels_own(path)).collect()
}

/// The host's, with numapilot on the path.
fn environment(mut all: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
    match all.iter_mut().find(|(name, _)| name == "PATH") {
        Some((_, path)) => {
            path.push(":");
            path.push(DIRECTORY);
        }
        None => all.push(("PATH".into(), format!("{NO_PATH}:{DIRECTORY}").into())),
    }
    all.retain(|(name, _)| name != LIBRARIES);
    all.push((LIBRARIES.into(), DIRECTORY.into()));
    all
}

fn settings(tuning: &Tuning) -> Vec<Setting> {
    let setting = |path: String, value: String| Setting { path: path.into(), value };
    let thp = tuning.thp.iter().map(|value| {
        setting("/sys/kernel/mm/transparent_hugepage/enabled".to_owned(), value.clone())
    });
    let balancing = tuning
        .numa_balancing
        .iter()
        .map(|value| setting("/proc/sys/kernel/numa_balancing".to_owned(), value.to_string()));
    let weights = tuning.weights.iter().map(|(node, weight)| {
        let path = format!("/sys/kernel/mm/mempolicy/weighted_interleave/node{node}");
        setting(path, weight.to_string())
    });
    thp.chain(balancing).chain(weights).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_cannot_run_there_are_refused_here() {
        let error = |name: &str| program(OsStr::new(name)).unwrap_err();
        assert_eq!(error("no-such-program-here").exit_status(), 127);
        assert_eq!(error("/no/such/program").exit_status(), 127);
        assert_eq!(error("/etc").exit_status(), 126);
        assert_eq!(error("/etc/passwd").exit_status(), 126);
        assert_eq!(program(OsStr::new("sh")).unwrap().file_name().unwrap(), "sh");
    }

    #[test]
    fn numapilot_is_found_in_the_guest() {
        let pair = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        let found =
            environment(vec![pair("PATH", "/bin"), pair(LIBRARIES, "/host"), pair("A", "b")]);
        assert!(found.contains(&pair("PATH", "/bin:/.numapilot")), "{found:?}");
        assert!(found.contains(&pair("A", "b")) && found.contains(&pair(LIBRARIES, DIRECTORY)));
        assert_eq!(found.len(), 3);
        assert!(environment(Vec::new())[0].1.to_string_lossy().ends_with(":/.numapilot"));
    }

    #[test]
    fn tuning_becomes_files() {
        let tuning = Tuning {
            thp: Some("never".to_owned()),
            numa_balancing: Some(0),
            weights: vec![(1, 3)],
        };
        let lines: Vec<String> =
            settings(&tuning).iter().map(|s| format!("{} {}", s.path.display(), s.value)).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        /sys/kernel/mm/transparent_hugepage/enabled never
        /proc/sys/kernel/numa_balancing 0
        /sys/kernel/mm/mempolicy/weighted_interleave/node1 3
        ");
    }
}

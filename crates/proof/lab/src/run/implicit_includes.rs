//! The files that a guest gets without an option: those in the program's arguments, the usual tools
//! of scripts, the allocators of plans, and the user's language and terminal.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use numapilot_lab_init::Task;
use numapilot_place::elf::interpreter;
use numapilot_place::{AllocatorChoice, Profile, allocators, find_program};

use super::OWN_PROGRAMS;
use crate::image;

/// Interpreters whose scripts mainly start other programs.
const SHELLS: [&str; 6] = ["ash", "bash", "dash", "ksh", "sh", "zsh"];

/// The usual tools of shell scripts; those that exist on this machine are included.
const TOOLS: [&str; 62] = [
    "awk", "basename", "cat", "chmod", "chown", "cp", "cut", "date", "dd", "df", "diff", "dirname",
    "dmesg", "du", "env", "expr", "find", "free", "grep", "head", "hostname", "id", "kill", "less",
    "ln", "locale", "ls", "mkdir", "mktemp", "mount", "mv", "nproc", "numactl", "numastat",
    "printf", "ps", "pwd", "readlink", "rm", "rmdir", "sed", "seq", "setsid", "sleep", "sort",
    "stat", "stty", "sync", "tail", "tar", "taskset", "tee", "timeout", "top", "touch", "tr",
    "uname", "uniq", "vi", "wc", "which", "xargs",
];

/// Where the C library keeps its locales (locale(7)).
const LANGUAGES: &str = "/usr/lib/locale";
/// Where terminals are described (terminfo(5)), in order of preference.
const TERMINALS: [&str; 3] = ["/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo"];

/// The files for a task.
pub fn for_task(task: &Task) -> Vec<PathBuf> {
    let path = value(task, "PATH");
    let mut all = named(&task.arguments);
    let run = run(&task.arguments, path);
    if is_script(&task.program) || run.iter().any(|program| is_script(program)) {
        all.extend(TOOLS.iter().filter_map(|tool| find_program(tool.as_ref(), path)));
    }
    all.extend(run);
    all.extend(allocators_of(&task.arguments));
    all.extend(languages(task, Path::new(LANGUAGES)));
    if task.terminal.is_some() {
        let directories = TERMINALS.map(Path::new);
        all.extend(description_of(value(task, "TERM"), &directories));
    }
    all
}

/// Arguments that name files of this machine, such as scripts and data.
fn named(arguments: &[OsString]) -> Vec<PathBuf> {
    let files = arguments.iter().skip(1).map(PathBuf::from).filter(|path| path.is_file());
    files.filter(|path| !image::is_kernels_own(path)).collect()
}

/// Programs that other programs start, as `numapilot stat -- PROGRAM` does: those after `--`.
/// numapilot's programs are in the guest anyway.
fn run(arguments: &[OsString], path: &OsStr) -> Vec<PathBuf> {
    let is_own = |program: &OsString| OWN_PROGRAMS.iter().any(|own| program == own);
    let pairs = arguments.windows(2).filter(|pair| pair[0] == "--" && !is_own(&pair[1]));
    pairs.filter_map(|pair| find_program(&pair[1], path)).collect()
}

/// The libraries of the allocators that the arguments of numapilot's programs name: with
/// `--allocator`, or in a profile. One that is not installed is reported in the guest.
fn allocators_of(arguments: &[OsString]) -> Vec<PathBuf> {
    if !OWN_PROGRAMS.iter().any(|own| arguments.iter().any(|argument| argument == own)) {
        return Vec::new();
    }
    let value_of = |option: &str| -> Vec<String> {
        let (alone, with_value) = (format!("--{option}"), format!("--{option}="));
        let next = arguments.windows(2).filter(|pair| pair[0] == alone.as_str());
        let joined = arguments.iter().filter_map(|argument| argument.to_str());
        let joined = joined.filter_map(|argument| argument.strip_prefix(&with_value));
        let next = next.filter_map(|pair| pair[1].to_str());
        next.chain(joined).map(str::to_owned).collect()
    };
    let named = value_of("allocator").into_iter().map(AllocatorChoice::from);
    let profiles =
        value_of("profile").into_iter().filter_map(|path| Profile::load(path.as_ref()).ok());
    let choices = named.chain(profiles.map(|profile| profile.plan.allocator));
    choices.filter_map(|choice| Some(allocators::find(&choice).ok()??.path)).collect()
}

/// Whether a program is a shell or a script of one.
fn is_script(program: &Path) -> bool {
    let mut path = program.to_owned();
    // The kernel follows up to four interpreters that are scripts themselves.
    for _ in 0..5 {
        if is_shell(&path) {
            return true;
        }
        // A file that cannot be read causes an error when it is included.
        let Ok(Some(line)) = interpreter(&path) else { return false };
        path = line.named_by_env().map_or(line.interpreter.clone(), PathBuf::from);
    }
    false
}

fn is_shell(program: &Path) -> bool {
    // `/bin/sh` is a link.
    let real = fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    let names = [program.file_name(), real.file_name()];
    SHELLS.iter().any(|shell| names.contains(&Some(OsStr::new(shell))))
}

fn value<'a>(task: &'a Task, name: &str) -> &'a OsStr {
    let found = task.environment.iter().find(|(known, _)| known == name);
    found.map_or(OsStr::new(""), |(_, value)| value)
}

/// The locales that the environment names; `C` and `POSIX` need no files.
fn languages(task: &Task, directory: &Path) -> Vec<PathBuf> {
    // The stem `de_DE` of `de_DE.UTF-8@euro`, whose file may be named `de_DE.utf8@euro`.
    fn stem(name: &str) -> &str {
        name.split(['.', '@']).next().unwrap_or(name)
    }
    let variables = task.environment.iter().filter(|(name, _)| {
        let name = name.to_string_lossy();
        name == "LANG" || name.starts_with("LC_")
    });
    let values = variables.filter_map(|(_, value)| value.to_str());
    let names: Vec<&str> = values.filter(|name| !["", "C", "POSIX"].contains(name)).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    entries
        .filter(|entry| {
            let file = entry.file_name().to_string_lossy().into_owned();
            file == "locale-archive" || names.iter().any(|name| stem(name) == stem(&file))
        })
        .map(|entry| entry.path())
        .collect()
}

/// The description of a terminal type, such as `x/xterm`.
fn description_of(kind: &OsStr, directories: &[&Path]) -> Option<PathBuf> {
    let kind = kind.to_str().filter(|kind| !kind.contains('/'))?;
    let first = kind.chars().next()?.to_string();
    directories.iter().map(|d| d.join(&first).join(kind)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn shells_and_their_scripts_are_known() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script");
        for (line, expected) in
            [("#!/bin/sh\n", true), ("#! /usr/bin/env bash\n", true), ("#!/usr/bin/env x\n", false)]
        {
            fs::write(&script, line).unwrap();
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
            assert_eq!(is_script(&script), expected, "{line}");
        }
        assert!(is_script(Path::new("/bin/sh")));
        assert!(!is_script(Path::new("/bin/cat")));
    }

    #[test]
    fn programs_that_others_run_are_taken_with_what_their_scripts_use() {
        let taken = |line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let program = find_program(&arguments[0], OsStr::new("/usr/bin:/bin")).unwrap();
            let environment = vec![("PATH".into(), "/usr/bin:/bin".into())];
            let task = Task { program, arguments, environment, ..Task::default() };
            let names =
                for_task(&task).into_iter().filter_map(|path| path.file_name().map(OsString::from));
            names.collect::<Vec<_>>()
        };
        assert_eq!(taken("env -- cat -- id"), ["cat", "id"]);
        assert!(taken("env cat -- nothing-of-this-name numapilot").is_empty());
        let nested = taken("env -- sh -c x");
        assert!(
            ["sh", "tail"].iter().all(|name| nested.contains(&OsString::from(name))),
            "{nested:?}"
        );
    }

    #[test]
    fn allocators_of_plans_are_taken() {
        let directory = tempfile::tempdir().unwrap();
        // The C library has a malloc.
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let libraries = maps.lines().filter_map(|line| line.split_whitespace().last());
        let Some(library) = libraries.into_iter().find(|path| path.contains("/libc.so")) else {
            return;
        };
        let profile = directory.path().join("profile.toml");
        fs::write(&profile, format!("allocator = \"{library}\"\n")).unwrap();
        let profile = profile.to_str().unwrap();
        for (line, expected) in [
            (format!("numapilot run --allocator {library} -- ls"), 1),
            (format!("numapilot run --allocator={library} -- ls"), 1),
            (format!("numapilot run --profile {profile} -- ls"), 1),
            (format!("ls --allocator={library}"), 0),
            ("numapilot run --allocator no-such -- ls".to_owned(), 0),
            ("numapilot run --allocator".to_owned(), 0),
        ] {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let taken = allocators_of(&arguments);
            assert_eq!(taken, vec![PathBuf::from(library); expected], "{line}");
        }
    }

    #[test]
    fn only_languages_that_are_used_are_taken() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["C.utf8", "de_DE.utf8", "en_US.utf8", "locale-archive"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let taken = |name: &str, language: &str| {
            let environment = vec![(name.into(), language.into())];
            let task = Task { environment, ..Task::default() };
            let all = languages(&task, directory.path());
            let mut names: Vec<String> = all
                .iter()
                .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
                .collect();
            names.sort();
            names
        };
        assert!(taken("LANG", "C").is_empty());
        assert_eq!(taken("LANG", "C.UTF-8"), ["C.utf8", "locale-archive"]);
        assert!(taken("LANGUAGE", "de").is_empty());
        assert_eq!(taken("LC_ALL", "de_DE.UTF-8"), ["de_DE.utf8", "locale-archive"]);
    }

    #[test]
    fn terminals_are_found_by_their_first_letter() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x/xterm");
        fs::create_dir(directory.path().join("x")).unwrap();
        fs::write(&file, "").unwrap();
        let directories = [Path::new("/nonexistent"), directory.path()];
        assert_eq!(description_of(OsStr::new("xterm"), &directories), Some(file));
        for none in ["", "vt9000", "../x/xterm"] {
            assert_eq!(description_of(OsStr::new(none), &directories), None, "{none}");
        }
    }
}

//! Commands that start other programs elsewhere: on other machines, or by a daemon. What a parent
//! process passes on to its children does not reach those programs.

use std::ffi::OsString;
use std::path::Path;

use numapilot_cli_kit::terminal::Terminal;
use numapilot_place::{Note, PlaceError};

/// Commands that are known to do so.
const KNOWN: [&str; 9] = [
    "docker",
    "kubectl",
    "mpiexec",
    "mpirun",
    "podman",
    "spark-submit",
    "srun",
    "ssh",
    "systemd-run",
];

/// Warns if the command is such a launcher; `behind` is the command line of numapilot that belongs
/// behind it.
///
/// # Errors
/// Under `strict`, the warning is an error.
pub fn check(
    terminal: &Terminal,
    command: &[OsString],
    behind: &str,
    strict: bool,
) -> Result<(), PlaceError> {
    match note(command, behind) {
        Some(note) if strict => Err(PlaceError::Strict(vec![note])),
        Some(note) => {
            terminal.warn(note);
            Ok(())
        }
        None => Ok(()),
    }
}

/// The command line that makes a plan, which is in a profile or in options.
pub fn run_line(profile: Option<&Path>) -> String {
    match profile {
        Some(path) => format!("numapilot run --profile {} -- COMMAND", path.display()),
        None => "numapilot run OPTIONS -- COMMAND".to_owned(),
    }
}

fn note(command: &[OsString], behind: &str) -> Option<Note> {
    let name = Path::new(command.first()?).file_name()?.to_str()?;
    let launcher = KNOWN.iter().find(|known| **known == name)?;
    Some(Note::new(
        *launcher,
        "it starts the program elsewhere (on another machine, or by a daemon), where the plan does \
         not reach",
        format!("put numapilot behind it: {launcher} ... {behind}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_known_by_their_file_name() {
        let note = |word: &str| note(&[OsString::from(word)], &run_line(Some(Path::new("p.toml"))));
        let text = note("/usr/bin/srun").unwrap().to_string();
        assert!(text.ends_with("srun ... numapilot run --profile p.toml -- COMMAND"), "{text}");
        for known in KNOWN {
            assert!(note(known).is_some());
        }
        for other in ["sruns", "./srun/app", "sh", ""] {
            assert_eq!(note(other), None, "{other}");
        }
    }
}

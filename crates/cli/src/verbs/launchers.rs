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

/// Warns if the command is such a launcher. `remedy` gets its name.
///
/// # Errors
/// Under `strict`, the warning is an error.
pub fn check(
    terminal: &Terminal,
    command: &[OsString],
    remedy: impl FnOnce(&str) -> String,
    strict: bool,
) -> Result<(), PlaceError> {
    match note(command, remedy) {
        Some(note) if strict => Err(PlaceError::Strict(vec![note])),
        Some(note) => {
            terminal.warn(note);
            Ok(())
        }
        None => Ok(()),
    }
}

/// The remedy for a plan that is in a profile or in options.
pub fn behind(launcher: &str, profile: Option<&Path>) -> String {
    let plan = match profile {
        Some(path) => format!("--profile {}", path.display()),
        None => "OPTIONS".to_owned(),
    };
    format!(
        "put numapilot behind it: {launcher} ... numapilot run {plan} -- COMMAND; or give \
         --via '{launcher} ... {{}}'"
    )
}

fn note(command: &[OsString], remedy: impl FnOnce(&str) -> String) -> Option<Note> {
    let name = Path::new(command.first()?).file_name()?.to_str()?;
    let launcher = KNOWN.iter().find(|known| **known == name)?;
    Some(Note::new(
        *launcher,
        "it starts the program elsewhere (on another machine, or by a daemon), where the plan does \
         not reach",
        remedy(launcher),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_known_by_their_file_name() {
        let remedy = |launcher: &str| behind(launcher, Some(Path::new("p.toml")));
        let note = |word: &str| note(&[OsString::from(word)], remedy);
        let text = note("/usr/bin/srun").unwrap().to_string();
        assert!(text.contains("srun ... numapilot run --profile p.toml -- COMMAND"), "{text}");
        assert!(text.ends_with("--via 'srun ... {}'"), "{text}");
        for known in KNOWN {
            assert!(note(known).is_some());
        }
        for other in ["sruns", "./srun/app", "sh", ""] {
            assert_eq!(note(other), None, "{other}");
        }
    }
}

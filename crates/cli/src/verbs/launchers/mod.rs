//! Commands that start other programs elsewhere: on other machines, or by a daemon. What a parent
//! process passes on to its children does not reach those programs.

mod commands;

use std::ffi::OsString;
use std::path::Path;

use numapilot_cli_kit::terminal::Terminal;
use numapilot_place::{Note, PlaceError};

use commands::programs;

/// A command that is known to do so.
#[derive(Debug)]
pub struct Launcher {
    /// Its file name.
    pub name: &'static str,
    /// How the program is started behind it; `{}` is where `numapilot run` belongs.
    template: &'static str,
    /// The value of `--via`, if the template is not it.
    via: Option<&'static str>,
}

const fn launcher(name: &'static str, template: &'static str) -> Launcher {
    Launcher { name, template, via: None }
}

const fn with_name(name: &'static str, template: &'static str, via: &'static str) -> Launcher {
    Launcher { name, template, via: Some(via) }
}

const KNOWN: [Launcher; 17] = [
    launcher("aprun", "aprun ... {}"),
    with_name("docker", "docker run ... IMAGE {}", "docker:IMAGE"),
    launcher("flux", "flux run ... {}"),
    launcher("jsrun", "jsrun ... {}"),
    launcher("kubectl", "kubectl exec ... -- {}"),
    launcher("mpiexec", "mpiexec ... {}"),
    launcher("mpiexec.hydra", "mpiexec.hydra ... {}"),
    launcher("mpirun", "mpirun ... {}"),
    with_name("nerdctl", "nerdctl run ... IMAGE {}", "nerdctl:IMAGE"),
    launcher("orterun", "orterun ... {}"),
    with_name("podman", "podman run ... IMAGE {}", "podman:IMAGE"),
    launcher("salloc", "salloc ... srun {}"),
    launcher("sbatch", "sbatch --wait ... --wrap \"srun {}\""),
    with_name("spark-submit", "", "spark"),
    launcher("srun", "srun ... {}"),
    launcher("ssh", "ssh ... {}"),
    launcher("systemd-run", "systemd-run --wait ... {}"),
];

impl Launcher {
    /// The value of `--via`, quoted for a shell.
    pub fn via(&self) -> String {
        match self.via {
            Some(name) => name.to_owned(),
            None => format!("'{}'", self.template),
        }
    }
}

/// Warns if the command is or runs such a launcher. `remedy` gets it.
///
/// # Errors
/// Under `strict`, the warning is an error.
pub fn check(
    terminal: &Terminal,
    command: &[OsString],
    remedy: impl FnOnce(&Launcher) -> String,
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
pub fn behind(launcher: &Launcher, profile: Option<&Path>) -> String {
    let plan = match profile {
        Some(path) => format!("--profile {}", path.display()),
        None => "OPTIONS".to_owned(),
    };
    let via = launcher.via();
    if launcher.template.is_empty() {
        return format!("give --via {via}");
    }
    let far = launcher.template.replace("{}", &format!("numapilot run {plan} -- COMMAND"));
    format!("put numapilot behind it: {far}; or give --via {via}")
}

fn note(command: &[OsString], remedy: impl FnOnce(&Launcher) -> String) -> Option<Note> {
    let launcher = programs(command)
        .iter()
        .find_map(|name| KNOWN.iter().find(|launcher| launcher.name == name))?;
    Some(Note::new(
        launcher.name,
        "it starts the program elsewhere (on another machine, or by a daemon), where the plan does \
         not reach",
        remedy(launcher),
    ))
}

#[cfg(test)]
mod tests {
    use numapilot_place::via::Template;

    use super::*;

    #[test]
    fn launchers_are_known_by_their_file_name() {
        let remedy = |launcher: &Launcher| behind(launcher, Some(Path::new("p.toml")));
        let note = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            note(&words, remedy).map(|note| note.to_string())
        };
        let text = note(&["/usr/bin/srun"]).unwrap();
        assert!(text.contains("srun ... numapilot run --profile p.toml -- COMMAND"), "{text}");
        assert!(text.ends_with("--via 'srun ... {}'"), "{text}");
        let text = note(&["timeout", "5", "sh", "-c", "docker run x"]).unwrap();
        assert!(text.starts_with("docker: "), "{text}");
        assert!(text.ends_with("--via docker:IMAGE"), "{text}");
        assert!(note(&["spark-submit"]).unwrap().ends_with("give --via spark"));
        for known in KNOWN {
            assert!(note(&[known.name]).is_some());
        }
        for other in ["sruns", "./srun/app", "sh", ""] {
            assert_eq!(note(&[other]), None, "{other}");
        }
    }

    #[test]
    fn every_remedy_is_a_template() {
        for known in KNOWN {
            let via = known.via();
            Template::parse(via.trim_matches('\'')).unwrap();
        }
    }
}

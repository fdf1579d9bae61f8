//! The verbs of numapilot-lab. numapilot finds and executes it as git and cargo do with their
//! commands.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::anyhow;
use numapilot_cli_kit::completions::Shell;
use numapilot_place::own_program;

/// The program that has these verbs.
pub const PROGRAM: &str = "numapilot-lab";
/// The verbs.
const VERBS: [&str; 3] = ["lab", "bench", "study"];

/// Whether a word is one of the verbs.
pub fn is_verb(word: impl AsRef<OsStr>) -> bool {
    VERBS.iter().any(|verb| word.as_ref() == *verb)
}

/// Whether arguments ask for one of the verbs, or for the help of one.
pub fn is_asked_for(arguments: &[OsString]) -> bool {
    let mut words = arguments.iter().map(OsString::as_os_str);
    let mut next = || loop {
        let word = words.next()?;
        if word == "--color" {
            words.next();
        } else if !word.as_encoded_bytes().starts_with(b"--color=") {
            return Some(word);
        }
    };
    match next() {
        Some(word) if word == "help" => next().is_some_and(is_verb),
        word => word.is_some_and(is_verb),
    }
}

/// Becomes numapilot-lab, with the same arguments. Returns only if that fails, with the reason.
pub fn execute() -> anyhow::Error {
    let Some(program) = own_program(PROGRAM) else {
        return anyhow!(
            "{PROGRAM} is not installed; it holds lab, bench and study: install the package \
             {PROGRAM}, or build it with `make build`"
        );
    };
    let error = Command::new(&program).args(std::env::args_os().skip(1)).exec();
    anyhow!(error).context(format!("cannot execute {}", program.display()))
}

/// What the completion script needs for the verbs of numapilot-lab. In bash, it asks numapilot-lab
/// for its script when one of them is first completed, so the words are those of the installed one.
pub const fn completions(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => include_str!("elsewhere.bash"),
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_found_behind_the_options_of_all() {
        let asked = |line: &str| {
            is_asked_for(&line.split(' ').map(OsString::from).collect::<Vec<OsString>>())
        };
        for line in [
            "bench w1",
            "--color always lab list",
            "--color=never study",
            "help bench",
            "lab --help",
        ] {
            assert!(asked(line), "{line}");
        }
        for line in ["run -- bench", "help run", "help", "--help bench", "--color bench", "benches"]
        {
            assert!(!asked(line), "{line}");
        }
    }
}

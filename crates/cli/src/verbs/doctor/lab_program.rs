//! Checks whether numapilot-lab, for emulated NUMA machines, is installed. numapilot-lab itself
//! checks its emulator.

use std::path::PathBuf;

use numapilot_place::own_program;

use super::check::Check;
use crate::elsewhere::PROGRAM;

pub fn checks() -> Vec<Check> {
    vec![installed(own_program(PROGRAM))]
}

fn installed(found: Option<PathBuf>) -> Check {
    match found {
        Some(path) => Check::works(
            PROGRAM,
            format!("{}; `numapilot lab setup` shows whether QEMU works", path.display()),
        ),
        None => Check::missing(
            PROGRAM,
            "not found",
            "it is neither beside numapilot nor on PATH; only needed for lab, bench and study",
            format!("install the package {PROGRAM}, or build it with `make build`"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_its_remedy() {
        let missing = installed(None);
        assert_eq!(missing.state, State::Missing);
        assert!(missing.remedy.unwrap().contains("package numapilot-lab"));
        let found = installed(Some("/usr/bin/numapilot-lab".into()));
        assert_eq!(found.state, State::Works);
        assert!(found.found.contains("/usr/bin/numapilot-lab; `numapilot lab setup`"));
    }
}

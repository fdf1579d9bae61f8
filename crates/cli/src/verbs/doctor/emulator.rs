//! QEMU, for emulated NUMA machines: version and whether it loads plugins (tried), and the
//! kernel that it boots.

use numapilot_lab::emulator::Emulator;
use numapilot_lab::{Kernel, LabError};

use super::check::Check;

pub fn checks() -> Vec<Check> {
    vec![emulator(Emulator::find()), kernel(Kernel::find())]
}

const SETUP: &str = "numapilot lab setup";

fn emulator(found: Result<Emulator, LabError>) -> Check {
    const NAME: &str = "QEMU";
    match found {
        Ok(emulator) => {
            let program = emulator.program.display();
            Check::works(NAME, format!("{}, {program}; tried: loads plugins", emulator.version))
        }
        Err(why @ (LabError::NoEmulator { .. } | LabError::Processor(_) | LabError::NoHome)) => {
            let cause = format!("{why}; only needed to emulate NUMA machines");
            Check::missing(NAME, "not found", cause, SETUP)
        }
        Err(why) => Check::limited(NAME, "will not do", why.to_string(), SETUP),
    }
}

fn kernel(found: Result<Kernel, LabError>) -> Check {
    const NAME: &str = "kernel for QEMU";
    match found {
        Ok(kernel) => Check::works(NAME, kernel.version),
        Err(why) => {
            let cause = format!("{why}; only needed to emulate NUMA machines");
            Check::missing(NAME, "not found", cause, SETUP)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::*;

    #[test]
    fn what_is_missing_and_what_will_not_do_are_told_apart() {
        let missing = emulator(Err(LabError::NoEmulator { program: "qemu" }));
        assert_eq!(missing.state, State::Missing);
        let oldest = "9.1".to_owned();
        let old = LabError::OldEmulator { path: "/q".into(), version: "7.2".to_owned(), oldest };
        let old = emulator(Err(old));
        assert_eq!(old.state, State::Limited);
        assert!(old.cause.unwrap().contains("is version 7.2"));
        let kernel = kernel(Err(LabError::NoKernel { directory: "/k".into() }));
        assert_eq!(kernel.state, State::Missing);
    }
}

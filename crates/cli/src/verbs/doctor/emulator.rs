//! QEMU, for emulated NUMA machines: version and whether it loads plugins (tried).

use std::io;
use std::process::{Command, Output, Stdio};

use super::check::Check;

/// The oldest QEMU with the plugin interface that sees memory accesses with their values.
const OLDEST: (u32, u32) = (9, 1);

pub fn checks() -> Vec<Check> {
    let program = format!("qemu-system-{}", std::env::consts::ARCH);
    let qemu = |arguments: &[&str]| -> io::Result<Output> {
        Command::new(&program).args(arguments).stdin(Stdio::null()).output()
    };
    // A plugin that is not there: a QEMU with plugins fails to open the file, one without
    // says that it has none.
    let plugin = ["-machine", "none", "-display", "none", "-plugin", "/nonexistent.so"];
    vec![emulator(&program, qemu(&["--version"]), || qemu(&plugin))]
}

/// `9.2` of `QEMU emulator version 9.2.4 (Debian ...)`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split_once("version ")?.1.split(['.', ' ', '(']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.trim().parse().ok()?))
}

fn emulator(
    program: &str,
    asked: io::Result<Output>,
    plugin: impl FnOnce() -> io::Result<Output>,
) -> Check {
    const NAME: &str = "QEMU";
    const INSTALL: &str = "Debian 13, Ubuntu 25.04: sudo apt-get install qemu-system-x86 (or -arm); \
                           Debian 12: the same with -t bookworm-backports";
    let output = match asked {
        Ok(output) => output,
        Err(error) => {
            return Check::missing(
                NAME,
                "not found",
                format!("{program}: {error}; only needed to emulate NUMA machines"),
                INSTALL,
            );
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.lines().next().unwrap_or_default().to_owned();
    match version(&text) {
        None => return Check::missing(NAME, first, format!("{program} --version fails"), INSTALL),
        Some(found) if found < OLDEST => {
            return Check::limited(
                NAME,
                first,
                "its plugin interface is older than 9.1 and does not show what is needed",
                INSTALL,
            );
        }
        Some(_) => {}
    }
    let said = plugin()
        .map(|output| String::from_utf8_lossy(&output.stderr).into_owned())
        .unwrap_or_else(|error| error.to_string());
    // GLib's message for the file, in whatever words: the file's name is in it.
    if said.contains("/nonexistent.so") {
        return Check::works(NAME, format!("{first}; tried: loads plugins"));
    }
    Check::limited(
        NAME,
        first,
        format!("built without plugins: {}", said.lines().next().unwrap_or("no message")),
        INSTALL,
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::super::check::State;
    use super::*;

    fn said(stdout: &str, stderr: &str) -> io::Result<Output> {
        Ok(Output { status: ExitStatus::from_raw(0), stdout: stdout.into(), stderr: stderr.into() })
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(version("QEMU emulator version 9.2.4 (Debian 1:9.2)\nCopyright"), Some((9, 2)));
        assert_eq!(version("QEMU emulator version 10.0.2"), Some((10, 0)));
        assert_eq!(version("nothing"), None);
    }

    #[test]
    fn old_and_plain_builds_are_limited() {
        let with = |version: &str, plugin: &str| {
            emulator("qemu", said(&format!("QEMU emulator version {version}\n"), ""), || {
                said("", plugin)
            })
        };
        let loads = "qemu: Could not load plugin /nonexistent.so: cannot open shared object file";
        assert_eq!(with("9.2.4", loads).state, State::Works);
        assert_eq!(with("7.2.17", loads).state, State::Limited);
        let check = with("9.2.4", "qemu: plugin interface not enabled in this build\n");
        assert!(check.cause.unwrap().contains("not enabled in this build"));
    }

    #[test]
    fn no_emulator_is_missing() {
        let check = emulator("qemu", Err(io::ErrorKind::NotFound.into()), || said("", ""));
        assert_eq!(check.state, State::Missing);
    }
}

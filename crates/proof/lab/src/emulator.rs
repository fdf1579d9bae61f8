//! Finds QEMU, and checks its version and whether the plugin can run in it.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use numapilot_lab_init::{COMPLAINT, SUITABLE};
use numapilot_sys::bounded_output::{LIMIT, bounded_output};

use crate::LabError;
use crate::run::checking_plugin;
use crate::unpacked::Unpacked;

/// QEMU's program for x86-64 machines.
pub const PROGRAM: &str = "qemu-system-x86_64";
/// The oldest version whose clock the plugin is known to replace correctly.
const OLDEST: (u32, u32) = (10, 0);

/// A usable QEMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emulator {
    /// Path of the program.
    pub program: PathBuf,
    /// Its version, as reported by itself: `10.0.2`.
    pub version: String,
    /// The unpacked packages, unless QEMU is installed.
    unpacked: Option<Unpacked>,
}

impl Emulator {
    /// The first usable QEMU on PATH, or else the one in the cache.
    ///
    /// # Errors
    /// [`LabError`] with the problem of the QEMU that was found, or when none was found.
    pub fn find() -> Result<Self, LabError> {
        if env::consts::ARCH != "x86_64" {
            return Err(LabError::Processor(env::consts::ARCH));
        }
        let plugin = checking_plugin()?;
        let path = env::var_os("PATH").unwrap_or_default();
        let installed = env::split_paths(&path).map(|d| d.join(PROGRAM)).find(|p| p.is_file());
        let installed = installed.map(|program| Self::check(program, None, &plugin));
        if let Some(Ok(emulator)) = installed {
            return Ok(emulator);
        }
        match Self::in_cache(&plugin) {
            Err(LabError::NoEmulator { program }) => {
                Err(installed.and_then(Result::err).unwrap_or(LabError::NoEmulator { program }))
            }
            found => found,
        }
    }

    /// The QEMU in the cache.
    fn in_cache(plugin: &OsStr) -> Result<Self, LabError> {
        let tools = Unpacked::tools()?;
        match tools.program(PROGRAM) {
            Some(program) => Self::check(program, Some(tools), plugin),
            None => Err(LabError::NoEmulator { program: PROGRAM }),
        }
    }

    /// Checks a QEMU by its version and by loading the plugin, of which `plugin` is QEMU's option.
    fn check(
        program: PathBuf,
        unpacked: Option<Unpacked>,
        plugin: &OsStr,
    ) -> Result<Self, LabError> {
        let mut emulator = Self { program, version: String::new(), unpacked };
        let broken = |message: String| LabError::BrokenEmulator {
            path: emulator.program.clone(),
            message: message.lines().next().unwrap_or("no message").to_owned(),
        };
        let mut command = emulator.command();
        command.arg("--version");
        let output = bounded_output(command, LIMIT).map_err(|e| broken(e.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let Some((version, numbers)) = version(&text) else {
            return Err(broken(String::from_utf8_lossy(&output.stderr).into_owned()));
        };
        if numbers < OLDEST {
            let oldest = format!("{}.{}", OLDEST.0, OLDEST.1);
            let path = emulator.program;
            return Err(LabError::OldEmulator { path, version: version.to_owned(), oldest });
        }
        // Without default devices, QEMU loads no modules, which might belong to another version
        // that is installed.
        let nothing = ["-nodefaults", "-machine", "none", "-display", "none", "-plugin"];
        let mut command = emulator.command();
        command.args(nothing).arg(plugin);
        let output = bounded_output(command, LIMIT).map_err(|e| broken(e.to_string()))?;
        let message = String::from_utf8_lossy(&output.stderr);
        if !message.contains(SUITABLE) {
            let complaint = message.lines().find_map(|line| line.strip_prefix(COMPLAINT));
            let path = emulator.program;
            return Err(match complaint {
                Some(message) => LabError::UnsuitableEmulator { path, message: message.to_owned() },
                None => {
                    let message = message.lines().next().unwrap_or("no message").to_owned();
                    LabError::NoPlugins { path, message }
                }
            });
        }
        emulator.version = version.to_owned();
        Ok(emulator)
    }

    /// A command that starts QEMU, with its own libraries if it has any.
    pub(crate) fn command(&self) -> Command {
        match &self.unpacked {
            Some(unpacked) => unpacked.command(&self.program),
            None => Command::new(&self.program),
        }
    }

    /// QEMU's firmware directories, if it is not installed in its default location.
    pub(crate) fn firmware(&self) -> Vec<PathBuf> {
        let root = self.unpacked.as_ref().map(Unpacked::root);
        let shares = root.map(|root| ["qemu", "seabios"].map(|d| root.join("usr/share").join(d)));
        shares.into_iter().flatten().collect()
    }
}

/// Parses `10.0.2` and its first two numbers from `QEMU emulator version 10.0.2 (Debian ...)`.
fn version(text: &str) -> Option<(&str, (u32, u32))> {
    let version = text.split_once("version ")?.1.split([' ', '(', '\n']).next()?;
    let mut numbers = version.split('.');
    Some((version, (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use numapilot_test_kit::make_executable;

    use super::*;

    #[test]
    fn versions_are_read() {
        let text = "QEMU emulator version 9.2.4 (Debian 1:9.2)\nCopyright";
        assert_eq!(version(text), Some(("9.2.4", (9, 2))));
        assert_eq!(version("QEMU emulator version 10.0.2\n"), Some(("10.0.2", (10, 0))));
        assert_eq!(version("nothing"), None);
        assert_eq!(version("version x"), None);
    }

    /// A script that answers like QEMU when asked for its version or given a plugin.
    fn pretend(directory: &Path, version: &str, plugin: &str) -> PathBuf {
        let program = directory.join(PROGRAM);
        let script = format!(
            "#!/bin/sh\ncase $1 in --version) echo '{version}' ;; *) echo '{plugin}' >&2 ;; esac\n"
        );
        make_executable(&program, &mut script.as_bytes());
        program
    }

    #[test]
    fn what_will_not_do_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let check_program = |program| Emulator::check(program, None, OsStr::new("plugin.so"));
        let check =
            |version: &str, plugin: &str| check_program(pretend(directory.path(), version, plugin));
        let new = "QEMU emulator version 10.0.2 (Debian)";
        let loads = SUITABLE;
        assert_eq!(check(new, loads).unwrap().version, "10.0.2");
        let error = check("QEMU emulator version 7.2.22", loads).unwrap_err().to_string();
        assert!(error.contains("is version 7.2.22; the lab needs 10.0 or newer"), "{error}");
        let error = check(new, "plugin interface not enabled in this build").unwrap_err();
        assert!(error.to_string().contains("built without plugins (plugin interface"), "{error}");
        let error =
            check(new, &format!("{COMPLAINT}no clock; get another")).unwrap_err().to_string();
        assert!(error.ends_with("qemu-system-x86_64: no clock; get another"), "{error}");
        let error = check("segmentation fault", "").unwrap_err().to_string();
        assert!(error.contains("does not run"), "{error}");
        let error = check_program(directory.path().join("nothing")).unwrap_err();
        assert!(error.to_string().contains("does not run: No such file"), "{error}");
    }
}

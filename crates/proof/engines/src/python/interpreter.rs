//! The Python interpreter that runs engines and generators.

use std::ffi::{OsStr, OsString};
use std::iter;
use std::path::PathBuf;
use std::process::Command;

use numapilot_place::find_program;

/// The first `python3` on PATH.
#[derive(Clone, Debug)]
pub struct Interpreter(PathBuf);

impl Interpreter {
    /// Finds it; `Err` is the reason why there is none.
    pub fn find() -> Result<Self, String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = find_program(OsStr::new("python3"), &path);
        found.map(Self).ok_or_else(|| "there is no python3 on PATH".to_owned())
    }

    /// The command line that runs it with these arguments.
    pub fn words<I: Into<OsString>>(
        &self,
        arguments: impl IntoIterator<Item = I>,
    ) -> Vec<OsString> {
        let program: OsString = self.0.clone().into();
        iter::once(program).chain(arguments.into_iter().map(Into::into)).collect()
    }

    /// Its output with these arguments; `Err` is the last line of its errors.
    pub fn output(&self, arguments: &[&str]) -> Result<String, String> {
        let program = self.0.display();
        // Do not find modules in the user's current directory.
        let output = Command::new(&self.0).args(arguments).current_dir("/").output();
        let output = output.map_err(|e| format!("{program}: {e}"))?;
        if output.status.success() && !output.stdout.is_empty() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let message = String::from_utf8_lossy(&output.stderr);
        Err(format!("{program}: {}", message.trim().lines().last().unwrap_or("it printed nothing")))
    }
}

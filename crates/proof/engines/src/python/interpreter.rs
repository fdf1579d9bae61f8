//! The Python that runs engines and generators.

use std::ffi::{OsStr, OsString};
use std::iter;
use std::path::PathBuf;
use std::process::Command;

use numapilot_place::find_program;

/// The first `python3` on PATH.
#[derive(Clone, Debug)]
pub struct Interpreter(PathBuf);

impl Interpreter {
    /// Looks for it; `Err` is why there is none.
    pub fn find() -> Result<Self, String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = find_program(OsStr::new("python3"), &path);
        found.map(Self).ok_or_else(|| "there is no python3 on PATH".to_owned())
    }

    /// The words that run it with these arguments.
    pub fn words<I: Into<OsString>>(
        &self,
        arguments: impl IntoIterator<Item = I>,
    ) -> Vec<OsString> {
        let program: OsString = self.0.clone().into();
        iter::once(program).chain(arguments.into_iter().map(Into::into)).collect()
    }

    /// What it prints when it is called so; `Err` is the last line of what went wrong.
    pub fn output(&self, arguments: &[&str]) -> Result<String, String> {
        let program = self.0.display();
        // No module is to be found where the user happens to be.
        let output = Command::new(&self.0).args(arguments).current_dir("/").output();
        let output = output.map_err(|e| format!("{program}: {e}"))?;
        if output.status.success() && !output.stdout.is_empty() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{program}: {}", said.trim().lines().last().unwrap_or("it said nothing")))
    }
}

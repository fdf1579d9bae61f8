//! Programs that another launcher starts elsewhere: on other machines, or by a daemon.
//!
//! ```text
//!  Template 'srun -N2 {}', Plan, command --command()--> srun -N2 numapilot run PLAN -- command
//!                                                                     |
//!  judge() <-- files in a directory that both sides see <-- Attesting-'  on each machine
//! ```
//!
//! What a parent passes on to its children does not reach such programs. So the launcher starts
//! `numapilot run` with the plan in its options, and each of these attests in a file what took
//! effect, read back from the running program.

mod attestation;
mod directory;
mod template;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use attestation::read;
pub use attestation::{AttestError, Attestation, Attesting, Missing, ReadError, judge};
pub use directory::{DirectoryError, RunDirectory};
pub use template::{Template, TemplateError};

use crate::{Plan, Reach};

/// The launcher, and where the far ends attest.
#[derive(Clone, Debug)]
pub struct Via {
    template: Template,
    /// The file of this program, which must be the same on the other machines.
    program: PathBuf,
    /// The directory that both sides see, with one for each run.
    directory: PathBuf,
}

impl Via {
    /// Starts programs by this template; the far ends attest below this directory.
    ///
    /// # Errors
    /// If the file of this program, or the working directory, is unknown.
    pub fn new(template: Template, directory: &Path) -> io::Result<Self> {
        let program = std::env::current_exe()?;
        Ok(Self { template, program, directory: std::path::absolute(directory)? })
    }

    /// The directory that both sides see.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The template.
    #[must_use]
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// Makes the directory in which the far ends of one run attest. `mark` is the
    /// [mark](crate::guard::run_mark) of the run. A directory for which the user asked is kept.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn begin_run(&self, mark: &str, is_kept: bool) -> Result<RunDirectory, DirectoryError> {
        RunDirectory::make(&self.directory, mark, is_kept)
    }

    /// The command of the launcher. `reach` is how far the plan may reach, `variables` are those that a plan cannot contain, `directory` is
    /// where the far ends of this run attest; without it, they do not. Under `strict` they fail if a setting has no effect.
    #[must_use]
    pub fn command(
        &self,
        plan: &Plan,
        reach: Reach,
        variables: &[(OsString, OsString)],
        directory: Option<&Path>,
        strict: bool,
        command: &[OsString],
    ) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.program.clone().into(), "run".into()];
        words.extend(plan.options().into_iter().map(OsString::from));
        words.extend((reach == Reach::All).then(|| "--all".into()));
        for (name, value) in variables {
            let mut word = OsString::from("--env=");
            word.push(name);
            word.push(OsStr::new("="));
            word.push(value);
            words.push(word);
        }
        words.extend(strict.then(|| "--strict".into()));
        words.extend(directory.into_iter().flat_map(|path| ["--attest".into(), path.into()]));
        words.push("--".into());
        words.extend(command.iter().cloned());
        self.template.expand(&words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryMode, MemoryPolicy};

    #[test]
    fn the_plan_is_in_the_command_line() {
        let template = Template::parse("srun -N2 {}").unwrap();
        let via = Via { program: "/opt/numapilot".into(), directory: "/d".into(), template };
        let plan = Plan {
            memory: MemoryPolicy { mode: MemoryMode::Interleave, ..MemoryPolicy::default() },
            env: [("A".to_owned(), "b c".to_owned())].into(),
            ..Plan::default()
        };
        let raw = [("B".into(), "x".into())];
        let command = via.command(
            &plan,
            Reach::All,
            &raw,
            Some(Path::new("/d/1")),
            true,
            &["app".into(), "-x".into()],
        );
        let words: Vec<&str> = command.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            words,
            [
                "srun",
                "-N2",
                "/opt/numapilot",
                "run",
                "--interleave=all",
                "--env=A=b c",
                "--all",
                "--env=B=x",
                "--strict",
                "--attest",
                "/d/1",
                "--",
                "app",
                "-x"
            ]
        );
    }
}

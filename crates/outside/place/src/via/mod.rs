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
mod detached;
mod directory;
mod judge;
mod named;
mod task;
mod template;
mod wrapper;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub use attestation::{AttestError, Attestation, Attesting, ReadError};
pub use directory::{DirectoryError, RunDirectory};
use judge::Expected;
pub use judge::Missing;
use named::Far;
pub use task::Task;
pub use template::{Template, TemplateError};
pub use wrapper::WrapperError;

use crate::{Plan, Reach};

/// How long far ends may take to attest after the launcher has ended, where it does not wait for them.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often their files are read meanwhile.
const PERIOD: Duration = Duration::from_millis(100);

/// The launcher, and where the far ends attest.
#[derive(Clone, Debug)]
pub struct Via {
    template: Template,
    /// The file of this program, which must be the same on the other machines.
    program: PathBuf,
    /// The directory that both sides see, with one for each run.
    directory: PathBuf,
    expected: Expected,
}

impl Via {
    /// Starts programs by this template; the far ends attest below this directory. `count` is how
    /// many of them there are in a run; if it is absent, the launcher tells it to its tasks, or it is
    /// not checked.
    ///
    /// # Errors
    /// If the file of this program, or the working directory, is unknown.
    pub fn new(template: Template, directory: &Path, count: Option<u32>) -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let count = count.or_else(|| template.count());
        let expected = Expected { count, here: Task::of_this_process() };
        let directory = std::path::absolute(directory).map_err(|error| {
            let text = format!(
                "the working directory cannot be used, and --via needs it: {error}; change to one \
                 that exists"
            );
            io::Error::new(error.kind(), text)
        })?;
        Ok(Self { template, program, directory, expected })
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

    /// The command of the launcher. `reach` is how far the plan may reach, `variables` are those that
    /// a plan cannot contain, `directory` is where the far ends of this run attest; without it, they do
    /// not. Under `strict` they fail if a setting has no effect. Some templates write a file into the
    /// directory.
    ///
    /// # Errors
    /// [`WrapperError`], if that file cannot be written.
    pub fn command(
        &self,
        plan: &Plan,
        reach: Reach,
        variables: &[(OsString, OsString)],
        directory: Option<&Path>,
        strict: bool,
        command: &[OsString],
    ) -> Result<Vec<OsString>, WrapperError> {
        let mut words: Vec<OsString> = vec![self.program.clone().into(), "run".into()];
        words.extend(plan.options().into_iter().map(OsString::from));
        words.extend(reach.option().map(OsString::from));
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
        let far = Far { run: &words, program: &self.program, directory };
        self.template.command(&far, command)
    }

    /// What the far ends of a run attest, after the launcher has ended. If it does not wait for them,
    /// this waits some seconds for those that have begun.
    ///
    /// # Errors
    /// [`Missing::Other`] if it cannot be read.
    pub fn attested(&self, directory: &RunDirectory) -> Result<Vec<Attestation>, Missing> {
        let until = Instant::now() + PATIENCE;
        loop {
            let attested = directory.attested()?;
            let is_complete = attested.iter().all(|attestation| attestation.settings.is_some());
            if is_complete || !self.template.ends_early() || Instant::now() >= until {
                return Ok(attested);
            }
            sleep(PERIOD);
        }
    }

    /// Checks that all far ends of so many runs ran this plan, that no setting was without effect, and
    /// that no far end is missing.
    ///
    /// # Errors
    /// [`Missing`], with host and reason.
    pub fn judge(&self, plan: &Plan, attested: &[Attestation], runs: usize) -> Result<(), Missing> {
        if attested.is_empty() {
            return Err(Missing::Nothing { program: self.program.clone() });
        }
        judge::judge(plan, attested, &self.expected, runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryMode, MemoryPolicy};

    #[test]
    fn the_plan_is_in_the_command_line() {
        let template = Template::parse("srun -N2 {}").unwrap();
        let expected = Expected::default();
        let via =
            Via { program: "/opt/numapilot".into(), directory: "/d".into(), template, expected };
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
        let command = command.unwrap();
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

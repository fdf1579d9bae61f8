//! Files that `tune` writes: checked before hours of measuring, never overwritten
//! silently, written whole or not at all.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use anyhow::bail;
use numapilot_tune::report::Report;

use super::picture;
use crate::file::{self, Existing};
use crate::terminal::Terminal;

/// Profile written unless the user says otherwise.
const PROFILE: &str = "numapilot.toml";

/// Where results go.
#[derive(clap::Args)]
pub struct FileArgs {
    /// Write the winner to this profile, for run --profile.
    #[arg(short, long, value_name = "FILE", default_value = PROFILE, help_heading = "Files")]
    output: PathBuf,

    /// Draw the plans with their intervals.
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    svg: Option<PathBuf>,

    /// Overwrite the profile and the picture.
    #[arg(short, long, help_heading = "Files")]
    force: bool,

    /// Keep results in this directory [default: one for each command and working directory,
    /// under $XDG_STATE_HOME/numapilot or ~/.local/state/numapilot].
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    state: Option<PathBuf>,

    /// Go on with the search of the same command that was interrupted.
    #[arg(long, help_heading = "Files")]
    pub resume: bool,
}

/// Files that can be written, as far as can be known before.
pub struct Outputs {
    /// The profile.
    pub profile: PathBuf,
    svg: Option<PathBuf>,
    existing: Existing,
}

impl FileArgs {
    /// Fails now instead of after the measuring.
    pub fn check(&self) -> anyhow::Result<Outputs> {
        for path in [Some(&self.output), self.svg.as_ref()].into_iter().flatten() {
            file::check(path, self.existing())?;
        }
        Ok(Outputs {
            profile: self.output.clone(),
            svg: self.svg.clone(),
            existing: self.existing(),
        })
    }

    fn existing(&self) -> Existing {
        if self.force { Existing::Replace } else { Existing::Keep }
    }

    /// The directory of this command's results.
    pub fn state(&self, command: &[OsString]) -> anyhow::Result<PathBuf> {
        if let Some(directory) = &self.state {
            return Ok(directory.clone());
        }
        let home = |variable: &str| {
            std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let Some(base) =
            home("XDG_STATE_HOME").or_else(|| home("HOME").map(|h| h.join(".local/state")))
        else {
            bail!("neither XDG_STATE_HOME nor HOME is set; say where results go with --state DIR");
        };
        let mut hasher = DefaultHasher::new();
        (command, std::env::current_dir().ok()).hash(&mut hasher);
        Ok(base.join("numapilot").join(format!("tune-{:016x}", hasher.finish())))
    }
}

impl Outputs {
    /// Writes the winner, if there is one, and the picture, if it was asked for.
    pub fn write(&self, terminal: &Terminal, report: &Report) -> anyhow::Result<()> {
        if let Some(best) = &report.best {
            file::put(&self.profile, &best.profile.to_profile(), self.existing)?;
        }
        if let Some(path) = &self.svg {
            if report.plans.iter().any(|plan| plan.ratio.is_some()) {
                file::put(path, &picture::draw(report), self.existing)?;
            } else {
                terminal.warn(format!("{}: no plan was measured to draw", path.display()));
            }
        }
        Ok(())
    }
}

//! Files that `tune` writes: checked before hours of measuring, never overwritten
//! silently, written whole or not at all.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use numapilot_tune::report::Report;
use tempfile::NamedTempFile;

use super::picture;
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
    force: bool,
}

impl FileArgs {
    /// Fails now instead of after the measuring.
    pub fn check(&self) -> anyhow::Result<Outputs> {
        for path in [Some(&self.output), self.svg.as_ref()].into_iter().flatten() {
            if path.exists() && !self.force {
                bail!("{} exists; give --force to overwrite it, or another name", path.display());
            }
            drop(beside(path)?);
        }
        Ok(Outputs { profile: self.output.clone(), svg: self.svg.clone(), force: self.force })
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
            self.put(&self.profile, &best.profile.to_profile())?;
        }
        if let Some(path) = &self.svg {
            if report.plans.iter().any(|plan| plan.ratio.is_some()) {
                self.put(path, &picture::draw(report))?;
            } else {
                terminal.warn(format!("{}: no plan was measured to draw", path.display()));
            }
        }
        Ok(())
    }

    fn put(&self, path: &Path, text: &str) -> anyhow::Result<()> {
        let mut file = beside(path)?;
        let what = || format!("cannot write {}", path.display());
        file.write_all(text.as_bytes())
            .and_then(|()| file.as_file().sync_all())
            .with_context(what)?;
        // Others may read a profile; a temporary file is the owner's alone.
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(readable).with_context(what)?;
        let result = if self.force { file.persist(path) } else { file.persist_noclobber(path) };
        result.map(drop).with_context(what)
    }
}

/// A file in the same directory, to be renamed.
fn beside(path: &Path) -> anyhow::Result<NamedTempFile> {
    if path.is_dir() {
        bail!("{} is a directory; give the name of a file", path.display());
    }
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    NamedTempFile::new_in(parent)
        .with_context(|| format!("cannot write {}; choose another place", path.display()))
}

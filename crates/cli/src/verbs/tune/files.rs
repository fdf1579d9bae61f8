//! Files that `tune` writes: checked before hours of measuring, never overwritten
//! silently, written whole or not at all.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use anyhow::{Context, bail};
use numapilot_place::settings_journal::Holder;
use numapilot_tune::report::{PlanFigures, Report};

use super::{picture, print};
use crate::date;
use crate::file::{self, Existing};
use crate::terminal::{Terminal, plural};

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

    /// Overwrite the profile and the picture; --resume does so as well.
    #[arg(short, long, help_heading = "Files")]
    force: bool,

    /// Keep results in this directory [default: one for each command and working directory,
    /// under $XDG_STATE_HOME/numapilot or ~/.local/state/numapilot].
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    state: Option<PathBuf>,

    /// Go on with an earlier search of the same command, and overwrite its profile and picture.
    #[arg(long, help_heading = "Files")]
    pub resume: bool,
}

/// Files that can be written, as far as can be known before.
pub struct Outputs {
    profile: PathBuf,
    svg: Option<PathBuf>,
    existing: Existing,
}

impl FileArgs {
    /// Fails now instead of after the measuring.
    pub fn check(&self) -> anyhow::Result<Outputs> {
        let existing = self.existing();
        file::check(&self.output, existing).context("the profile (--output FILE)")?;
        if let Some(path) = &self.svg {
            file::check(path, existing).context("the picture (--svg FILE)")?;
        }
        Ok(Outputs {
            profile: self.output.clone(),
            svg: self.svg.clone(),
            existing: self.existing(),
        })
    }

    fn existing(&self) -> Existing {
        // A search that goes on replaces what it wrote when it stopped.
        if self.force || self.resume { Existing::Replace } else { Existing::Keep }
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

/// What was written.
#[derive(Debug, Default)]
pub struct Written {
    profile: Option<PathBuf>,
    picture: Option<PathBuf>,
    /// A profile that was there before and is not this search's.
    untouched: Option<PathBuf>,
}

impl Written {
    /// Names the files, and says that there is no profile, and why.
    pub fn lines(&self) -> Vec<String> {
        let picture = self.picture.iter().map(|path| format!("Picture: {}", path.display()));
        let mut lines: Vec<String> = picture.collect();
        match (&self.profile, &self.untouched) {
            (Some(path), _) => {
                let path = path.display();
                lines.push(format!("Profile: {path}"));
                lines.push(format!("Use it: numapilot run --profile {path} -- COMMAND"));
            }
            (None, untouched) => {
                let mut line =
                    "No profile written: no plan is shown to beat the default".to_owned();
                if let Some(path) = untouched {
                    line += &format!("; {} is left as it was", path.display());
                }
                lines.push(line + ".");
            }
        }
        lines
    }
}

impl Outputs {
    /// Writes the winner, if there is one, and the picture, if it was asked for.
    pub fn write(
        &self,
        terminal: &Terminal,
        report: &Report,
        command: &[OsString],
        held: &[Holder],
    ) -> anyhow::Result<Written> {
        let mut written = Written::default();
        if let Some(best) = &report.best {
            let profile = origin(report, best, command, held) + &best.profile.to_profile();
            file::put(&self.profile, &profile, self.existing)?;
            written.profile = Some(self.profile.clone());
        } else if self.profile.is_file() {
            written.untouched = Some(self.profile.clone());
        }
        if let Some(path) = &self.svg {
            if report.plans.iter().any(|plan| plan.ratio.is_some()) {
                file::put(path, &picture::draw(report), self.existing)?;
                written.picture = Some(path.clone());
            } else {
                terminal.warn(format!("{}: no plan was measured to draw", path.display()));
            }
        }
        Ok(written)
    }
}

/// What the winner was measured on, as comments of its profile.
fn origin(report: &Report, best: &PlanFigures, command: &[OsString], held: &[Holder]) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let cpu = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| {
            Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let words: Vec<String> = command.iter().map(|word| word.to_string_lossy().into()).collect();
    let mut lines = vec![
        format!("Measured by numapilot tune on {} (UTC).", date::today()),
        format!("Machine: {}, {}, {cpu}", read("/proc/sys/kernel/hostname"), plural(cpus, "CPU")),
        format!("Kernel: Linux {}", read("/proc/sys/kernel/osrelease")),
        format!("Command: {}", words.join(" ")),
        format!("Metric: {}", report.metric),
        format!("Result: {}", print::result(report, best)),
        format!("Runs: {} of this plan, {} in all", best.runs, report.runs),
    ];
    lines.extend(print::compared(report).map(|of| format!("Compared: {of}")));
    lines.extend(held.iter().map(|holder| format!("Meanwhile: {holder}")));
    lines.iter().map(|line| format!("# {}\n", line.replace(char::is_control, " "))).collect()
}

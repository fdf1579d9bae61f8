//! Files that `tune` writes: checked before hours of measuring, never overwritten
//! silently, written whole or not at all.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use anyhow::bail;
use numapilot_place::journal::Holder;
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
    pub fn write(
        &self,
        terminal: &Terminal,
        report: &Report,
        command: &[OsString],
        held: &[Holder],
    ) -> anyhow::Result<()> {
        if let Some(best) = &report.best {
            let profile = origin(report, best, command, held) + &best.profile.to_profile();
            file::put(&self.profile, &profile, self.existing)?;
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

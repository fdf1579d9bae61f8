//! The files that `tune` writes. They are checked before hours of measuring, never overwritten
//! silently, and written whole or not at all.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use anyhow::{Context, bail};
use numapilot_cli_kit::date;
use numapilot_cli_kit::file::{self, Existing};
use numapilot_cli_kit::terminal::{Terminal, plural};
use numapilot_place::settings_journal::Holder;
use numapilot_tune::report::{PlanFigures, Report};

use super::args::FileArgs;
use super::written::Written;
use super::{svg, text};

/// Files that were checked before the search.
pub struct Outputs {
    profile: PathBuf,
    svg: Option<PathBuf>,
    existing: Existing,
}

impl FileArgs {
    /// Checks the files, to fail before measuring instead of after it.
    pub fn check(&self) -> anyhow::Result<Outputs> {
        let existing = self.existing();
        file::check(&self.output, existing).context("the profile (--output FILE)")?;
        if let Some(path) = &self.svg {
            file::check(path, existing).context("the picture (--svg FILE)")?;
            file::check_distinct(("--output", &self.output), ("--svg", path))?;
        }
        Ok(Outputs {
            profile: self.output.clone(),
            svg: self.svg.clone(),
            existing: self.existing(),
        })
    }

    fn existing(&self) -> Existing {
        // A search that continues replaces what it wrote when it stopped.
        if self.force || self.resume { Existing::Replace } else { Existing::Keep }
    }

    /// The directory of this command's results, on this machine or on an emulated one.
    pub fn state(&self, command: &[OsString], lab: Option<&str>) -> anyhow::Result<PathBuf> {
        if let Some(directory) = &self.state {
            return Ok(directory.clone());
        }
        let home = |variable: &str| {
            std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let Some(base) =
            home("XDG_STATE_HOME").or_else(|| home("HOME").map(|h| h.join(".local/state")))
        else {
            bail!("neither XDG_STATE_HOME nor HOME is set; give --state DIR for the results");
        };
        let mut hasher = DefaultHasher::new();
        (command, std::env::current_dir().ok()).hash(&mut hasher);
        if let Some(machine) = lab {
            machine.hash(&mut hasher);
        }
        Ok(base.join("numapilot").join(format!("tune-{:016x}", hasher.finish())))
    }
}

impl Outputs {
    /// Writes the winner, if there is one, and the picture, if it was asked for.
    pub fn write(
        &self,
        terminal: &Terminal,
        report: &Report,
        origin: &Origin<'_>,
    ) -> anyhow::Result<Written> {
        let mut written = Written::default();
        if let Some(best) = &report.best {
            let profile = origin.comment(report, best) + &best.profile.to_profile();
            file::put(&self.profile, &profile, self.existing)?;
            written.profile = Some(self.profile.clone());
        } else if self.profile.is_file() {
            written.untouched = Some(self.profile.clone());
        }
        if let Some(path) = &self.svg {
            if report.plans.iter().any(|plan| plan.ratio.is_some()) {
                file::put(path, &svg::draw(report), self.existing)?;
                written.picture = Some(path.clone());
            } else {
                terminal.warn(format!("{}: no plan was measured to draw", path.display()));
            }
        }
        Ok(written)
    }
}

/// What a profile comes from.
pub struct Origin<'a> {
    pub command: &'a [OsString],
    pub held: &'a [Holder],
    /// The emulated machine.
    pub lab: Option<&'a str>,
}

impl Origin<'_> {
    /// The machine and the runs behind the winner, as comments of its profile.
    fn comment(&self, report: &Report, best: &PlanFigures) -> String {
        let words: Vec<_> = self.command.iter().map(|word| word.to_string_lossy()).collect();
        let mut lines = vec![format!("Measured by numapilot tune on {} (UTC).", date::today())];
        lines.extend(match self.lab {
            Some(machine) => vec![format!("Machine: {machine}, emulated; times are simulated")],
            None => this_machine(),
        });
        lines.extend([
            format!("Command: {}", words.join(" ")),
            format!("Metric: {}", report.metric),
            format!("Result: {}", text::result(report, best)),
            format!("Runs: {} of this plan, {} in all", best.runs, report.runs),
        ]);
        lines.extend(text::compared(report).map(|of| format!("Compared: {of}")));
        lines.extend(self.held.iter().map(|holder| format!("Meanwhile: {holder}")));
        lines.iter().map(|line| format!("# {}\n", line.replace(char::is_control, " "))).collect()
    }
}

/// Lines that describe this host.
fn this_machine() -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let cpu = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| {
            Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    vec![
        format!("Machine: {}, {}, {cpu}", read("/proc/sys/kernel/hostname"), plural(cpus, "CPU")),
        format!("Kernel: Linux {}", read("/proc/sys/kernel/osrelease")),
    ]
}

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
use numapilot_place::{Measured, Profile};
use numapilot_topology::{Machine, StableHash};
use numapilot_trials::Row;
use numapilot_tune::report::{PlanFigures, Report};

use super::args::FileArgs;
use super::written::Written;
use super::{export, svg, text};

/// Files that were checked before the search.
pub struct Outputs {
    profile: PathBuf,
    svg: Option<PathBuf>,
    csv: Option<PathBuf>,
    markdown: Option<PathBuf>,
    parquet: Option<PathBuf>,
    existing: Existing,
}

impl FileArgs {
    /// Checks the files, to fail before measuring instead of after it.
    pub fn check(&self) -> anyhow::Result<Outputs> {
        let existing = self.existing();
        let optional = [
            ("the picture", "--svg", &self.svg),
            ("the table", "--csv", &self.csv),
            ("the table", "--markdown", &self.markdown),
            ("the runs", "--parquet", &self.parquet),
        ];
        let mut files = vec![("the profile", "--output", &self.output)];
        for (what, option, path) in optional {
            files.extend(path.as_ref().map(|path| (what, option, path)));
        }
        for (index, &(what, option, path)) in files.iter().enumerate() {
            file::check(path, existing).with_context(|| format!("{what} ({option} FILE)"))?;
            for &(_, other, another) in &files[..index] {
                file::check_distinct((other, another), (option, path))?;
            }
        }
        Ok(Outputs {
            profile: self.output.clone(),
            svg: self.svg.clone(),
            csv: self.csv.clone(),
            markdown: self.markdown.clone(),
            parquet: self.parquet.clone(),
            existing: self.existing(),
        })
    }

    fn existing(&self) -> Existing {
        // A search that continues replaces what it wrote when it stopped.
        if self.force || self.resume { Existing::Replace } else { Existing::Keep }
    }

    /// The directory of the results of this command (with this load, if it is a server), on this
    /// machine or on an emulated one.
    pub fn state(
        &self,
        command: &[OsString],
        load: &str,
        lab: Option<&str>,
    ) -> anyhow::Result<PathBuf> {
        if let Some(directory) = &self.state {
            return Ok(directory.clone());
        }
        let mut hasher = DefaultHasher::new();
        (command, std::env::current_dir().ok()).hash(&mut hasher);
        if let Some(machine) = lab {
            machine.hash(&mut hasher);
        }
        if !load.is_empty() {
            load.hash(&mut hasher);
        }
        let Some(kept) = kept() else {
            bail!("neither XDG_STATE_HOME nor HOME is set; give --state DIR for the results");
        };
        Ok(kept.join(format!("tune-{:016x}", hasher.finish())))
    }
}

/// The directory that keeps the results of all searches without `--state`, each in one of its own.
pub fn kept() -> Option<PathBuf> {
    let home = |variable: &str| {
        std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
    };
    let base = home("XDG_STATE_HOME").or_else(|| home("HOME").map(|h| h.join(".local/state")))?;
    Some(base.join("numapilot"))
}

impl Outputs {
    /// Writes the winner, if there is one, and the files that were asked for.
    pub fn write(
        &self,
        terminal: &Terminal,
        report: &Report,
        rows: &[Row],
        origin: &Origin<'_>,
    ) -> anyhow::Result<Written> {
        let mut written = Written::default();
        if let Some(path) = &self.parquet {
            file::put_bytes(path, &numapilot_trials::parquet(rows)?, self.existing)?;
            written.runs = Some(path.clone());
        }
        if let Some(path) = &self.csv {
            file::put(path, &export::csv(report), self.existing)?;
            written.tables.push(path.clone());
        }
        if let Some(path) = &self.markdown {
            file::put(path, &export::markdown(report), self.existing)?;
            written.tables.push(path.clone());
        }
        if let Some(best) = &report.best {
            let measured = Some(origin.measured(report, best));
            let profile = Profile { plan: best.profile.clone(), measured };
            let text = origin.comment(report, best) + &profile.to_text();
            file::put(&self.profile, &text, self.existing)?;
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
    /// This host.
    pub machine: &'a Machine,
    /// The load, if the command is a server.
    pub load: Option<&'a str>,
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
            None => self.this_machine(),
        });
        let title = if self.load.is_some() { "Server" } else { "Command" };
        lines.push(format!("{title}: {}", words.join(" ")));
        lines.extend(self.load.map(|load| format!("Load: {load}")));
        lines.extend([
            format!("Metric: {}", report.metric),
            format!("Result: {}", text::result(report, best)),
            format!("Runs: {} of this plan, {} in all", best.runs, report.runs),
        ]);
        lines.extend(text::compared(report).map(|of| format!("Compared: {of}")));
        lines.extend(self.held.iter().map(|holder| format!("Meanwhile: {holder}")));
        lines.iter().map(|line| format!("# {}\n", line.replace(char::is_control, " "))).collect()
    }
    /// Where and with what result the winner was measured. On an emulated machine, what this host
    /// is does not matter.
    fn measured(&self, report: &Report, best: &PlanFigures) -> Measured {
        let is_here = self.lab.is_none();
        let words = self.command.iter().map(|word| word.as_encoded_bytes());
        Measured {
            topology: is_here.then(|| self.machine.topology_hash()),
            emulated: self.lab.map(str::to_owned),
            processor: self.machine.processor.clone().filter(|_| is_here),
            kernel: is_here.then(kernel),
            numapilot: Some(env!("CARGO_PKG_VERSION").to_owned()),
            command: Some(StableHash::of(words)),
            date: Some(date::today()),
            metric: Some(report.metric.clone()),
            ratio: best.ratio.map(rounded),
            interval: best.confidence.map(|bounds| bounds.map(rounded)),
        }
    }

    /// Lines that describe this host.
    fn this_machine(&self) -> Vec<String> {
        let machine = self.machine;
        let processor = machine.processor.as_deref().unwrap_or(std::env::consts::ARCH);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        vec![
            format!("Machine: {}, {}, {processor}", machine.name, plural(cpus, "CPU")),
            format!("Kernel: Linux {}", kernel()),
        ]
    }
}

/// Rounds to four significant digits.
fn rounded(ratio: f64) -> f64 {
    format!("{ratio:.3e}").parse().unwrap_or(ratio)
}

/// The release of the running kernel.
pub fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

//! `numapilot study run`: runs trials, stores their results, and prints the verdicts.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use numapilot_cli_kit::file::{self, Existing};
use numapilot_cli_kit::interruption;
use numapilot_cli_kit::settle::{Measured, held_settings};
use numapilot_cli_kit::terminal::Terminal;
use numapilot_cli_kit::units;
use numapilot_lab_model::{Variation, VariationError};
use numapilot_study::experiment::{
    Ahead, Batch, Experiment, Finished, Host, Journal, Judged, Record, Running, ScaleName, Trial,
    Watcher, measure_host, named, names,
};
use numapilot_topology::bounded;
use numapilot_trials::Source;
use serde::Serialize;

use super::args::{Scale, Which};
use super::entry::Entry;
use super::progress::Progress;
use super::rows::rows;
use super::{LONGEST, text};
use crate::jobs::Jobs;
use crate::programs;

/// Arguments of `study run`.
#[derive(clap::Args)]
#[command(after_help = "\
Each result is written to the file of --output at once; `numapilot study report` draws them. The \
exit status is 1 when a claim is not reproduced or a trial has failed. The manual's page about \
study describes experiment files.\n\n\
Examples:\n  numapilot study run A5 A9\n  \
numapilot study run --paper numalloc --scale laptop\n  \
numapilot study run --machine lab\n  \
numapilot study run --all --resume && numapilot study report")]
pub struct Args {
    /// Experiments of `study list`, or experiment files; or choose with --all, --paper, --machine.
    #[arg(
        value_name = "ID|FILE",
        required_unless_present_any = ["all", "paper", "machine"],
        conflicts_with_all = ["all", "paper", "machine"]
    )]
    experiments: Vec<String>,
    /// Run all experiments.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    which: Which,
    /// Size of the runs.
    #[arg(long, value_enum, default_value_t = Scale::Smoke)]
    scale: Scale,
    /// Run everything N times instead of as often as the scale says: 1 gives a first impression;
    /// more, with --resume, gives more precise values.
    #[arg(long, value_name = "N", value_parser = units::whole::<u32>(1..))]
    repetitions: Option<u32>,
    /// Run the experiments on emulated machines with a free parameter of the model times FACTOR, as
    /// for lab run, instead of as they are; may be repeated. `all` stands for half and double of
    /// each. The report then says which verdicts depend on them.
    #[arg(long, value_name = "NAME=FACTOR|all", value_delimiter = ',', value_parser = variations)]
    vary: Vec<Variations>,
    /// Add to the existing results; only failed trials run again.
    #[arg(long)]
    resume: bool,
    /// File for the results, as lines of JSON.
    #[arg(short, long, value_name = "FILE", default_value = super::RESULTS)]
    output: PathBuf,
    /// Also write the numbers of all trials to this Parquet file, which is replaced: a row for each
    /// trial and metric (see fleet).
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Seed of the random order.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    jobs: Jobs,
    /// Print the verdicts as JSON.
    #[arg(long)]
    json: bool,
}

/// A value of `--vary`.
#[derive(Clone)]
struct Variations(Vec<Variation>);

fn variations(text: &str) -> Result<Variations, VariationError> {
    Ok(Variations(match text {
        "all" => Variation::all(),
        text => vec![text.parse()?],
    }))
}

/// `study run --json`.
#[derive(Serialize)]
struct Document<'a> {
    scale: ScaleName,
    seed: u64,
    host: &'a Host,
    experiments: Vec<Entry<'a, Judged>>,
    is_interrupted: bool,
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let scale = self.scale.into();
        let chosen = self.chosen()?;
        let experiments = self.varied(&chosen)?;
        let machine = numapilot_topology::read(Path::new("/"))?;
        let programs = programs()?;
        let interrupted = interruption::flag()?;
        if let Some(path) = &self.parquet {
            file::check(path, Existing::Replace).context("--parquet FILE")?;
            file::check_distinct(("--output", &self.output), ("--parquet", path))?;
        }
        let (journal, past) = Journal::open(&self.output, self.resume)?;
        let held = held_settings(terminal);
        let host = Host {
            held_settings: held.iter().map(ToString::to_string).collect(),
            ..measure_host(&machine, env!("CARGO_PKG_VERSION"))
        };
        let mut sink = Sink {
            journal,
            progress: Progress::new(terminal),
            scale,
            chosen: &chosen,
            begun: past.experiments,
            trials: past.trials.clone(),
            host: Some(host.clone()),
        };
        text::host(terminal, &host)?;
        let batch = Batch {
            experiments: &experiments,
            scale,
            repetitions: self.repetitions,
            seed: self.seed,
            jobs: self.jobs.number(),
            machine: &machine,
            programs: &programs,
            interrupted: &interrupted,
        };
        let finished = batch.run(&past.trials, &mut sink);
        sink.progress.finish();
        let is_interrupted = finished? == Finished::Interrupted;
        if let Some(path) = &self.parquet {
            let source = Source::here(&machine, host.kernel.clone());
            let rows = rows(&experiments, scale, &sink.trials, &source);
            file::put_bytes(path, &numapilot_trials::parquet(&rows)?, Existing::Replace)?;
        }
        let judged = |experiment| Experiment::judge(experiment, scale, &sink.trials);
        let entries =
            experiments.iter().map(|experiment| Entry::new(experiment, judged(experiment)));
        let experiments: Vec<Entry<'_, Judged>> = entries.collect();
        let wrong = experiments.iter().any(|e| e.details.verdict.is_bad());
        if self.json {
            let seed = self.seed;
            let document = Document { scale, seed, host: &host, experiments, is_interrupted };
            terminal.json(&Measured::new(terminal, document))?;
        } else {
            text::experiments(terminal, &experiments)?;
        }
        Ok(match (is_interrupted, wrong) {
            (true, _) => interruption::status(),
            (false, true) => ExitCode::FAILURE,
            (false, false) => ExitCode::SUCCESS,
        })
    }

    /// The experiments to run: those that were chosen, or their variations.
    fn varied(&self, chosen: &[Experiment]) -> anyhow::Result<Vec<Experiment>> {
        let variations: Vec<Variation> = self.vary.iter().flat_map(|vary| vary.0.clone()).collect();
        if variations.is_empty() {
            return Ok(chosen.to_vec());
        }
        let of = |experiment: &Experiment| -> Vec<Experiment> {
            variations.iter().filter_map(|variation| experiment.varied(variation)).collect()
        };
        let varied: Vec<Experiment> = chosen.iter().flat_map(of).collect();
        if varied.is_empty() {
            bail!(
                "--vary: none of the experiments depends on it: they run on this host, or (for \
                 time-scale) with the guest's clocks as they are"
            );
        }
        Ok(varied)
    }

    fn chosen(&self) -> anyhow::Result<Vec<Experiment>> {
        if self.experiments.is_empty() {
            return self.which.experiments();
        }
        let mut chosen: Vec<Experiment> = Vec::new();
        for name in &self.experiments {
            let experiment = load(name)?;
            if chosen.iter().any(|other| other.id == experiment.id) {
                bail!("there are two experiments {}; leave out one", experiment.id);
            }
            chosen.push(experiment);
        }
        Ok(chosen)
    }
}

fn load(name: &str) -> anyhow::Result<Experiment> {
    if let Some(experiment) = named(name)? {
        return Ok(experiment);
    }
    let path = Path::new(name);
    if path.exists() && !path.is_dir() {
        let text = bounded::read(path, LONGEST).with_context(|| format!("cannot read {name}"))?;
        return Ok(Experiment::parse(name, &text)?);
    }
    let known: Vec<String> = names().map(str::to_uppercase).collect();
    bail!("there is no experiment '{name}'; there are {}, or give a file", known.join(", "))
}

/// The directory in which the shell finds the `numapilot` that executes this program.
fn programs() -> anyhow::Result<PathBuf> {
    let numapilot = programs::numapilot()?;
    let directory = numapilot.parent().context("numapilot's file has no directory")?;
    Ok(directory.to_owned())
}

/// Stores and shows results when they arrive.
struct Sink<'a> {
    journal: Journal,
    progress: Progress<'a>,
    scale: ScaleName,
    /// The experiments as they are.
    chosen: &'a [Experiment],
    /// The experiments that the file already has.
    begun: Vec<(ScaleName, Experiment)>,
    trials: Vec<Trial>,
    /// Set until the first trial: a host that ran no trial is not in the results.
    host: Option<Host>,
}

impl Watcher for Sink<'_> {
    type Error = anyhow::Error;

    fn begin(&mut self, experiment: &Experiment) -> anyhow::Result<()> {
        // The trials of a variation belong to the experiment, which the report varies as well.
        let as_is = self.chosen.iter().find(|chosen| chosen.id == experiment.id);
        let experiment = as_is.unwrap_or(experiment);
        if self.begun.iter().any(|(scale, begun)| *scale == self.scale && begun == experiment) {
            return Ok(());
        }
        self.begun.push((self.scale, experiment.clone()));
        let definition = Box::new(experiment.clone());
        Ok(self.journal.append(&Record::Experiment { scale: self.scale, definition })?)
    }

    fn now(&mut self, running: &[Running<'_>], ahead: &Ahead) {
        self.progress.now(running, ahead);
    }

    fn after(&mut self, trial: &Trial) -> anyhow::Result<()> {
        self.progress.after(trial);
        if let Some(host) = self.host.take() {
            self.journal.append(&Record::Host(host))?;
        }
        self.journal.append(&Record::Trial(trial.clone()))?;
        self.trials.push(trial.clone());
        Ok(())
    }
}

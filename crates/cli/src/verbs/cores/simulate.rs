//! `numapilot cores simulate`: shows how the modes would respond to a load.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;
use numapilot_cli_kit::file::{Existing, not_read, put};
use numapilot_cli_kit::terminal::{self, Terminal};
use numapilot_cli_kit::units;
use numapilot_cores::decide::Limits;
use numapilot_cores::simulator::{self, Sight, Tick, Trace};
use numapilot_topology::bounded;

use super::decision::Mode;
use super::svg::{Panel, Point, draw};

/// A tick of a simulation, for pictures.
const TICK_S: f64 = 0.1;
/// Longest load in bytes: days of ticks.
const LONGEST: u64 = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// A constant load.
    Constant,
    /// A low load, then a high one.
    Step,
    /// A high load for ten ticks.
    Burst,
    /// A low and a high load in turn.
    Square,
    /// A slow wave.
    Sine,
    /// A database under queries, recorded.
    Database,
}

/// Arguments of `cores simulate`.
#[derive(clap::Args)]
pub struct Args {
    /// The load.
    #[arg(long, value_enum, default_value_t = Shape::Burst)]
    load: Shape,

    /// A load from FILE: the number of threads that want to run, one tick per line.
    #[arg(long, value_name = "FILE", conflicts_with = "load")]
    trace: Option<PathBuf>,

    /// Cores of the machine.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = units::whole::<u32>(1..=4096))]
    cpus: u32,

    /// Cores at the beginning.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = units::whole::<u32>(1..))]
    first: u32,

    /// Draw load and cores to FILE.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Write every tick as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(serde::Serialize)]
struct Simulated {
    mode: &'static str,
    /// Share of the time in which the program had all cores.
    all_cores_share: f64,
    ticks: Vec<Tick>,
}

impl Args {
    pub fn run(&self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let demand = match &self.trace {
            Some(path) => {
                let name = || path.display().to_string();
                let text = bounded::read(path, LONGEST).map_err(|error| not_read(path, error))?;
                simulator::read(&text).with_context(name)?
            }
            None => self.shape()?,
        };
        let limits = Limits { minimum: 1, maximum: self.cpus };
        let mut runs = Vec::new();
        for mode in [Mode::Paper, Mode::Default] {
            let mut controller = mode.controller(mode.thresholds(None, None)?);
            let ticks =
                simulator::simulate(&mut controller, &demand, limits, self.first, Sight::Waiting);
            let all = ticks.iter().filter(|tick| tick.cores == self.cpus).count();
            let all_cores_share = all as f64 / ticks.len().max(1) as f64;
            runs.push(Simulated { mode: mode.name(), all_cores_share, ticks });
        }
        if let Some(path) = &self.svg {
            put(path, &self.picture(&runs), Existing::Replace)?;
        }
        if self.json {
            terminal.json(&runs)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut table =
            terminal::table(&["mode", "cores", "most", "changes", "waited"], &[1, 2, 3, 4]);
        for run in &runs {
            table.add_row(row(run));
        }
        writeln!(terminal.out(), "{}", terminal::trimmed(&table))?;
        Ok(ExitCode::SUCCESS)
    }

    fn shape(&self) -> anyhow::Result<Vec<f64>> {
        let trace = match self.load {
            Shape::Constant => Trace::Constant,
            Shape::Step => Trace::Step,
            Shape::Burst => Trace::Burst,
            Shape::Square => Trace::Square,
            Shape::Sine => Trace::Sine,
            Shape::Database => Trace::Database,
        };
        Ok(trace.demand(self.cpus)?)
    }

    fn picture(&self, runs: &[Simulated]) -> String {
        let points: Vec<Vec<Point>> = runs
            .iter()
            .map(|run| run.ticks.iter().map(|t| Point { load: t.demand, cores: t.cores }).collect())
            .collect();
        let panels: Vec<Panel<'_>> = runs
            .iter()
            .zip(&points)
            .map(|(run, points)| Panel { title: format!("{} mode", run.mode), points })
            .collect();
        let name = match &self.trace {
            Some(_) => "a recorded load".to_owned(),
            None => {
                let value = self.load.to_possible_value();
                value.map_or_else(String::new, |v| format!("load: {}", v.get_name()))
            }
        };
        draw(
            &format!("Cores of {} for a program ({name}), simulated", self.cpus),
            self.cpus,
            TICK_S,
            &panels,
        )
    }
}

fn row(run: &Simulated) -> Vec<String> {
    let cores: u32 = run.ticks.iter().map(|tick| tick.cores).sum();
    let most = run.ticks.iter().map(|tick| tick.cores).max().unwrap_or(0);
    let changes = run.ticks.windows(2).filter(|pair| pair[0].cores != pair[1].cores).count();
    let demand: f64 = run.ticks.iter().map(|tick| tick.demand).sum();
    let waited: f64 = run.ticks.iter().map(|tick| tick.demand - tick.busy).sum();
    let share = if demand > 0.0 { 100.0 * waited / demand } else { 0.0 };
    vec![
        run.mode.to_owned(),
        format!("{:.2}", f64::from(cores) / run.ticks.len().max(1) as f64),
        most.to_string(),
        changes.to_string(),
        format!("{share:.1} %"),
    ]
}

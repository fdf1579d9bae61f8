//! `numapilot bench w5`: one query at a time.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use numapilot_cli_kit::terminal::{self, Terminal, trimmed};
use numapilot_cli_kit::units;
use numapilot_engines::Watch;
use numapilot_engines::power::{self, Event, Outcome, Run};
use serde_json::{Map, Value, json};

use super::args::{Common, List, list};
use super::context::RunContext;
use super::open::Bench;
use super::report::{self, Findings};
use super::svg::{self, Caption};
use super::{failure, json};

/// Arguments of `bench w5`.
#[derive(clap::Args)]
#[command(after_help = "\
Each query runs once to warm up and then --runs times, round by round; the median counts. \
Answers are compared with those of the other engines at the same scale factor, and at scale \
factor 1 with the reference answers; a wrong answer fails the bench.\n\n\
Examples:\n  numapilot bench w5 --scale-factor 0.1\n  \
numapilot bench w5 --engine postgresql --queries 1,6 --allocator jemalloc --interleave all")]
pub struct Args {
    /// Queries, as in 1-22 or 1,3,6 [default: all].
    #[arg(long, value_name = "LIST", value_parser = list)]
    queries: Option<List>,

    /// Number of measured runs of each query.
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = units::whole::<u32>(1..=10_000))]
    runs: u32,

    #[command(flatten)]
    common: Common,
}

const WALL: fn(&Run) -> Option<Duration> = |run| Some(run.wall);
const ENGINE: fn(&Run) -> Option<Duration> = |run| run.engine;

impl Args {
    pub fn run(mut self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let plan = self.common.take_plan(terminal)?;
        let mut bench = self.common.open(terminal, plan, self.queries.as_ref())?;
        let mut session = bench.engine.connect()?;
        let mallocs = bench.mallocs();
        let watch = Watch::begin(bench.engine.pid())?;
        let total = bench.queries.len();
        let (mut done, mut written) = (0, Ok(()));
        let progress = &bench.progress;
        let mut each = |event: Event<'_>| match event {
            Event::Begins(number, round) => {
                let round = if round == 0 {
                    "warming up".to_owned()
                } else {
                    format!("round {round} of {}", self.runs)
                };
                progress
                    .show(format!("{round} · query {number} ({} of {total})", done % total + 1));
            }
            Event::Ended(outcome, round) => {
                done += 1;
                if let Some(failure) = &outcome.failure {
                    progress.say(&failure::failed(outcome.number, failure));
                } else if self.common.json && written.is_ok() {
                    written = json::line(terminal, &run_line(outcome, round));
                }
            }
        };
        let (outcomes, end) = power::run(
            bench.engine.as_ref(),
            &mut session,
            &bench.queries,
            self.runs,
            &mut bench.verifier,
            &bench.stop,
            &mut each,
        );
        written?;
        let context = RunContext { watched: watch.finish(), mallocs };
        drop(session);
        let results = Results { outcomes, runs: self.runs };
        report::end(&self.common, bench, &context, end, &results)
    }
}

/// The results.
struct Results {
    outcomes: Vec<Outcome>,
    runs: u32,
}

impl Results {
    /// The sum of the medians, if every query has one.
    fn seconds(&self) -> Option<f64> {
        self.outcomes.iter().map(|outcome| outcome.median_seconds(WALL)).sum()
    }
}

impl Findings for Results {
    const WORKLOAD: &'static str = "w5";

    fn subtitle(&self, bench: &Bench<'_>) -> String {
        format!("{} on {}, plan {}", bench.dataset.name(), bench.engine.title(), bench.plan)
    }

    fn summarize(&self, all: &mut Map<String, Value>, _: &RunContext) {
        let mut put = |name: &str, value: Value| all.insert(name.to_owned(), value);
        let seconds = self.seconds();
        put("seconds", seconds.into());
        let per_second = seconds.map(|seconds| self.outcomes.len() as f64 / seconds);
        put("items_per_second", per_second.into());
        put("threads", 1.into());
        put("runs", self.runs.into());
        let queries = self.outcomes.iter().map(|outcome| {
            json!({
                "query": outcome.number,
                "median_seconds": outcome.median_seconds(WALL),
                "median_engine_seconds": outcome.median_seconds(ENGINE),
                "cold_seconds": outcome.cold.map(|run| run.wall.as_secs_f64()),
                "rows": outcome.rows,
                "agrees_with": outcome.agrees_with,
                "failure": outcome.failure.as_ref().map(failure::message),
            })
        });
        put("queries", queries.collect());
    }

    fn print(&self, out: &mut dyn Write, bench: &Bench<'_>) -> anyhow::Result<()> {
        let header = ["query", "median", "engine", "least", "most", "cold", "rows"];
        let mut table = terminal::table(&header, &[0, 1, 2, 3, 4, 5, 6]);
        let show = |seconds: Option<f64>| seconds.map_or("-".to_owned(), terminal::seconds);
        for outcome in &self.outcomes {
            let walls = || outcome.runs.iter().map(|run| run.wall.as_secs_f64());
            table.add_row([
                outcome.number.to_string(),
                show(outcome.median_seconds(WALL)),
                show(outcome.median_seconds(ENGINE)),
                show(walls().reduce(f64::min)),
                show(walls().reduce(f64::max)),
                show(outcome.cold.map(|run| run.wall.as_secs_f64())),
                outcome.rows.to_string(),
            ]);
        }
        writeln!(out, "{}\n", trimmed(&table))?;
        match self.seconds() {
            Some(seconds) => writeln!(out, "seconds {seconds:.6}")?,
            None => writeln!(out, "seconds <not supported> (not every query has a time)")?,
        }
        if let Some(checksum) = bench.checksum() {
            writeln!(out, "checksum {checksum} ({})", agreement(&self.outcomes))?;
        }
        Ok(())
    }

    fn picture(&self, caption: &Caption, _: &RunContext) -> String {
        svg::queries(caption, &self.outcomes)
    }

    fn unfinished(&self) -> &'static str {
        "not all rounds were made"
    }

    fn failures(&self) -> Vec<String> {
        self.outcomes.iter().filter_map(failure::failure).collect()
    }
}

fn run_line(outcome: &Outcome, round: u32) -> Value {
    let run = if round == 0 { outcome.cold } else { outcome.runs.last().copied() };
    json!({
        "query": outcome.number,
        "round": round,
        "seconds": run.map(|run| run.wall.as_secs_f64()),
        "engine_seconds": run.and_then(|run| run.engine).map(|engine| engine.as_secs_f64()),
        "rows": outcome.rows,
    })
}

/// Describes the engines with which all answers agree.
fn agreement(outcomes: &[Outcome]) -> String {
    let Some((first, others)) = outcomes.split_first() else { return String::new() };
    let all: Vec<&str> = first
        .agrees_with
        .iter()
        .filter(|name| others.iter().all(|outcome| outcome.agrees_with.contains(name)))
        .map(String::as_str)
        .collect();
    if all.is_empty() {
        return "no other engine has answered all of these here yet".to_owned();
    }
    format!("all answers agree with {}", all.join(", "))
}

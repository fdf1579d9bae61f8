//! `numapilot bench arrivals`: queries arrive at a database whether or not earlier ones have been
//! answered.

use std::io::Write;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Instant;

use numapilot_cli_kit::terminal::{self, Terminal, left_time, trimmed};
use numapilot_cli_kit::units;
use numapilot_engines::arrivals::{self, Arrival, Outcome, Served};
use numapilot_engines::{End, Latencies, Watch};
use serde_json::{Map, Value, json};

use super::args::{Common, List, few, list};
use super::context::RunContext;
use super::open::Bench;
use super::report::{self, Findings};
use super::svg::{self, Caption};
use super::{failure, json};

/// The quantiles that are printed.
const SHARES: [(&str, f64); 5] =
    [("median", 0.5), ("p75", 0.75), ("p95", 0.95), ("p99", 0.99), ("most", 1.0)];

/// Arguments of `bench arrivals`.
#[derive(clap::Args)]
#[command(after_help = "\
Times between arrivals are exponential; the same seed gives the same arrivals under every plan. \
Latency counts from the scheduled arrival of a query, so an overload shows as waiting time.\n\n\
Examples:\n  numapilot bench arrivals --rate 6 --arrivals 300 --svg arrivals.svg\n  \
numapilot bench arrivals --engine postgresql --rate 2 --queries 1,3,6 --allocator tcmalloc")]
pub struct Args {
    /// Queries per second.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: f64,

    /// Maximum number of active queries; the others wait.
    #[arg(long, value_name = "N", default_value = "10", value_parser = few)]
    active: NonZeroUsize,

    /// Number of queries that arrive.
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = units::whole::<u32>(1..=10_000_000))]
    arrivals: u32,

    /// Queries that arrive, all equally often [default: all].
    #[arg(long, value_name = "LIST", value_parser = list)]
    queries: Option<List>,

    /// Seed of the random arrivals.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    common: Common,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (1e-3..=1e6).contains(&rate) => Ok(rate),
        _ => Err(format!("'{text}' is not a rate; write queries per second, as in 6 or 0.5")),
    }
}

impl Args {
    pub fn run(mut self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let plan = self.common.take_plan(terminal)?;
        let mut bench = self.common.open(terminal, plan, self.queries.as_ref())?;
        let mut sessions = bench.sessions(self.active.get())?;
        let warm = bench.warm_up(&mut sessions);
        if !matches!(warm.0, End::Complete) || !warm.1.is_empty() {
            bench.progress.finish();
            drop(sessions);
            return bench.close(warm.0, &warm.1);
        }
        let mallocs = bench.mallocs();
        let schedule =
            arrivals::schedule(self.rate, self.arrivals as usize, bench.queries.len(), self.seed);
        let watch = Watch::begin(bench.engine.pid())?;
        let (mut done, mut written) = (0, Ok(()));
        let began = Instant::now();
        let progress = &bench.progress;
        let mut each = |served: &Served| {
            done += 1;
            progress.show(place(&schedule, done, began.elapsed().as_secs_f64()));
            if let Some(failure) = &served.failure {
                progress.say(&failure::failed(served.number, failure));
            }
            if self.common.json && written.is_ok() {
                written = json::line(terminal, &line(served));
            }
        };
        let (outcome, end) = arrivals::run(
            bench.engine.as_ref(),
            &mut sessions,
            &bench.queries,
            &schedule,
            &mut bench.verifier,
            &bench.stop,
            &mut each,
        );
        written?;
        let context = RunContext { watched: watch.finish(), mallocs };
        drop(sessions);
        let results = Results { asked: &self, outcome };
        report::end(&self.common, bench, &context, end, &results)
    }
}

/// The results.
struct Results<'a> {
    asked: &'a Args,
    outcome: Outcome,
}

impl Findings for Results<'_> {
    const WORKLOAD: &'static str = "arrivals";

    fn subtitle(&self, bench: &Bench<'_>) -> String {
        let (name, title, plan) = (bench.dataset.name(), bench.engine.title(), &bench.plan);
        let Args { rate, active, .. } = self.asked;
        format!("{name} on {title}, {rate} queries/s, at most {active} active, plan {plan}")
    }

    fn summarize(&self, all: &mut Map<String, Value>, context: &RunContext) {
        let Self { asked, outcome } = self;
        all["parameters"]["rate"] = asked.rate.into();
        all["parameters"]["active"] = asked.active.get().into();
        all["parameters"]["arrivals"] = asked.arrivals.into();
        all["parameters"]["seed"] = asked.seed.into();
        let mut put = |name: &str, value: Value| all.insert(name.to_owned(), value);
        let seconds = outcome.elapsed.as_secs_f64();
        put("seconds", seconds.into());
        put("items_per_second", (outcome.latency.count() as f64 / seconds).into());
        put("answered", outcome.latency.count().into());
        put("failed", outcome.failures.len().into());
        put("threads", asked.active.get().into());
        put("wait_seconds", shares(&outcome.wait));
        put("execution_seconds", shares(&outcome.execution));
        put("latency_seconds", shares(&outcome.latency));
        let queries = outcome.by_query.iter().map(|(number, latencies)| {
            json!({ "query": number, "arrivals": latencies.count(),
                    "latency_seconds": shares(latencies) })
        });
        put("queries", queries.collect());
        put("memory", json!(context.watched.points));
    }

    fn print(&self, out: &mut dyn Write, bench: &Bench<'_>) -> anyhow::Result<()> {
        let Self { asked, outcome } = self;
        let header: Vec<&str> =
            ["", "mean"].into_iter().chain(SHARES.map(|(name, _)| name)).collect();
        let mut table = terminal::table(&header, &[1, 2, 3, 4, 5, 6]);
        let show = |seconds: Option<f64>| seconds.map_or("-".to_owned(), terminal::seconds);
        for (name, latencies) in [
            ("wait", &outcome.wait),
            ("execution", &outcome.execution),
            ("latency", &outcome.latency),
        ] {
            let shares = SHARES.map(|(_, share)| show(latencies.quantile(share)));
            table.add_row([name.to_owned(), show(latencies.mean())].into_iter().chain(shares));
        }
        writeln!(out, "{}\n", trimmed(&table))?;
        let seconds = outcome.elapsed.as_secs_f64();
        let (answered, failed) = (outcome.latency.count(), outcome.failures.len());
        writeln!(out, "answered {answered} of {} arrivals, {failed} failed", asked.arrivals)?;
        writeln!(out, "seconds {seconds:.6}")?;
        writeln!(out, "queries/s {:.3} (arriving {})", answered as f64 / seconds, asked.rate)?;
        if let Some(checksum) = bench.checksum() {
            writeln!(out, "checksum {checksum}")?;
        }
        Ok(())
    }

    fn picture(&self, caption: &Caption, context: &RunContext) -> String {
        svg::arrivals(caption, &self.outcome, &context.watched)
    }

    fn unfinished(&self) -> &'static str {
        "not all arrivals were served"
    }

    fn failures(&self) -> Vec<String> {
        failure::failures(&self.outcome.failures)
    }
}

/// The state of the run: how many queries are served, how many are open, and the time left.
fn place(schedule: &[Arrival], done: usize, elapsed: f64) -> String {
    let came = schedule.partition_point(|arrival| arrival.at.as_secs_f64() <= elapsed);
    let last = schedule.last().map_or(0.0, |arrival| arrival.at.as_secs_f64());
    let total = schedule.len();
    let open = came.saturating_sub(done);
    format!(
        "{done} of {total} served, {open} open · {} to go",
        left_time((last - elapsed).max(0.0))
    )
}

fn line(served: &Served) -> Value {
    json!({
        "query": served.number,
        "intended_seconds": served.intended.as_secs_f64(),
        "wait_seconds": served.wait.as_secs_f64(),
        "execution_seconds": served.execution.as_secs_f64(),
        "engine_seconds": served.engine.map(|engine| engine.as_secs_f64()),
        "failure": served.failure.as_ref().map(failure::message),
    })
}

/// Mean and quantiles, in seconds.
pub fn shares(latencies: &Latencies) -> Value {
    let mut all = serde_json::Map::new();
    all.insert("mean".to_owned(), latencies.mean().into());
    for (name, share) in SHARES {
        all.insert(name.to_owned(), latencies.quantile(share).into());
    }
    all.into()
}

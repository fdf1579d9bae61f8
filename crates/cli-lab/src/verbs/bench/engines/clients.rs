//! `numapilot bench clients`: a growing number of clients, each of which sends its next query when
//! the last one is answered.

use std::io::Write;
use std::num::{NonZeroU64, NonZeroUsize};
use std::process::ExitCode;
use std::time::Duration;

use numapilot_cli_kit::terminal::{self, Terminal, trimmed};
use numapilot_cli_kit::units;
use numapilot_engines::clients::{self, Behaviour, Length, Think};
use numapilot_engines::{End, Watch, Watched};
use numapilot_observe::lab::{LabPmu, MarkKind};
use serde_json::{Map, Value, json};

use super::args::{Common, List, few, list};
use super::arrivals::shares;
use super::client_row::Row;
use super::context::RunContext;
use super::open::Bench;
use super::report::{self, Findings};
use super::svg::{self, Caption};
use super::{failure, json};

/// Arguments of `bench clients`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:\n  numapilot bench clients --query 6 --clients 1,2,4,8,16 --svg clients.svg\n  \
numapilot bench clients --engine postgresql --query 1-22 --clients 1,5 --time 1m")]
pub struct Args {
    /// Queries that every client sends one after the other, as in 6 or 1-22.
    #[arg(long, value_name = "LIST", value_parser = list, default_value = "6")]
    query: List,

    /// Numbers of clients; each gets a measurement of its own.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,4,8,16",
          value_parser = few)]
    clients: Vec<NonZeroUsize>,

    /// Duration of each measurement.
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "10s")]
    time: Duration,

    /// Number of queries that each client sends, instead of --time.
    #[arg(long, value_name = "N", conflicts_with = "time")]
    count: Option<NonZeroU64>,

    /// Mean of the pauses that each client makes before its queries (exponential).
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    think: Option<Duration>,

    /// Seed of the pauses.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    common: Common,
}

impl Args {
    pub fn run(mut self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let plan = self.common.take_plan(terminal)?;
        let mut bench = self.common.open(terminal, plan, Some(&self.query))?;
        let most = self.clients.iter().map(|clients| clients.get()).max().unwrap_or(1);
        let mut sessions = bench.sessions(most)?;
        let (mut end, mut failures) = bench.warm_up(&mut sessions);
        let mallocs = bench.mallocs();
        let mut rows = Vec::new();
        let mut watched = Watched::default();
        let lab = LabPmu::find()?;
        for &clients in &self.clients {
            if !matches!(end, End::Complete) || !failures.is_empty() {
                break;
            }
            let watch = Watch::begin(bench.engine.pid())?;
            let progress = &bench.progress;
            let region = Region::begin(lab.as_ref(), clients);
            let (outcome, ended) = clients::run(
                bench.engine.as_ref(),
                &mut sessions[..clients.get()],
                &bench.queries,
                self.behaviour(),
                &mut bench.verifier,
                &bench.stop,
                &mut |answered| progress.show(format!("{clients} clients · {answered} answered")),
            );
            let simulated = region.map(Region::end);
            let row = Row { outcome, watched: watch.finish(), simulated };
            watched.append(&row.watched);
            end = ended;
            failures = failure::failures(&row.outcome.failures);
            if self.common.json {
                json::line(terminal, &line(&row))?;
            }
            rows.push(row);
        }
        let context = RunContext { watched, mallocs };
        drop(sessions);
        let results = Results { asked: &self, rows, failures };
        report::end(&self.common, bench, &context, end, &results)
    }
}

impl Args {
    fn behaviour(&self) -> Behaviour {
        let think = Think { mean: self.think.unwrap_or_default(), seed: self.seed };
        Behaviour { length: self.length(), think }
    }

    fn length(&self) -> Length {
        self.count.map_or(Length::Time(self.time), |count| Length::Queries(count.get()))
    }
}

/// A measurement in a lab, as a region of interest in the lab's report.
struct Region<'a> {
    lab: &'a LabPmu,
    name: String,
    begun_ns: u64,
}

impl<'a> Region<'a> {
    fn begin(lab: Option<&'a LabPmu>, clients: NonZeroUsize) -> Option<Self> {
        let lab = lab?;
        let name = format!("{clients} clients");
        // A missing region in the report is no reason to end the measurement.
        let _ = lab.mark(MarkKind::Begin, &name);
        Some(Self { lab, name, begun_ns: lab.time_ns() })
    }

    /// Ends the region and returns its simulated time.
    fn end(self) -> Duration {
        let took_ns = self.lab.time_ns().saturating_sub(self.begun_ns);
        let _ = self.lab.mark(MarkKind::End, &self.name);
        Duration::from_nanos(took_ns)
    }
}

/// The results.
struct Results<'a> {
    asked: &'a Args,
    rows: Vec<Row>,
    failures: Vec<String>,
}

const HEADER: [&str; 8] =
    ["clients", "queries/s", "median", "p95", "most", "memory held", "page faults", "CPUs busy"];

impl Findings for Results<'_> {
    const WORKLOAD: &'static str = "clients";

    fn subtitle(&self, bench: &Bench<'_>) -> String {
        let numbers: Vec<String> = self.asked.query.0.iter().map(|n| format!("Q{n}")).collect();
        let (name, title, plan) = (bench.dataset.name(), bench.engine.title(), &bench.plan);
        let queries = match numbers.len() {
            0..=4 => numbers.join(", "),
            n => format!("{n} queries"),
        };
        format!("{queries} of {name} on {title}, plan {plan}")
    }

    fn summarize(&self, all: &mut Map<String, Value>, _: &RunContext) {
        let Self { asked, rows, .. } = self;
        all["parameters"]["clients"] = json!(asked.clients);
        let (name, length) = match asked.length() {
            Length::Time(time) => ("time_seconds", time.as_secs_f64().into()),
            Length::Queries(count) => ("count", count.into()),
        };
        all["parameters"][name] = length;
        if let Some(think) = asked.think {
            all["parameters"]["think_seconds"] = think.as_secs_f64().into();
            all["parameters"]["seed"] = asked.seed.into();
        }
        let mut put = |name: &str, value: Value| all.insert(name.to_owned(), value);
        let best = rows.iter().filter_map(|row| row.outcome.queries_per_second());
        let seconds: f64 = rows.iter().map(|row| row.outcome.elapsed.as_secs_f64()).sum();
        put("seconds", seconds.into());
        put("items_per_second", best.reduce(f64::max).into());
        put("threads", asked.clients.iter().map(|clients| clients.get()).max().into());
        put("clients", rows.iter().map(line).collect());
    }

    fn print(&self, out: &mut dyn Write, bench: &Bench<'_>) -> anyhow::Result<()> {
        let in_lab = self.rows.iter().any(|row| row.simulated.is_some());
        let mut header = HEADER.to_vec();
        header.extend(in_lab.then_some("simulated"));
        let mut table = terminal::table(&header, &(0..header.len()).collect::<Vec<_>>());
        let show = |seconds: Option<f64>| seconds.map_or("-".to_owned(), terminal::seconds);
        for Row { outcome, watched, simulated } in &self.rows {
            let busy = watched.engine_cpu_seconds / outcome.elapsed.as_secs_f64();
            let mut cells = vec![
                outcome.clients.to_string(),
                outcome.queries_per_second().map_or("-".to_owned(), |rate| format!("{rate:.2}")),
                show(outcome.latency.quantile(0.5)),
                show(outcome.latency.quantile(0.95)),
                show(outcome.latency.quantile(1.0)),
                watched.peak_held_bytes().map_or("-".to_owned(), terminal::bytes),
                watched.engine_minor_faults.to_string(),
                format!("{busy:.2}"),
            ];
            if in_lab {
                cells.push(show(simulated.map(|time| time.as_secs_f64())));
            }
            table.add_row(cells);
        }
        writeln!(out, "{}\n", trimmed(&table))?;
        if let Some(checksum) = bench.checksum() {
            writeln!(out, "checksum {checksum}")?;
        }
        Ok(())
    }

    fn picture(&self, caption: &Caption, _: &RunContext) -> String {
        svg::clients(caption, &self.rows)
    }

    fn unfinished(&self) -> &'static str {
        "not all numbers of clients were measured"
    }

    fn failures(&self) -> Vec<String> {
        self.failures.clone()
    }
}

fn line(row: &Row) -> Value {
    json!({
        "clients": row.outcome.clients,
        "queries_per_second": row.outcome.queries_per_second(),
        "answered": row.outcome.answered,
        "failed": row.outcome.failures.len(),
        "seconds": row.outcome.elapsed.as_secs_f64(),
        "latency_seconds": shares(&row.outcome.latency),
        "peak_held_bytes": row.watched.peak_held_bytes(),
        "engine_cpu_seconds": row.watched.engine_cpu_seconds,
        "engine_minor_faults": row.watched.engine_minor_faults,
        "simulated_seconds": row.simulated.map(|time| time.as_secs_f64()),
    })
}

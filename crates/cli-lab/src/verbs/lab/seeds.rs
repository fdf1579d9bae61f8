//! `numapilot lab run --seeds N`: repeats a run with N seeds and shows how much the figures differ.
//! Each run is a child process; as many run at a time as the host's CPUs and free memory allow.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use anyhow::{Context, anyhow, bail};
use numapilot_cli_kit::columns::{grouped, percent};
use numapilot_cli_kit::guests::allowed_here;
use numapilot_cli_kit::interruption;
use numapilot_cli_kit::status_line::StatusLine;
use numapilot_cli_kit::terminal::{Terminal, seconds, table};
use numapilot_lab_model::{Region, Report};
use numapilot_tune::statistics::median;
use serde::Serialize;
use serde_json::Value;

use crate::{child, programs};

/// The hidden option by which a run with several seeds starts one of its runs: the seed, and the
/// file for the figures as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneOfSeeds {
    pub seed: u64,
    pub file: PathBuf,
}

impl FromStr for OneOfSeeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once(':').and_then(|(seed, file)| Some((seed.parse().ok()?, file)));
        let (seed, file) = parts.ok_or_else(|| format!("'{text}' is not SEED:FILE"))?;
        Ok(Self { seed, file: file.into() })
    }
}

/// The median and the extremes of a figure over all seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Spread {
    median: f64,
    minimum: f64,
    maximum: f64,
}

impl Spread {
    /// `None` without a value.
    fn of(values: Vec<f64>) -> Option<Self> {
        let minimum = values.iter().copied().reduce(f64::min)?;
        let maximum = values.iter().copied().reduce(f64::max)?;
        Some(Self { median: median(&values), minimum, maximum })
    }

    /// The difference of the extremes, relative to the median; `None` if the median is 0.
    fn relative(self) -> Option<f64> {
        (self.median != 0.0).then(|| (self.maximum - self.minimum) / self.median)
    }
}

/// A row of the table: a figure, its value in a region, and the text of a value.
struct Figure {
    name: &'static str,
    of: fn(&Region) -> Option<f64>,
    text: fn(f64) -> String,
}

const FIGURES: [Figure; 12] = [
    Figure { name: "simulated", of: |r| Some(r.seconds), text: seconds },
    Figure { name: "cpu", of: |r| Some(r.all.cpu_seconds), text: seconds },
    Figure { name: "cpu, kernel", of: |r| Some(r.kernel.cpu_seconds), text: seconds },
    Figure { name: "instructions", of: |r| Some(r.all.instructions as f64), text: grouped },
    Figure { name: "cache-misses", of: |r| Some(r.all.last_level_misses as f64), text: grouped },
    Figure {
        name: "tlb-misses",
        of: |r| Some((r.all.tlb_4k_misses + r.all.tlb_2m_misses) as f64),
        text: grouped,
    },
    Figure { name: "local-accesses", of: |r| Some(r.all.local_accesses as f64), text: grouped },
    Figure { name: "remote-accesses", of: |r| Some(r.all.remote_accesses as f64), text: grouped },
    Figure { name: "local-access-ratio", of: |r| r.all.local_access_ratio, text: percent },
    Figure { name: "dram-latency", of: |r| r.all.mean_latency_ns, text: nanoseconds },
    Figure { name: "controller-imbalance", of: |r| r.controller_imbalance, text: percent },
    Figure { name: "link-usage", of: |r| r.link_usage, text: percent },
];

fn nanoseconds(value: f64) -> String {
    format!("{value:.1} ns")
}

/// Runs this command line once with each seed from 1 to `seeds`. Prints the program's output with
/// seed 1. Returns the text of the figures, as a table or as JSON.
///
/// # Errors
/// A run has ended without figures, or the output cannot be written.
pub fn run(terminal: &Terminal, title: &str, seeds: u64, json: bool) -> anyhow::Result<Seeds> {
    let program = programs::numapilot_lab()?;
    let directory =
        numapilot_place::scratch_directory("seeds").context("cannot make a temporary directory")?;
    let interrupted = interruption::flag()?;
    let line = Mutex::new(StatusLine::new(terminal));
    let ended = AtomicU64::new(0);
    let next = AtomicU64::new(1);
    let failed = AtomicBool::new(false);
    let mut results: Vec<(u64, anyhow::Result<One>)> = thread::scope(|scope| {
        let work = || {
            let mut mine = Vec::new();
            while !failed.load(Relaxed) && !interrupted.load(Relaxed) {
                let seed = next.fetch_add(1, Relaxed);
                if seed > seeds {
                    break;
                }
                let one = one(program.clone(), directory.path(), seed, &interrupted);
                failed.fetch_or(one.as_ref().map_or(true, |one| one.status != 0), Relaxed);
                mine.push((seed, one));
                let done = ended.fetch_add(1, Relaxed) + 1;
                line.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .show(format!("{done} of {seeds} seeds"));
            }
            mine
        };
        let jobs = u64::try_from(allowed_here().get()).unwrap_or(u64::MAX).min(seeds);
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    line.lock().unwrap_or_else(PoisonError::into_inner).finish();
    if interrupted.load(Relaxed) {
        return Ok(Seeds { status: interruption::status(), text: None });
    }
    results.sort_by_key(|(seed, _)| *seed);
    let mut runs = Vec::new();
    for (seed, one) in results {
        let one = one.with_context(|| format!("seed {seed}"))?;
        if seed == 1 {
            let mut out = terminal.out();
            out.write_all(&one.printed).and_then(|()| out.flush())?;
        }
        if one.status != 0 {
            terminal
                .warn(format_args!("seed {seed}: the program ended with status {}", one.status));
            return Ok(Seeds { status: ExitCode::from(one.status), text: None });
        }
        runs.push(one.figures);
    }
    let reports = runs
        .iter()
        .map(|run| serde_json::from_value(with_machine(run)))
        .collect::<Result<Vec<Report>, _>>()
        .context("the lab's figures are damaged")?;
    let text = if json {
        serde_json::to_string_pretty(&Json { seeds, spread: spreads(&reports), runs: &runs })?
            + "\n"
    } else {
        tables(title, &reports)
    };
    Ok(Seeds { status: ExitCode::SUCCESS, text: Some(text) })
}

/// The result of all seeds.
pub struct Seeds {
    pub status: ExitCode,
    /// The figures; `None` after an interruption, or if a program failed, of which a warning was
    /// printed.
    pub text: Option<String>,
}

/// The result of one seed.
struct One {
    status: u8,
    printed: Vec<u8>,
    figures: Value,
}

fn one(
    program: PathBuf,
    directory: &Path,
    seed: u64,
    interrupted: &AtomicBool,
) -> anyhow::Result<One> {
    let file = directory.join(format!("{seed}.json"));
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let run = words.iter().position(|word| word == "run").context("this is not lab run")?;
    let mut option = OsString::from(format!("--one-of-seeds={seed}:"));
    option.push(&file);
    words.insert(run + 1, option);
    let (status, printed) = child::output(program, words, interrupted)?;
    let status = status.code().ok_or_else(|| anyhow!("the lab ended by a signal: {status}"))?;
    let figures = match fs::read(&file) {
        Ok(bytes) => serde_json::from_slice(&bytes).context("the lab's figures are damaged")?,
        // The child has printed the reason.
        Err(_) => bail!("the lab ended with status {status} and without figures"),
    };
    Ok(One { status: u8::try_from(status).unwrap_or(u8::MAX), printed, figures })
}

/// The fields of a run's JSON that make a [`Report`].
fn with_machine(run: &Value) -> Value {
    serde_json::json!({ "machine": run["machine"], "regions": run["regions"] })
}

#[derive(Serialize)]
struct Json<'a> {
    seeds: u64,
    spread: Vec<Value>,
    /// The figures of each run, as without `--seeds`.
    runs: &'a [Value],
}

/// The regions of the first run, each with the regions of that name in all runs.
fn regions(reports: &[Report]) -> Vec<(&str, Vec<&Region>)> {
    let first = reports.first().into_iter().flat_map(|report| &report.regions);
    first
        .map(|region| {
            let of_all = reports.iter().flat_map(|report| &report.regions);
            let same = of_all.filter(|other| other.name == region.name);
            (region.name.as_str(), same.collect())
        })
        .collect()
}

fn spread_of(figure: &Figure, regions: &[&Region]) -> Option<Spread> {
    Spread::of(regions.iter().filter_map(|region| (figure.of)(region)).collect())
}

fn spreads(reports: &[Report]) -> Vec<Value> {
    let region = |(name, regions): (&str, Vec<&Region>)| {
        let mut object = serde_json::Map::new();
        object.insert("name".to_owned(), name.into());
        for figure in &FIGURES {
            let value = serde_json::to_value(spread_of(figure, &regions)).unwrap_or_default();
            object.insert(figure.name.to_owned(), value);
        }
        Value::Object(object)
    };
    regions(reports).into_iter().map(region).collect()
}

fn tables(title: &str, reports: &[Report]) -> String {
    let mut text = String::new();
    for (name, regions) in regions(reports) {
        let of = if name == "all" { title.to_owned() } else { format!("region {name} of {title}") };
        text += &format!("\n NUMA figures of {of}, {} seeds:\n\n", regions.len());
        let mut rows = table(&["", "median", "minimum", "maximum", "spread"], &[1, 2, 3, 4]);
        for figure in &FIGURES {
            let spread = spread_of(figure, &regions);
            let cell = |value: Option<f64>| value.map_or("-".to_owned(), figure.text);
            rows.add_row([
                figure.name.to_owned(),
                cell(spread.map(|s| s.median)),
                cell(spread.map(|s| s.minimum)),
                cell(spread.map(|s| s.maximum)),
                spread.and_then(Spread::relative).map_or("-".to_owned(), percent),
            ]);
        }
        for line in rows.to_string().lines() {
            text += &format!("  {}\n", line.trim_end());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_median_and_the_extremes() {
        let spread = Spread::of(vec![4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((spread.median, spread.minimum, spread.maximum), (2.5, 1.0, 4.0));
        assert_eq!(spread.relative(), Some(1.2));
        assert_eq!(Spread::of(vec![7.0]).unwrap().relative(), Some(0.0));
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn a_region_is_compared_with_its_like() {
        let report = |names: &[(&str, f64)]| Report {
            regions: names
                .iter()
                .map(|(name, seconds)| Region {
                    name: (*name).to_owned(),
                    seconds: *seconds,
                    ..Region::default()
                })
                .collect(),
            ..Report::default()
        };
        let reports = [report(&[("all", 1.0), ("x", 5.0)]), report(&[("all", 3.0)])];
        let spreads = spreads(&reports);
        assert_eq!(spreads[0]["simulated"]["median"], 2.0);
        assert_eq!(spreads[1]["simulated"]["maximum"], 5.0);
        assert!(spreads[0]["local-access-ratio"].is_null());
        let text = tables("'true'", &reports);
        assert!(text.contains("region x of 'true', 1 seeds"), "{text}");
    }

    #[test]
    fn the_seed_and_the_file_of_a_run_are_read() {
        let read: OneOfSeeds = "3:/tmp/a:b".parse().unwrap();
        assert_eq!(read, OneOfSeeds { seed: 3, file: "/tmp/a:b".into() });
        assert!("x:/tmp".parse::<OneOfSeeds>().is_err() && "3".parse::<OneOfSeeds>().is_err());
    }
}

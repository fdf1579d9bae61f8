//! `bench kernel all --under`: runs each kernel with its pathology alone, with its pathology under
//! a tool that mitigates it at run time, and with the best placement from the start.
//!
//! Every run is a separate program, started as a user would start it.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context, bail};
use numapilot_cli_kit::terminal::{self, BOLD, Terminal};
use numapilot_workloads::kernels::Kernel;
use serde_json::Value;

use super::args::Args;
use super::series::{End, median};
use super::under_what::Under;
use crate::verbs::bench::text;
use crate::{child, programs};

/// Names of an outcome's rates: over the whole run, and settled.
const WHOLE: &str = "items_per_second";
const SETTLED: &str = "settled_items_per_second";

fn rate(outcome: &Value, name: &str) -> f64 {
    outcome[name].as_f64().unwrap_or(f64::NAN)
}

/// Runs all combinations, those of a kernel interleaved, and keeps the median run of each.
pub fn outcomes(kernels: &[Kernel], args: &Args, interrupted: &AtomicBool) -> (Vec<Value>, End) {
    let mut outcomes = Vec::new();
    for kernel in kernels {
        let (runs, end) = rounds(*kernel, args, interrupted);
        outcomes.extend(runs.into_iter().filter_map(|runs| median(runs, |run| rate(run, SETTLED))));
        if !matches!(end, End::Whole) {
            return (outcomes, end);
        }
    }
    (outcomes, End::Whole)
}

/// All runs of a kernel, grouped by combination.
fn rounds(kernel: Kernel, args: &Args, interrupted: &AtomicBool) -> (Vec<Vec<Value>>, End) {
    let mut runs: Vec<Vec<Value>> = args.under.iter().map(|_| Vec::new()).collect();
    for _ in 0..args.runs {
        for (at, under) in args.under.iter().enumerate() {
            if interrupted.load(Relaxed) {
                return (runs, End::Interrupted);
            }
            match one(kernel, *under, args, interrupted) {
                Ok(outcome) => runs[at].push(outcome),
                Err(_) if interrupted.load(Relaxed) => return (runs, End::Interrupted),
                Err(why) => {
                    let why = why.context(format!("{kernel} under {}", under.name()));
                    return (runs, End::Failed(why));
                }
            }
        }
    }
    (runs, End::Whole)
}

fn one(
    kernel: Kernel,
    under: Under,
    args: &Args,
    interrupted: &AtomicBool,
) -> anyhow::Result<Value> {
    let own = programs::numapilot_lab()?;
    let mut program = own.clone();
    let mut words = Vec::new();
    if let Some(verb) = under.verb() {
        program = programs::numapilot()?;
        words.extend(verb.iter().map(|word| (*word).to_owned()));
        if under.is_balance() {
            words.extend(args.interval_words());
        }
        words.extend(["--".to_owned(), own.to_string_lossy().into_owned()]);
    }
    let place = under.place(kernel).name();
    words.extend(["bench", "kernel", kernel.name(), "--json", "--place", place].map(str::to_owned));
    words.extend(args.kernel_words());
    let (status, printed) = child::output(program, words, interrupted)?;
    if !status.success() {
        bail!("it ended with {status}: see above");
    }
    let mut outcome: Value = serde_json::from_slice(&printed).context("it printed no result")?;
    outcome["under"] = under.name().into();
    Ok(outcome)
}

/// Prints the rates over the whole run and settled, and their ratios to `none`.
pub fn print(terminal: &Terminal, outcomes: &[Value]) -> anyhow::Result<()> {
    let mut out = terminal.out();
    writeln!(
        out,
        "{BOLD}NUMA pathology kernels under what mitigates them while they run{BOLD:#}\n"
    )?;
    let header = ["kernel", "under", "items/s", "vs none", "settled", "vs none"];
    let mut table = terminal::table(&header, &[2, 3, 4, 5]);
    let mut last = "";
    for outcome in outcomes {
        let kernel = outcome["workload"].as_str().unwrap_or_default();
        let alone = outcomes
            .iter()
            .find(|other| other["workload"] == outcome["workload"] && other["under"] == "none");
        let mut row = vec![
            if kernel == last { String::new() } else { kernel.to_owned() },
            outcome["under"].as_str().unwrap_or_default().to_owned(),
        ];
        for name in [WHOLE, SETTLED] {
            let ratio = alone.map(|alone| rate(outcome, name) / rate(alone, name));
            row.push(text::rate(rate(outcome, name)));
            row.push(ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")));
        }
        table.add_row(row);
        last = kernel;
    }
    writeln!(out, "{}", terminal::trimmed(&table))?;
    Ok(())
}

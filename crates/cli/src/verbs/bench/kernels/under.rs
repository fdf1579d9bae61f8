//! `bench kernels --under`: each kernel with its illness as it is, under what is to cure it while
//! it runs, and with the cure itself.
//!
//! Every run is a program of its own, started as a user would start it.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context, bail};
use clap::ValueEnum;
use numapilot_workloads::kernels::{Kernel, Place};
use serde_json::Value;

use super::all::{Args, End, median};
use crate::itself;
use crate::terminal::{self, BOLD, Terminal};
use crate::verbs::bench::print;

/// What a kernel runs under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Under {
    /// Nothing.
    None,
    /// The kernel's AutoNUMA.
    Autonuma,
    /// A policy of interleaving from the beginning.
    Interleave,
    /// `numapilot balance --mode paper`.
    Paper,
    /// `numapilot balance`.
    Default,
    /// The cure that pages can be placed for, from the beginning.
    Oracle,
}

impl Under {
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Autonuma => "autonuma",
            Self::Interleave => "interleave",
            Self::Paper => "paper",
            Self::Default => "default",
            Self::Oracle => "oracle",
        }
    }

    /// The verb that runs the kernel, if it is not run by itself.
    const fn verb(self) -> Option<&'static [&'static str]> {
        match self {
            Self::None | Self::Interleave | Self::Oracle => None,
            Self::Autonuma => Some(&["run", "--numa-balancing", "on"]),
            Self::Paper => Some(&["balance", "--mode", "paper"]),
            Self::Default => Some(&["balance"]),
        }
    }

    const fn is_balance(self) -> bool {
        matches!(self, Self::Paper | Self::Default)
    }

    fn place(self, kernel: Kernel) -> Place {
        match self {
            Self::Interleave => Place::Interleave,
            Self::Oracle => oracle(kernel),
            Self::None | Self::Autonuma | Self::Paper | Self::Default => Place::FirstTouch,
        }
    }
}

/// The best that pages can do: a page has one home, so no copies.
fn oracle(kernel: Kernel) -> Place {
    match kernel {
        Kernel::Init1Readall | Kernel::Probe | Kernel::ReadMostly => Place::Interleave,
        _ => Place::Best,
    }
}

/// Rates of an outcome: of all of it, and in the end.
const WHOLE: &str = "items_per_second";
const SETTLED: &str = "settled_items_per_second";

fn rate(outcome: &Value, name: &str) -> f64 {
    outcome[name].as_f64().unwrap_or(f64::NAN)
}

/// Runs them all, those of a kernel in turn, and keeps the run in the middle of each.
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

/// All runs of a kernel, those of each by themselves.
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
    let mut words = Vec::new();
    if let Some(verb) = under.verb() {
        let numapilot = std::env::current_exe().context("cannot find numapilot's own file")?;
        words.extend(verb.iter().map(|word| (*word).to_owned()));
        if under.is_balance() {
            words.extend(args.interval_words());
        }
        words.extend(["--".to_owned(), numapilot.to_string_lossy().into_owned()]);
    }
    let place = under.place(kernel).name();
    words.extend(["bench", kernel.name(), "--json", "--place", place].map(str::to_owned));
    words.extend(args.kernel_words());
    let (status, printed) = itself::output(words, interrupted)?;
    if !status.success() {
        bail!("it ended with {status}: see above");
    }
    let mut outcome: Value = serde_json::from_slice(&printed).context("it printed no result")?;
    outcome["under"] = under.name().into();
    Ok(outcome)
}

/// Prints how fast each was, all together and in the end, beside nothing.
pub fn print(terminal: &Terminal, outcomes: &[Value]) -> anyhow::Result<()> {
    let mut out = terminal.out();
    writeln!(
        out,
        "{BOLD}NUMA pathology kernels and what is to cure them while they run{BOLD:#}\n"
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
            row.push(print::rate(rate(outcome, name)));
            row.push(ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")));
        }
        table.add_row(row);
        last = kernel;
    }
    writeln!(out, "{}", terminal::trimmed(&table))?;
    Ok(())
}

//! Options that `bench w5`, `bench arrivals` and `bench clients` share, and their values.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use numapilot_cli_kit::plan_args::PlanArgs;
use numapilot_cli_kit::units;
use numapilot_engines::{Benchmark, Kind, Scale};

/// The engine, and how it runs.
#[derive(clap::Args)]
pub struct Common {
    /// The database.
    #[arg(long, value_name = "ENGINE", default_value = Kind::ALL[0].name(),
          value_parser = PossibleValuesParser::new(Kind::ALL.map(Kind::name))
              .try_map(|name| Kind::from_name(&name).ok_or("not one of the names")))]
    pub engine: Kind,

    /// The tables and queries.
    #[arg(long, value_name = "NAME", default_value = Benchmark::ALL[0].name(),
          value_parser = PossibleValuesParser::new(Benchmark::ALL.map(Benchmark::name))
              .try_map(|name| Benchmark::from_name(&name).ok_or("not one of the names")))]
    pub benchmark: Benchmark,

    /// Size of the data: 1 is about 1 GB of text.
    #[arg(long, value_name = "SF", default_value = "1")]
    pub scale_factor: Scale,

    /// End a query that takes longer than this; it counts as failed.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub timeout: Option<Duration>,

    /// A setting of the engine itself; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub set: Vec<(String, String)>,

    /// Directory for loaded databases [default: ~/.cache/numapilot/engines; for root
    /// /var/cache/numapilot/engines].
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,

    /// Keep the directory of the run, which has the engine's messages.
    #[arg(long)]
    pub keep: bool,

    /// Fail when a part of the plan cannot be applied, instead of printing a warning and going on.
    #[arg(long)]
    pub strict: bool,

    /// Print one JSON object per line: each query when it is answered, the summary last.
    #[arg(long)]
    pub json: bool,

    /// Draw the results into FILE.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    #[command(flatten)]
    pub plan: PlanArgs,
}

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

/// Query numbers.
#[derive(Clone)]
pub struct List(pub Vec<u32>);

/// A parser for clap, which would treat a bare vector as an option that may be repeated.
pub fn list(text: &str) -> Result<List, String> {
    numbers(text).map(List)
}

/// `1-22`, `6`, `1,3-5`: numbers from 1 upwards, each once, in the given order.
fn numbers(text: &str) -> Result<Vec<u32>, String> {
    let bad = || format!("'{text}' is not a list of queries; write 1-22 or 1,3,5");
    let mut all = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) =
            (from.trim().parse().map_err(|_| bad())?, to.trim().parse().map_err(|_| bad())?);
        if from == 0 || to < from || to > 999 {
            return Err(bad());
        }
        all.extend((from..=to).filter(|number| !all.contains(number)).collect::<Vec<_>>());
    }
    Ok(all)
}

/// Parses a number of clients that an engine accepts.
pub fn few(text: &str) -> Result<NonZeroUsize, String> {
    match text.parse::<NonZeroUsize>() {
        Ok(number) if number.get() <= 900 => Ok(number),
        _ => Err(format!("'{text}' is not a number from 1 to 900")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_queries() {
        assert_eq!(numbers("1-3").unwrap(), [1, 2, 3]);
        assert_eq!(numbers("6").unwrap(), [6]);
        assert_eq!(numbers("5,1-2,5").unwrap(), [5, 1, 2]);
        for bad in ["", "0", "3-1", "x", "1,", "1-4000000000", "-1"] {
            assert!(numbers(bad).is_err(), "{bad}");
        }
    }
}

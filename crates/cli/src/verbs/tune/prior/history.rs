//! What earlier searches found: those whose journals are kept on this host, and those of `--history`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::bail;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_trials::Row;
use numapilot_tune::decide::{Earlier, Settings, history};
use numapilot_tune::evidence::{Failure, Order, Outcome, Phase, Trial};
use numapilot_tune::journal::{EarlierSearch, earlier_search};
use numapilot_tune::shape::Candidate;

use crate::verbs::fleet::load_guarded;
use crate::verbs::tune::files::kept;
use crate::verbs::tune::setup::Setup;

/// Most earlier searches that count: the latest ones.
const MOST: usize = 8;

/// Where plans are measured. Searches that are kept here count if they were made there, too.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// On this host, with this hash of its topology.
    Here(String),
    /// On this emulated machine.
    Emulated(String),
}

impl Place {
    fn is_of(&self, search: &EarlierSearch) -> bool {
        match self {
            Self::Here(topology) => {
                search.machine.is_none() && search.topology.as_ref() == Some(topology)
            }
            Self::Emulated(machine) => search.machine.as_ref() == Some(machine),
        }
    }
}

/// What the searches of `given`, and those kept on this host, predict. `own` is the journal of the
/// present search.
///
/// # Errors
/// A path of `given` cannot be read.
pub fn searches(
    terminal: &Terminal,
    given: &[PathBuf],
    own: &Path,
    place: &Place,
    setup: &Setup,
) -> anyhow::Result<Vec<Earlier>> {
    let (journals, files): (Vec<&PathBuf>, Vec<&PathBuf>) =
        given.iter().partition(|path| !journals_in(path).is_empty());
    let mut found: Vec<(u64, Earlier)> = Vec::new();
    let named = journals.into_iter().flat_map(|path| journals_in(path));
    let named: Vec<EarlierSearch> = named.filter_map(|path| earlier_search(&path)).collect();
    let directories =
        kept().and_then(|kept| fs::read_dir(kept).ok()).into_iter().flatten().flatten();
    let of_host = directories.flat_map(|entry| journals_in(&entry.path()));
    let of_host = of_host.filter(|path| path != own).filter_map(|path| earlier_search(&path));
    let of_host = of_host.filter(|search| place.is_of(search));
    let mut searches: Vec<EarlierSearch> = named.into_iter().chain(of_host).collect();
    // The latest first; the model of each takes a while, so only those that count are read.
    searches.sort_by_key(|search| std::cmp::Reverse(search.last_ms()));
    found.extend(searches.iter().filter_map(|search| of_journal(search, setup)).take(MOST));
    if !files.is_empty() {
        let paths: Vec<PathBuf> = files.into_iter().cloned().collect();
        found.extend(of_rows(&load_guarded(terminal, &paths)?, setup));
    }
    found.sort_by_key(|(last_ms, _)| std::cmp::Reverse(*last_ms));
    Ok(found.into_iter().take(MOST).map(|(_, earlier)| earlier).collect())
}

/// Checks the paths of `--history` that hold a search of `tune`.
///
/// # Errors
/// The search cannot be read.
pub fn check(given: &[PathBuf]) -> anyhow::Result<()> {
    for path in given {
        let journals = journals_in(path);
        if !journals.is_empty() && journals.iter().all(|path| earlier_search(path).is_none()) {
            bail!(
                "--history {}: its search cannot be read: it is damaged, or of another version of \
                 numapilot",
                path.display()
            );
        }
    }
    Ok(())
}

/// The journals in the directory of a search, or the one that the path itself names.
fn journals_in(directory: &Path) -> Vec<PathBuf> {
    let names = numapilot_tune::journal::FILES;
    let is_name = |name: &OsStr| names.iter().any(|known| name == *known);
    if directory.file_name().is_some_and(is_name) && directory.is_file() {
        return vec![directory.to_owned()];
    }
    names.iter().map(|name| directory.join(name)).filter(|path| path.is_file()).collect()
}

fn of_journal(search: &EarlierSearch, setup: &Setup) -> Option<(u64, Earlier)> {
    let settings = Settings::simple(search.goal, search.trials.len());
    let prediction = history::prediction(&search.space.shape(), &settings, &search.trials)?;
    let carried = |figures: &[f64]| setup.space.carried_over(&search.space, figures);
    let (costs, deviations) = (carried(&prediction.0), carried(&prediction.1));
    let name = format!("'{}', {} runs", search.command, search.trials.len());
    tells(&costs).then_some((search.last_ms(), Earlier { name, costs, deviations }))
}

/// The searches in the rows of a fleet. A plan counts if this search has it, too.
fn of_rows(rows: &[Row], setup: &Setup) -> Vec<(u64, Earlier)> {
    let shape = setup.space.shape();
    let candidates: BTreeMap<String, Candidate> =
        shape.candidates().map(|cell| (setup.space.plan(cell).to_string(), cell)).collect();
    let mut searches: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        searches.entry(&row.run).or_default().push(row);
    }
    let of = |rows: &Vec<&Row>| {
        let first = rows.first()?;
        let trials: Vec<Trial> = rows.iter().filter_map(|row| trial(row, &candidates)).collect();
        let settings = Settings::simple(first.source.goal, trials.len());
        let (costs, deviations) = history::prediction(&shape, &settings, &trials)?;
        let machine = first.source.emulated.as_ref().unwrap_or(&first.source.host);
        let name = format!("command {} on {machine}, {} runs", first.source.command, trials.len());
        let last_ms = rows.iter().filter_map(|row| row.time_ms).max().unwrap_or_default();
        tells(&costs).then(|| (last_ms.unsigned_abs(), Earlier { name, costs, deviations }))
    };
    searches.values().filter_map(of).collect()
}

fn trial(row: &Row, candidates: &BTreeMap<String, Candidate>) -> Option<Trial> {
    let phases = [Phase::Noise, Phase::Screen, Phase::Refine, Phase::Race, Phase::Final];
    let phase = phases.into_iter().find(|phase| phase.to_string() == row.phase)?;
    let order = Order {
        phase,
        block: u32::try_from(row.round).ok()?,
        candidate: *candidates.get(&row.plan)?,
    };
    let outcome = match row.value {
        Some(value) => Outcome::Value(value),
        None => Outcome::Failed(Failure::NoFigure(row.outcome.clone())),
    };
    Some(Trial::new(order, row.seconds, outcome))
}

/// Whether it says anything about the plans of this search.
fn tells(costs: &[f64]) -> bool {
    costs.iter().any(|cost| *cost != 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_of_another_machine_do_not_count() {
        let search = |topology: Option<&str>, machine: Option<&str>| EarlierSearch {
            command: "app".to_owned(),
            topology: topology.map(str::to_owned),
            machine: machine.map(str::to_owned),
            goal: numapilot_tune::evidence::Goal::Minimize,
            space: numapilot_tune::space::Space::default(),
            trials: Vec::new(),
        };
        let (here, lab) = (Place::Here("12".into()), Place::Emulated("machine-a".into()));
        assert!(here.is_of(&search(Some("12"), None)) && !here.is_of(&search(Some("13"), None)));
        assert!(!here.is_of(&search(None, None)) && !here.is_of(&search(None, Some("machine-a"))));
        assert!(lab.is_of(&search(None, Some("machine-a"))));
        assert!(
            !lab.is_of(&search(None, Some("machine-b"))) && !lab.is_of(&search(Some("12"), None))
        );
    }

    #[test]
    fn a_row_of_a_fleet_becomes_a_run() {
        let candidates = BTreeMap::from([("jemalloc".to_owned(), Candidate(1))]);
        let row = Row {
            plan: "jemalloc".to_owned(),
            phase: "race".to_owned(),
            round: 3,
            value: Some(2.0),
            ..Row::default()
        };
        let found = trial(&row, &candidates).unwrap();
        let order = Order { phase: Phase::Race, block: 3, candidate: Candidate(1) };
        assert_eq!((found.order, found.value()), (order, Some(2.0)));
        for (plan, phase) in [("mimalloc", "race"), ("jemalloc", "warm-up"), ("jemalloc", "study")]
        {
            let other = Row { plan: plan.to_owned(), phase: phase.to_owned(), ..row.clone() };
            assert!(trial(&other, &candidates).is_none(), "{plan} {phase}");
        }
    }
}

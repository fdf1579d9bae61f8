//! Turns runs into ratios: each figure is divided by the reference's figure of the same round.
//!
//! Within a round, the runs of a test follow each other directly. On a machine with other load,
//! their ratio is therefore more reliable than the ratio of two medians. A ratio is the median over
//! the rounds. The minimum CPU time, which other load can only raise, is reported as well.

use std::num::NonZeroUsize;

use numapilot_tune::statistics::median;
use serde::Serialize;

use crate::benchmark_run::{Figures, Run};
use crate::candidates::Candidate;
use crate::files::{Missing, Ready};

/// The figure that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// CPU time.
    Cpu,
    /// The minimum CPU time of all rounds.
    CpuMinimum,
    /// Wall time.
    Wall,
    /// Peak RSS.
    Rss,
}

/// Four ratios to the reference: 1 means equal, less is better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratios {
    /// CPU time, median of the rounds' ratios.
    pub cpu: f64,
    /// Minimum CPU time divided by the reference's minimum.
    pub cpu_minimum: f64,
    /// Wall time, median of the rounds' ratios.
    pub wall: f64,
    /// Peak RSS, median of the rounds' ratios.
    pub rss: f64,
}

impl Ratios {
    /// The ratio of one measure.
    #[must_use]
    pub fn of(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Cpu => self.cpu,
            Measure::CpuMinimum => self.cpu_minimum,
            Measure::Wall => self.wall,
            Measure::Rss => self.rss,
        }
    }
}

/// A test under an allocator: medians over the rounds. Times are per unit of work if the test has
/// one. Absent figures were not measured; `failure` has the reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The allocator.
    pub allocator: String,
    /// Number of valid rounds.
    pub runs: usize,
    /// CPU time, user and system, in seconds.
    pub cpu_seconds: Option<f64>,
    /// The minimum CPU time of all rounds.
    pub cpu_seconds_minimum: Option<f64>,
    /// CPU time in the kernel, in seconds.
    pub system_seconds: Option<f64>,
    /// Wall time in seconds.
    pub wall_seconds: Option<f64>,
    /// Peak RSS.
    pub peak_rss_bytes: Option<f64>,
    /// Resident memory divided by requested memory, if the test prints it.
    pub rss_per_requested: Option<f64>,
    /// Page faults.
    pub page_faults: Option<f64>,
    /// Context switches.
    pub context_switches: Option<f64>,
    /// Ratios to the reference; absent if one of the two has no figures.
    pub ratios: Option<Ratios>,
    /// Rounds in which the program ended before the allocator could be seen in it.
    pub unverified_runs: usize,
    /// Why the test did not run to its end.
    pub failure: Option<String>,
}

/// A test under all allocators.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the test.
    pub test: String,
    /// The behaviour that it stresses.
    pub about: String,
    /// Its number of threads, if that can be chosen.
    pub threads: NonZeroUsize,
    /// Whether times are per unit of work.
    pub is_per_work: bool,
    /// The results, in the order of the allocators.
    pub results: Vec<Cell>,
}

/// An allocator over all tests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mean {
    /// The allocator.
    pub allocator: String,
    /// Tests that it and the reference completed.
    pub tests: usize,
    /// Geometric means over these tests.
    pub ratios: Option<Ratios>,
    /// The same without the lowest and the highest ratio of each measure, on which a mean of few
    /// tests depends most; absent for two tests or fewer.
    pub ratios_without_extremes: Option<Ratios>,
}

/// An allocator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Allocator {
    /// Name of the allocator.
    pub name: String,
    /// Path of the library; `null` for the C library.
    pub path: Option<String>,
    /// Version, if the file name has it.
    pub version: Option<String>,
}

/// The results of a benchmark run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Results {
    /// The allocator to which ratios refer.
    pub reference: String,
    /// All allocators.
    pub allocators: Vec<Allocator>,
    /// The results by test.
    pub tests: Vec<Row>,
    /// The means over all tests.
    pub geometric_means: Vec<Mean>,
    /// Tests that could not run.
    pub missing: Vec<Missing>,
    /// Whether the user interrupted the benchmark.
    pub is_interrupted: bool,
}

impl Results {
    /// Compares all candidates with the one at index `reference`.
    #[must_use]
    pub fn new(
        tests: &[Ready],
        candidates: &[Candidate],
        reference: usize,
        runs: &[Run],
        missing: Vec<Missing>,
        is_interrupted: bool,
    ) -> Self {
        let rows = tests.iter().enumerate().map(|(index, test)| {
            let of_test: Vec<&Run> = runs.iter().filter(|run| run.order.test == index).collect();
            let results = candidates.iter().enumerate();
            let results = results.map(|(c, who)| cell(who, &of_test, c, reference)).collect();
            Row {
                test: test.name.clone(),
                about: test.about.clone(),
                threads: test.threads,
                is_per_work: test.work.is_some(),
                results,
            }
        });
        let rows: Vec<Row> = rows.collect();
        let means = (0..candidates.len()).map(|c| mean(&candidates[c].name, &rows, c));
        let allocators = candidates.iter().map(|who| Allocator {
            name: who.name.clone(),
            path: who.path.as_ref().map(|path| path.display().to_string()),
            version: who.version.clone(),
        });
        Self {
            reference: candidates[reference].name.clone(),
            allocators: allocators.collect(),
            geometric_means: means.collect(),
            tests: rows,
            missing,
            is_interrupted,
        }
    }
}

fn cell(who: &Candidate, of_test: &[&Run], candidate: usize, reference: usize) -> Cell {
    let of = |c: usize| -> Vec<(u32, Figures)> {
        let mine = of_test.iter().filter(|run| run.order.candidate == c);
        mine.filter_map(|run| Some((run.order.round, run.outcome.clone().ok()?))).collect()
    };
    let (mine, other) = (of(candidate), of(reference));
    let failure = of_test
        .iter()
        .filter(|run| run.order.candidate == candidate)
        .find_map(|run| run.outcome.as_ref().err());
    let middle = |figure: fn(&Figures) -> f64| median_of(mine.iter().map(|(_, f)| figure(f)));
    Cell {
        allocator: who.name.clone(),
        runs: mine.len(),
        cpu_seconds: middle(|f| f.cpu_seconds),
        cpu_seconds_minimum: least(&mine),
        system_seconds: middle(|f| f.system_seconds),
        wall_seconds: middle(|f| f.wall_seconds),
        peak_rss_bytes: middle(|f| f.peak_rss_bytes as f64),
        rss_per_requested: median_of(mine.iter().filter_map(|(_, f)| f.rss_per_requested)),
        page_faults: middle(|f| f.page_faults),
        context_switches: middle(|f| f.context_switches),
        // A failure in a later round invalidates the earlier ones.
        ratios: if failure.is_none() { ratios(&mine, &other) } else { None },
        unverified_runs: mine.iter().filter(|(_, f)| !f.is_verified).count(),
        failure: failure.map(ToString::to_string),
    }
}

fn median_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| median(&values))
}

fn least(runs: &[(u32, Figures)]) -> Option<f64> {
    runs.iter().map(|(_, f)| f.cpu_seconds).reduce(f64::min)
}

fn ratios(mine: &[(u32, Figures)], other: &[(u32, Figures)]) -> Option<Ratios> {
    let paired = |figure: fn(&Figures) -> f64| {
        median_of(mine.iter().filter_map(|(round, own)| {
            let (_, reference) = other.iter().find(|(r, _)| r == round)?;
            let ratio = figure(own) / figure(reference);
            ratio.is_finite().then_some(ratio)
        }))
    };
    Some(Ratios {
        cpu: paired(|f| f.cpu_seconds)?,
        cpu_minimum: least(mine)? / least(other)?,
        wall: paired(|f| f.wall_seconds)?,
        rss: paired(|f| f.peak_rss_bytes as f64)?,
    })
}

fn mean(name: &str, rows: &[Row], candidate: usize) -> Mean {
    let ratios: Vec<Ratios> = rows.iter().filter_map(|row| row.results[candidate].ratios).collect();
    Mean {
        allocator: name.to_owned(),
        tests: ratios.len(),
        ratios: (!ratios.is_empty()).then(|| geometric_mean(&ratios, 0)),
        ratios_without_extremes: (ratios.len() > 2).then(|| geometric_mean(&ratios, 1)),
    }
}

/// The geometric mean of each measure, without this many of the lowest and of the highest ratios.
fn geometric_mean(ratios: &[Ratios], left_out: usize) -> Ratios {
    let over = |measure: Measure| {
        let mut logarithms: Vec<f64> = ratios.iter().map(|r| r.of(measure).ln()).collect();
        logarithms.sort_by(f64::total_cmp);
        let counted = &logarithms[left_out..logarithms.len() - left_out];
        (counted.iter().sum::<f64>() / counted.len() as f64).exp()
    };
    Ratios {
        cpu: over(Measure::Cpu),
        cpu_minimum: over(Measure::CpuMinimum),
        wall: over(Measure::Wall),
        rss: over(Measure::Rss),
    }
}

#[cfg(test)]
mod tests {
    use numapilot_place::AllocatorChoice;
    use numapilot_tune::evidence::Failure;

    use super::*;
    use crate::benchmark_run::Order;

    fn candidate(name: &str) -> Candidate {
        let choice = AllocatorChoice::Inherit;
        Candidate { name: name.to_owned(), choice, path: None, version: None }
    }

    fn test(name: &str) -> Ready {
        Ready {
            name: name.to_owned(),
            command: Vec::new(),
            stdin: None,
            work: None,
            memory: None,
            about: String::new(),
            threads: NonZeroUsize::MIN,
            is_deterministic: false,
        }
    }

    fn run(test: usize, candidate: usize, round: u32, seconds: f64) -> Run {
        let figures = Figures {
            cpu_seconds: seconds,
            system_seconds: 0.0,
            wall_seconds: 2.0 * seconds,
            peak_rss_bytes: 1000 * (candidate as u64 + 1),
            rss_per_requested: (round < 2).then_some(1.0 + f64::from(round)),
            page_faults: 1.0,
            context_switches: 1.0,
            is_verified: round > 0,
        };
        Run { order: Order { round, test, candidate }, outcome: Ok(figures) }
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        // The machine is three times slower in round 1; the ratio is one half in both rounds.
        let runs: Vec<Run> = [(0, 1.0), (1, 3.0), (2, 1.2)]
            .into_iter()
            .flat_map(|(round, s)| [run(0, 0, round, s), run(0, 1, round, s / 2.0)])
            .collect();
        let candidates = [candidate("reference"), candidate("fast")];
        let results = Results::new(&[test("t")], &candidates, 0, &runs, Vec::new(), false);
        let fast = &results.tests[0].results[1];
        assert_eq!((fast.runs, fast.unverified_runs), (3, 1));
        let ratios = fast.ratios.unwrap();
        assert!((ratios.cpu - 0.5).abs() < 1e-12);
        assert!((ratios.cpu_minimum - 0.5).abs() < 1e-12);
        assert!((ratios.rss - 2.0).abs() < 1e-12);
        assert_eq!(fast.cpu_seconds, Some(0.6));
        // Two rounds have both figures.
        assert_eq!(fast.rss_per_requested, Some(1.5));
        assert_eq!(fast.cpu_seconds_minimum, Some(0.5));
    }

    #[test]
    fn a_mean_is_over_completed_tests_and_says_how_many() {
        let mut runs = vec![run(0, 0, 0, 1.0), run(0, 1, 0, 4.0)];
        runs.extend([run(1, 0, 0, 1.0), run(1, 1, 0, 1.0)]);
        // The program crashes in the second round of the third test.
        runs.extend([run(2, 0, 0, 1.0), run(2, 1, 0, 0.1), run(2, 0, 1, 1.0)]);
        let order = Order { round: 1, test: 2, candidate: 1 };
        runs.push(Run { order, outcome: Err(Failure::Signal(11)) });
        let candidates = [candidate("reference"), candidate("slow"), candidate("absent")];
        let tests = [test("a"), test("b"), test("c")];
        let results = Results::new(&tests, &candidates, 0, &runs, Vec::new(), false);
        let [reference, slow, absent] = &results.geometric_means[..] else { panic!() };
        assert_eq!(reference.ratios.unwrap().cpu, 1.0);
        assert_eq!((reference.tests, slow.tests, absent.tests), (3, 2, 0));
        assert!((slow.ratios.unwrap().cpu - 2.0).abs() < 1e-12);
        assert_eq!((absent.ratios, slow.ratios_without_extremes), (None, None));
        let failure = results.tests[2].results[1].failure.as_deref();
        assert_eq!(failure, Some("killed by signal 11"));
    }

    #[test]
    fn a_mean_is_also_given_without_its_extremes() {
        let seconds = [2.0, 0.01, 8.0, 1e6];
        let runs = seconds.iter().enumerate();
        let runs = runs.flat_map(|(test, &s)| [run(test, 0, 0, 1.0), run(test, 1, 0, s)]);
        let runs: Vec<Run> = runs.collect();
        let tests = ["a", "b", "c", "d"].map(test);
        let candidates = [candidate("reference"), candidate("other")];
        let results = Results::new(&tests, &candidates, 0, &runs, Vec::new(), false);
        let mean = results.geometric_means[1].ratios_without_extremes.unwrap();
        assert!((mean.cpu - 4.0).abs() < 1e-9);
        assert!((mean.rss - 2.0).abs() < 1e-12);
    }
}

//! Runs searches on random response surfaces with known truth.
//!
//! The tests print their figures. The manual's page on `tune` quotes those of `SURFACES=500 cargo test
//! -p numapilot-tune --test simulator -- --nocapture`.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod budget;
mod coverage;
mod factorial;
#[allow(dead_code, reason = "the example uses more of it")]
mod histories;
mod pool;
mod surface;

use coverage::Coverage;
use histories::Histories;
use numapilot_tune::decide::{Decision, Findings, Settings, decide};
use numapilot_tune::evidence::{Goal, Trial};
use numapilot_tune::shape::{Candidate, DEFAULT, Shape};
use rand::SeedableRng;
use rand::rngs::StdRng;
use surface::{Surface, World};

/// Surfaces of a test, unless the environment variable `SURFACES` has another number.
const SURFACES: u64 = 200;
/// Standard error of a share of 95 % with 500 surfaces, in percent.
const ERROR: f64 = 1.0;
/// The settings of the search were chosen on surfaces with lower seeds.
const FIRST_SEED: u64 = 10_000;
/// Largest distance from the best plan that counts as good.
const TOLERANCE: f64 = 0.03;
/// Repetitions of every cell in the full factorial that searches are compared with. With twice as
/// many, it comes about as close to the best plan as a search does.
const REPETITIONS: usize = 5;
/// Runs for each level of each factor in searches that are compared with the full factorial
/// without repetition.
const FEW_PER_LEVEL: f64 = 7.5;

struct Outcome {
    /// Logarithm of the chosen plan's true time divided by the best plan's.
    regret: f64,
    /// The same for the plan named, whether shown or expected to beat the default.
    expected_regret: f64,
    runs: usize,
    cells: usize,
    /// Whether a plan was called better than the default.
    won: bool,
}

impl Outcome {
    fn is_good(&self) -> bool {
        self.regret <= TOLERANCE.ln_1p()
    }

    fn expects_good(&self) -> bool {
        self.expected_regret <= TOLERANCE.ln_1p()
    }
}

fn settings(seed: u64, max_runs: usize) -> Settings {
    Settings { warm_up: 1, seed, ..Settings::simple(Goal::Minimize, max_runs) }
}

/// Runs one search to the end, with the result that a user would get.
fn search(seed: u64, world: World) -> Outcome {
    search_within(seed, world, Settings::default_max_runs)
}

fn search_within(seed: u64, world: World, max_runs: impl Fn(&Shape) -> usize) -> Outcome {
    let surface = Surface::random(seed, world);
    let settings = settings(seed, max_runs(&surface.shape));
    let mut rng = StdRng::seed_from_u64(!seed);
    let mut evidence: Vec<Trial> = Vec::new();
    while let Decision::Run(orders) = decide(&surface.shape, &settings, &evidence) {
        for order in orders {
            let index = evidence.len();
            evidence.push(surface.run(order, index, settings.max_runs, &mut rng));
        }
    }
    assert!(evidence.len() <= settings.max_runs);
    let findings = Findings::glance(&surface.shape, &settings, &evidence);
    let best = findings.best().map_or(DEFAULT, |best| best.plan);
    Outcome {
        expected_regret: surface.regret(findings.named()),
        regret: surface.regret(best),
        runs: evidence.len(),
        cells: surface.shape.cells(),
        won: best != DEFAULT,
    }
}

fn surfaces() -> u64 {
    std::env::var("SURFACES").map_or(SURFACES, |number| number.parse().unwrap())
}

/// Calls `each` for this many seeds, on all CPUs.
fn on_all<T: Send>(seeds: u64, each: impl Fn(u64) -> T + Sync) -> Vec<T> {
    pool::on_all(FIRST_SEED, seeds, each)
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole as f64
}

#[test]
fn the_result_is_close_to_the_best_plan_with_few_runs() {
    let outcomes = on_all(surfaces(), |seed| search(seed, World::USUAL));
    let good = outcomes.iter().filter(|o| o.is_good()).count();
    let runs: usize = outcomes.iter().map(|o| o.runs).sum();
    let cells: usize = outcomes.iter().map(|o| o.cells).sum();
    let share = percent(good, outcomes.len());
    let cost = percent(runs, cells * REPETITIONS);
    println!(
        "{} surfaces, {} cells and {} runs each on average",
        outcomes.len(),
        cells / outcomes.len(),
        runs / outcomes.len()
    );
    println!("result within {:.0} % of the best plan: {share:.1} %", 100.0 * TOLERANCE);
    let expected = outcomes.iter().filter(|o| o.expects_good()).count();
    println!(
        "the plan expected to be best, shown to beat the default or not: {:.1} %",
        percent(expected, outcomes.len())
    );
    println!("runs, of a full factorial with {REPETITIONS} repetitions: {cost:.1} %");
    println!("runs, of a full factorial without repetition: {:.1} %", percent(runs, cells));
    for repetitions in [1, REPETITIONS, 2 * REPETITIONS] {
        let good = on_all(surfaces() / 5, |seed| factorial::is_good(seed, repetitions));
        let count = good.iter().filter(|&&good| good).count();
        println!(
            "for comparison, the full factorial with {repetitions} repetitions is as close on \
             {:.1} % of {} surfaces",
            percent(count, good.len()),
            good.len()
        );
    }
    assert!(share >= 95.0 - ERROR, "{share}");
    assert!(cost <= 30.0, "{cost}");
}

/// Compares with the full factorial without repetition: at most 30 % of one run of each plan, over
/// all surfaces.
#[test]
fn few_runs_name_a_plan_that_is_close_to_the_best() {
    let surfaces = surfaces();
    let share_of = |good: &[bool]| percent(good.iter().filter(|&&g| g).count(), good.len());
    let factorial = share_of(&on_all(surfaces, |seed| factorial::is_good(seed, 1)));
    println!("one run of each plan: {factorial:.1} % of {surfaces} results are as close");
    let limit =
        |shape: &Shape| (shape.levels.iter().sum::<usize>() as f64 * FEW_PER_LEVEL) as usize;
    let outcomes = on_all(surfaces, |seed| search_within(seed, World::USUAL, limit));
    let runs: usize = outcomes.iter().map(|o| o.runs).sum();
    let cells: usize = outcomes.iter().map(|o| o.cells).sum();
    let cost = percent(runs, cells);
    let good = share_of(&outcomes.iter().map(Outcome::is_good).collect::<Vec<bool>>());
    let expected = share_of(&outcomes.iter().map(Outcome::expects_good).collect::<Vec<bool>>());
    println!("a search with {cost:.1} % as many runs, the plan it names: {expected:.1} %");
    println!("and with the default where that is not shown to be better: {good:.1} %");
    assert!(cost <= 30.0, "{cost}");
    assert!(expected >= 95.0 - ERROR, "{expected}");
    assert!(good > factorial, "{good} {factorial}");
}

/// With 20 runs the plan named takes at most 5 % longer than the best on most surfaces; with 26, a
/// plan is shown to be better on many, and no more of these claims are false than permitted. The
/// manual has a table, which `examples/budget.rs` and `scripts/compare-optimisers.py` print.
#[test]
fn a_budget_of_twenty_runs_is_enough() {
    let of = |space: &str, runs: usize, world: World, searches: u64| {
        let mut all = budget::Tally::default();
        let each = |seed| budget::search(space, seed, runs, world);
        on_all(searches, each).into_iter().for_each(|one| all.join(one));
        println!("{space}, {runs} runs: {all:?}");
        all
    };
    let one = of("one", 20, World::USUAL, 200);
    assert!(percent(one.close, one.searches) >= 85.0, "{one:?}");
    let several = of("several", 20, World::USUAL, 50);
    assert!(percent(several.close, several.searches) >= 55.0, "{several:?}");
    let shown = of("one", 26, World::USUAL, 100);
    assert!(shown.wrong == 0 && percent(shown.claims, shown.searches) >= 35.0, "{shown:?}");
    let equal = of("one", 26, World::EQUAL, 200);
    assert!(percent(equal.wrong, equal.searches) <= 5.0, "{equal:?}");
}

/// A part of the table in the manual, which `examples/histories.rs` prints: few runs name a plan close
/// to the best more often if nearly the same program was searched before.
#[test]
fn few_runs_are_enough_after_searches_of_nearly_the_same_program() {
    let named = |kind: Histories| {
        let mut all = histories::Tally::default();
        let search = |seed| {
            let prior = histories::prior(seed, World::USUAL, kind);
            histories::search(seed, World::USUAL, prior, 0.08)
        };
        on_all(10, search).into_iter().for_each(|one| all.join(one));
        println!("{kind:?}: {all:?}");
        all.named
    };
    let (without, with) = (named(Histories::None), named(Histories::Alike(0.995)));
    assert!(with >= without + 3, "{with} of 10 with, {without} without");
}

#[test]
fn equal_plans_have_no_winner() {
    let outcomes = on_all(surfaces() / 4, |seed| search(seed, World::EQUAL));
    let wrong = outcomes.iter().filter(|o| o.won).count();
    let share = percent(wrong, outcomes.len());
    println!("a winner among equal plans: {share:.1} % of {} searches", outcomes.len());
    assert!(share <= 2.5, "{share}");
}

/// A part of the table in the manual, which `cargo run --release -p numapilot-tune --example
/// coverage` prints. The intervals hold the truth as often as they claim, even if runs are
/// disturbed or fail.
#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    let quiet = World { crashes: false, slowed: (1.2, 5.0), disturbed: 0.0, ..World::USUAL };
    let worlds = [
        World { noise: 0.003, disturbed: 0.05, ..quiet },
        World { noise: 0.01, disturbed: 0.02, ..quiet },
        World { noise: 0.05, disturbed: 0.05, ..quiet },
        World { noise: 0.15, disturbed: 0.01, ..quiet },
        World { noise: 0.01, failing: 0.05, ..quiet },
    ];
    for world in worlds {
        let mut all = Coverage::default();
        pool::on_all(0, 12, |seed| coverage::search(seed, world)).iter().for_each(|c| all.join(c));
        println!("{world:?}: {all:?}");
        for share in [all.effects, all.rounds, all.model, all.best] {
            assert!(share.is_enough(), "{world:?}: {all:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_search() {
    let twice = [0, 0].map(|_| search(17, World::USUAL));
    assert_eq!(twice[0].runs, twice[1].runs);
    assert!((twice[0].regret - twice[1].regret).abs() < f64::EPSILON);
    assert_eq!(Candidate::default(), DEFAULT);
}

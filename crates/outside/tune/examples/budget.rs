//! Measures how close a search with few runs comes to the best plan, on simulated programs; the
//! manual has the table.
//!
//! ```text
//! budget tune SPACE RUNS [SEARCHES]    searches by tune
//! budget effects SPACE [SEARCHES]      the plan of the levels that are best by themselves
//! budget ask SPACE SEED RUNS           one program, for other optimisers
//! ```
//!
//! SPACE is `few` (6 and 8 plans), `one` (node; 18 and 45 plans) or `several` (423 plans on average).
//! `ask` prints the numbers of levels. It answers `run LEVEL...` with the seconds of a run, 0 if it
//! fails, and `regret LEVEL...` with the logarithm of a plan's true time divided by the best plan's.

#![allow(clippy::unwrap_used, missing_docs, reason = "a simulation of made-up machines")]

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/simulator/budget.rs"]
mod budget;
#[path = "../tests/simulator/pool.rs"]
mod pool;
#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/simulator/surface.rs"]
mod surface;

use std::io::{BufRead, Write};

use budget::{Tally, search, surface};
use numapilot_tune::evidence::{Order, Outcome, Phase};
use numapilot_tune::shape::Candidate;
use rand::SeedableRng;
use rand::rngs::StdRng;
use surface::World;

/// The settings of the search were chosen on searches with lower seeds.
const FIRST_SEED: u64 = 10_000;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| words.get(index).map(|text| text.parse::<u64>().unwrap());
    match words[0].as_str() {
        "ask" => ask(&words[1], number(2).unwrap(), number(3).unwrap() as usize),
        "effects" => effects(&words[1], number(2).unwrap_or(400)),
        _ => {
            let runs = number(2).unwrap() as usize;
            let searches = number(3).unwrap_or(400);
            let first = number(4).unwrap_or(FIRST_SEED);
            for (name, world) in [("usual", World::USUAL), ("equal", World::EQUAL)] {
                let mut all = Tally::default();
                for one in
                    pool::on_all(first, searches, |seed| search(&words[1], seed, runs, world))
                {
                    all.join(one);
                }
                println!("{name}: {all:?}");
            }
        }
    }
}

/// How close a search comes that knows the exact effect of every single change of the default, and
/// nothing of what levels do together.
fn effects(space: &str, searches: u64) {
    let is_close = |seed: &u64| {
        let program = surface(space, *seed, World::USUAL);
        let best = |(factor, &levels): (usize, &usize)| {
            let effect = |level: &usize| match level {
                0 => 0.0,
                level => program.level_effect(factor, *level),
            };
            (0..levels).min_by(|a, b| effect(a).total_cmp(&effect(b))).unwrap()
        };
        let point: Vec<usize> = program.shape.levels.iter().enumerate().map(best).collect();
        program.regret(program.shape.cell(&point)) <= 0.05_f64.ln_1p()
    };
    let close = (FIRST_SEED..FIRST_SEED + searches).filter(is_close).count();
    println!("the best levels together: {close} of {searches} close");
}

/// Plays one program.
fn ask(space: &str, seed: u64, runs: usize) {
    let program = surface(space, seed, World::USUAL);
    let mut rng = StdRng::seed_from_u64(!seed);
    let mut output = std::io::stdout();
    let levels: Vec<String> = program.shape.levels.iter().map(usize::to_string).collect();
    writeln!(output, "{}", levels.join(" ")).unwrap();
    for (index, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line.unwrap();
        let (verb, point) = line.split_once(' ').unwrap();
        let point: Vec<usize> = point.split(' ').map(|level| level.parse().unwrap()).collect();
        let candidate: Candidate = program.shape.cell(&point);
        let answer = match verb {
            "run" => {
                let order = Order { phase: Phase::Refine, block: 0, candidate };
                match program.run(order, index, runs, &mut rng).outcome {
                    Outcome::Value(seconds) => seconds,
                    Outcome::Failed(_) | Outcome::CutShort(_) => 0.0,
                }
            }
            _ => program.regret(candidate),
        };
        writeln!(output, "{answer}").unwrap();
        output.flush().unwrap();
    }
}

//! Measures how close a search with few runs comes to the best plan, on simulated programs; the
//! manual has the table.
//!
//! ```text
//! budget tune SPACE RUNS [SEARCHES]    searches by tune
//! budget ask SPACE SEED RUNS           one program, for other optimisers
//! ```
//!
//! SPACE is `one` (node; 18 and 45 plans) or `several` (423 plans on average). `ask` prints the
//! numbers of levels. It answers `run LEVEL...` with the seconds of a run, 0 if it fails, and
//! `regret LEVEL...` with the logarithm of a plan's true time divided by the best plan's.

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

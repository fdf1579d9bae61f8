//! Measures how many runs a search saves that begins with what other searches found, on simulated
//! programs; the manual has the table.
//!
//! `cargo run --release -p numapilot-tune --example histories [SEARCHES [SHARE...]]`: SHARE is the
//! share of the usual number of runs that the searches may make.

#![allow(clippy::unwrap_used, missing_docs, reason = "a simulation of made-up machines")]

#[path = "../tests/simulator/histories.rs"]
mod histories;
#[path = "../tests/simulator/pool.rs"]
mod pool;
#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/simulator/surface.rs"]
mod surface;

use histories::{Histories, Tally, prior, search};
use surface::World;

/// Largest distance from the best plan that counts as close.
const TOLERANCE: f64 = 0.03;
/// The settings of the search were chosen on searches with lower seeds.
const FIRST_SEED: u64 = 10_000;

const KINDS: [(&str, Histories); 9] = [
    ("none", Histories::None),
    ("nearly the same", Histories::Alike(0.995)),
    ("alike", Histories::Alike(0.98)),
    ("somewhat alike", Histories::Alike(0.9)),
    ("unrelated", Histories::Alike(0.0)),
    ("opposite", Histories::Alike(-0.9)),
    ("advice that is right on all factors", Histories::Advice(1.0)),
    ("advice that is right on 4 of 5 factors", Histories::Advice(0.8)),
    ("advice that is right on 2 of 5 factors", Histories::Advice(0.4)),
];

fn main() {
    let mut words = std::env::args().skip(1);
    let searches: u64 = words.next().map_or(200, |text| text.parse().unwrap());
    let mut shares: Vec<f64> = words.map(|text| text.parse().unwrap()).collect();
    if shares.is_empty() {
        shares.push(1.0);
    }
    println!(
        "| histories | most runs | runs | before the race | close | named close | named loses | \
         better shown | wrong |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    for (name, kind) in KINDS {
        let each = |seed| {
            let prior = prior(seed, World::USUAL, kind);
            shares.iter().map(|&share| search(seed, World::USUAL, prior.clone(), share)).collect()
        };
        let all: Vec<Vec<Tally>> = pool::on_all(FIRST_SEED, searches, each);
        for (index, share) in shares.iter().enumerate() {
            let mut sum = Tally::default();
            all.iter().for_each(|tallies| sum.join(tallies[index]));
            row(name, *share, sum);
        }
    }
}

fn row(name: &str, share: f64, all: Tally) {
    let of = |part: usize| 100.0 * part as f64 / all.searches as f64;
    println!(
        "| {name} | {:.0} % | {:.1} | {:.1} | {:.1} % | {:.1} % | {:.2} % | {:.0} % | {} |",
        100.0 * share,
        all.runs as f64 / all.searches as f64,
        all.before as f64 / all.searches as f64,
        of(all.good),
        of(all.named),
        100.0 * (all.loss / all.searches as f64).exp_m1(),
        of(all.claims),
        all.wrong
    );
}

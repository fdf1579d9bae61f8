//! Measures how often the intervals that `tune` prints hold the truth, on simulated machines; the
//! manual has the table. `cargo run --release -p numapilot-tune --example coverage [SEARCHES]`.

#![allow(clippy::unwrap_used, missing_docs, reason = "a simulation of made-up machines")]

#[path = "../tests/simulator/coverage.rs"]
mod coverage;
#[path = "../tests/simulator/pool.rs"]
mod pool;
#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/simulator/surface.rs"]
mod surface;

use coverage::{Coverage, Share};
use surface::World;

/// Searches for each row unless the first argument says otherwise.
const SEARCHES: u64 = 400;
/// The settings of the search were chosen on searches with lower seeds.
const FIRST_SEED: u64 = 10_000;

fn main() {
    let searches = std::env::args().nth(1).map_or(SEARCHES, |text| text.parse().unwrap());
    println!(
        "| noise | disturbed | failing | main effects | plans, by rounds | plans, by the model | \
         best | searches with a best | wrong best |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    let shares = [(0.0, 0.0), (0.01, 0.0), (0.02, 0.0), (0.05, 0.0)];
    let failing = [(0.0, 0.01), (0.0, 0.02), (0.0, 0.05)];
    for (disturbed, failing) in shares.into_iter().chain(failing) {
        for noise in [0.003, 0.01, 0.05, 0.15] {
            let world = World {
                crashes: false,
                noise,
                disturbed,
                slowed: (1.2, 5.0),
                failing,
                ..World::USUAL
            };
            row(world, searches);
        }
    }
}

fn row(world: World, searches: u64) {
    let mut all = Coverage::default();
    for one in pool::on_all(FIRST_SEED, searches, |seed| coverage::search(seed, world)) {
        all.join(&one);
    }
    let percent = |share: f64| 100.0 * share;
    let held = |share: Share| format!("{:.1} % of {}", share.percent(), share.of);
    println!(
        "| {:.1} % | {:.0} % | {:.0} % | {} | {} | {} | {} | {:.0} % | {} of {} |",
        percent(world.noise),
        percent(world.disturbed),
        percent(world.failing),
        held(all.effects),
        held(all.rounds),
        held(all.model),
        held(all.best),
        percent(all.best.of as f64 / all.searches as f64),
        all.wrong,
        all.searches
    );
}

//! Tests of the quality of control, in the simulator.

use proptest::prelude::*;

use super::*;
use crate::simulator::{Sight, Tick, Trace, simulate};

const ALL: u32 = 16;
const LIMITS: Limits = Limits { minimum: 1, maximum: ALL };

fn paper() -> Controller {
    Controller::Paper(Paper::new(Paper::THRESHOLDS))
}

fn band() -> Controller {
    Controller::Band(Band::new(Band::THRESHOLDS))
}

fn cores(ticks: &[Tick]) -> Vec<u32> {
    ticks.iter().map(|tick| tick.cores).collect()
}

/// The cost of serving a load.
#[derive(Debug)]
struct Cost {
    /// Cores, summed over ticks.
    cores: u32,
    /// Share of all work that had to wait.
    waited: f64,
}

fn cost(mut controller: Controller, trace: Trace) -> Cost {
    let demand = trace.demand(ALL).unwrap();
    let ticks = simulate(&mut controller, &demand, LIMITS, 1, Sight::Waiting);
    let waited = ticks.iter().map(|tick| tick.demand - tick.busy).sum::<f64>();
    let cores = ticks.iter().map(|tick| tick.cores).sum();
    Cost { cores, waited: waited / demand.iter().sum::<f64>() }
}

#[test]
fn the_paper_keeps_what_a_burst_took() {
    let demand = Trace::Burst.demand(ALL).unwrap();
    let ticks = simulate(&mut paper(), &demand, LIMITS, 1, Sight::Waiting);
    let after = cores(&ticks[40..]);
    assert!(after.iter().all(|cores| *cores == after[0] && *cores >= 15), "{after:?}");
}

#[test]
fn after_a_burst_cores_come_back_within_ten_ticks() {
    let demand = Trace::Burst.demand(ALL).unwrap();
    for sight in [Sight::Waiting, Sight::Pressure, Sight::Busy] {
        let ticks = simulate(&mut band(), &demand, LIMITS, 1, sight);
        // The burst ends with tick 29; five threads remain.
        let after = cores(&ticks[40..]);
        assert!(after.iter().all(|cores| *cores == after[0]), "{sight:?}: {after:?}");
        assert!(f64::from(after[0]) <= 5.0 / 0.45, "{sight:?}: {after:?}");
    }
}

#[test]
fn a_step_is_served_within_three_ticks() {
    let demand = Trace::Step.demand(ALL).unwrap();
    for sight in [Sight::Waiting, Sight::Pressure, Sight::Busy] {
        let ticks = simulate(&mut band(), &demand, LIMITS, 1, sight);
        assert!(ticks[23..].iter().all(|tick| tick.busy >= tick.demand), "{sight:?}");
    }
    let ticks = simulate(&mut paper(), &demand, LIMITS, 1, Sight::Waiting);
    assert!(ticks[23].busy < ticks[23].demand, "the paper takes a core for each tick");
}

#[test]
fn default_mode_serves_as_well_with_fewer_cores_than_the_paper() {
    for trace in [Trace::Step, Trace::Burst, Trace::Square, Trace::Sine, Trace::Database] {
        let (ours, theirs) = (cost(band(), trace), cost(paper(), trace));
        println!("{trace:?}: {ours:?}, the paper {theirs:?}");
        // Control follows a changing load with a delay of one tick; the recorded load changes all
        // the time.
        let delay = if trace == Trace::Database { 0.2 } else { 0.02 };
        assert!(ours.waited <= theirs.waited.max(delay), "{trace:?}: {ours:?}, {theirs:?}");
        let (cores, waited) = (ours.cores < theirs.cores, ours.waited < theirs.waited);
        assert!(cores || waited, "{trace:?}: {ours:?}, the paper {theirs:?}");
    }
}

#[test]
fn busy_cores_without_waiting_threads_get_no_more() {
    let load = Load { busy: Some(4.0), waiting: Some(0.0), ..Load::default() };
    let decision = band().decide(&load, 4, LIMITS);
    assert_eq!((decision.wanted, decision.why), (4, Why::NobodyWaits));
    let pressed = Load { pressure: Some(0.3), ..load };
    assert!(band().decide(&pressed, 4, LIMITS).wanted > 4);
}

/// Four threads are pinned to one CPU: more cores do not help, and that is remembered.
#[test]
fn growth_that_brings_nothing_is_taken_back_and_seldom_tried() {
    let mut controller = band();
    let (mut cores, mut grown) = (1, 0);
    for _ in 0..200 {
        let load = Load { busy: Some(1.0), waiting: Some(3.0), ..Load::default() };
        let decision = controller.decide(&load, cores, LIMITS);
        grown += u32::from(decision.wanted > cores);
        cores = decision.wanted;
    }
    assert_eq!(cores, 1);
    assert!((2..=5).contains(&grown), "tried {grown} times");
}

/// A memory-bound load that uses its new cores, with more traffic, may keep them.
#[test]
fn growth_that_raises_the_traffic_is_kept() {
    let mut controller = band();
    let load = |traffic| Load {
        busy: Some(2.0),
        waiting: Some(2.0),
        traffic: Some(traffic),
        ..Load::default()
    };
    assert_eq!(controller.decide(&load(1e9), 2, LIMITS).wanted, 4);
    let kept = controller.decide(&Load { busy: Some(2.05), ..load(1.5e9) }, 4, LIMITS);
    assert_ne!(kept.why, Why::NoGain);
}

#[test]
fn a_release_that_makes_threads_wait_is_put_back_at_once() {
    let mut controller = band();
    let quiet = Load { busy: Some(3.0), pressure: Some(0.0), ..Load::default() };
    let fewer = controller.decide(&quiet, 8, LIMITS).wanted;
    assert!(fewer < 8);
    let pressed = Load { pressure: Some(0.4), ..quiet };
    let back = controller.decide(&pressed, fewer, LIMITS);
    assert_eq!((back.wanted, back.why), (8, Why::PutBack));
    // The step is not tried again for ten ticks, unless the load changes.
    for _ in 0..9 {
        assert_eq!(controller.decide(&quiet, 8, LIMITS).why, Why::BackingOff);
    }
    let gone = Load { busy: Some(0.1), ..quiet };
    assert!((0..4).any(|_| controller.decide(&gone, 8, LIMITS).wanted < 8));
}

#[test]
fn no_sample_changes_nothing() {
    for mut controller in [paper(), band()] {
        let decision = controller.decide(&Load::default(), 5, LIMITS);
        assert_eq!((decision.wanted, decision.why), (5, Why::NoSample));
    }
}

/// The published net begins with the fewest cores; the band continues with the present number.
#[test]
fn a_program_that_has_started_goes_on_with_what_its_load_needs() {
    let load = Load { busy: Some(3.0), pressure: Some(0.0), ..Load::default() };
    assert_eq!(paper().begin(&load, 16, LIMITS).wanted, LIMITS.minimum);
    assert!((5..16).contains(&band().begin(&load, 16, LIMITS).wanted));
}

#[test]
fn threads_that_wait_behind_others_keep_their_cores() {
    let load = Load { busy: Some(0.6), waiting: Some(1.5), ..Load::default() };
    let decision = band().decide(&load, 4, LIMITS);
    assert_eq!((decision.wanted, decision.why), (4, Why::Contended));
}

/// With many threads, those that wait are counted in some ticks only. Where they are never counted,
/// the load alone decides.
#[test]
fn cores_are_released_only_where_it_is_known_that_no_thread_waits() {
    let unknown = Load { busy: Some(0.6), ..Load::default() };
    let none = Load { waiting: Some(0.0), ..unknown };
    let waits = Load { waiting: Some(1.5), ..unknown };
    assert!(band().decide(&unknown, 4, LIMITS).wanted < 4);
    for first in [none, waits] {
        let mut controller = band();
        controller.decide(&first, 1, LIMITS);
        for _ in 0..10 {
            let decision = controller.decide(&unknown, 4, LIMITS);
            assert_eq!((decision.wanted, decision.why), (4, Why::WaitingUnknown));
        }
        assert!(controller.decide(&none, 4, LIMITS).wanted < 4);
    }
}

fn sight() -> impl Strategy<Value = Sight> {
    prop_oneof![Just(Sight::Waiting), Just(Sight::Pressure), Just(Sight::Busy)]
}

proptest! {
    /// A constant load settles within five ticks, is served, and stays there.
    #[test]
    fn a_constant_load_settles_and_stays(demand in 0.0..20.0f64, first in 1u32..=ALL, sight in sight()) {
        let ticks = simulate(&mut band(), &[demand; 200], LIMITS, first, sight);
        let settled = ticks[5].cores;
        prop_assert!(cores(&ticks[5..]).iter().all(|c| *c == settled), "{:?}", cores(&ticks));
        let demand = demand.min(f64::from(ALL));
        // Waiting below 5 % of a thread for each core is none.
        prop_assert!(f64::from(settled) * 1.05 >= demand, "{} of {}", settled, demand);
        // No more than the band allows, but for the whole core that rounding takes.
        prop_assert!(f64::from(settled) <= (demand / 0.45).floor().max(1.0) + 1.0, "{} for {}", settled, demand);
    }

    /// A target whose threads want all cores keeps them, whatever part of them others take, and in
    /// whichever figure that shows.
    #[test]
    fn a_target_that_wants_all_cores_keeps_them(
        taken in proptest::collection::vec(0.0..0.95f64, 1..100), more in 0.0..100.0f64, psi: bool
    ) {
        let all = f64::from(ALL);
        for mut controller in [paper(), band()] {
            let is_paper = matches!(controller, Controller::Paper(_));
            for taken in &taken {
                let taken = if is_paper { taken * 0.9 } else { *taken };
                let (busy, waits) = (all * (1.0 - taken), all * taken + more);
                let load = match psi {
                    true => Load { busy: Some(busy), pressure: Some(waits.min(1.0)), ..Load::default() },
                    false => Load { busy: Some(busy), waiting: Some(waits), ..Load::default() },
                };
                let decision = controller.decide(&load, ALL, LIMITS);
                prop_assert_eq!(decision.wanted, ALL, "{:?}: {:?}", load, decision);
            }
        }
    }

    /// On larger machines half the excess comes back in each tick: one tick per doubling.
    #[test]
    fn large_machines_settle_in_a_tick_for_each_doubling(share in 0.0..1.0f64, bits in 5u32..8) {
        let all = 1 << bits;
        let limits = Limits { minimum: 1, maximum: all };
        let demand = [share * f64::from(all); 100];
        let ticks = simulate(&mut band(), &demand, limits, all, Sight::Waiting);
        let settled = cores(&ticks[bits as usize + 1..]);
        prop_assert!(settled.iter().all(|c| *c == settled[0]), "{:?}", cores(&ticks));
    }

    /// The limits hold for any load, and the paper's rule moves one core at a time.
    #[test]
    fn limits_hold(
        loads in proptest::collection::vec((proptest::option::of(0.0..40.0f64), proptest::option::of(0.0..40.0f64), proptest::option::of(0.0..1.0f64), proptest::option::of(0.0..1e12f64)), 1..80),
        minimum in 1u32..8, spare in 0u32..16
    ) {
        let limits = Limits { minimum, maximum: minimum + spare };
        for (mut controller, most) in [(paper(), 1), (band(), u32::MAX)] {
            let mut cores = limits.maximum;
            for (busy, waiting, pressure, traffic) in &loads {
                let load = Load { busy: *busy, waiting: *waiting, pressure: *pressure, traffic: *traffic };
                let wanted = controller.decide(&load, cores, limits).wanted;
                prop_assert!((limits.minimum..=limits.maximum).contains(&wanted));
                prop_assert!(wanted.abs_diff(cores) <= most);
                cores = wanted;
            }
        }
    }

    /// After a step up to any load, all threads are served within three ticks.
    #[test]
    fn any_step_up_is_served_within_three_ticks(low in 0.0..8.0f64, high in 8.0..=16.0f64, sight in sight()) {
        let demand: Vec<f64> = std::iter::repeat_n(low, 30).chain(std::iter::repeat_n(high, 30)).collect();
        let ticks = simulate(&mut band(), &demand, LIMITS, 1, sight);
        let served = |tick: &Tick| f64::from(tick.cores) * 1.05 >= tick.demand;
        prop_assert!(ticks[33..].iter().all(served), "{:?}", cores(&ticks));
    }
}

/// A core that another program uses too is not a whole core.
#[test]
fn a_thread_that_others_keep_from_its_core_gets_another() {
    let half = Load { busy: Some(0.5), waiting: Some(0.5), ..Load::default() };
    let decision = band().decide(&half, 1, LIMITS);
    assert_eq!((decision.wanted, decision.why), (2, Why::Busy));
    let pressed = Load { busy: Some(0.5), pressure: Some(0.5), ..Load::default() };
    assert_eq!(band().decide(&pressed, 1, LIMITS).wanted, 2);
    // If it does not help in the next tick, the others are the cause: it is kept.
    let mut controller = band();
    assert_eq!(controller.decide(&half, 1, LIMITS).wanted, 2);
    let same = Load { busy: Some(0.5), waiting: Some(0.7), ..Load::default() };
    assert!(controller.decide(&same, 2, LIMITS).wanted >= 2);
}

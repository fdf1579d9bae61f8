//! The memory policy.
//!
//! Source: carrefour: interleaving helps if the imbalance of the memory controllers is at least
//! 35 %, collocation if less than 80 % of accesses are local, and neither if DRAM accesses are rare.
//! Interleaving makes all but one access in as many as there are nodes remote. So it is not tried
//! first where that would take away more than half of the local accesses, where memory is on all
//! nodes alike already, or where fewer than two CPUs are busy: their accesses cannot overload a
//! controller.
//! systematic-numa-study, section 4.6: interleaving also avoids most of AutoNUMA's cost.

use numapilot_observe::Metric;
use numapilot_place::MemoryMode;
use numapilot_tune::space::{FactorName, Level};

use super::percent;
use super::stalls::{PARALLEL, Stalls, stalls};
use crate::finding::{Bound, Factor, Finding, Verdict};
use crate::run::Run;
use crate::shares::AT_LEAST;

const FACTOR: Factor = Factor::Plan(FactorName::Memory);
const SOURCE: &str = "carrefour: imbalance 35 %, local access ratio 80 %, 50 DRAM accesses per \
                      microsecond; systematic-numa-study 4.6";

/// Imbalance of the memory controllers from which interleaving helps (carrefour).
pub const IMBALANCE: f64 = 0.35;
/// Local access ratio below which collocation helps (carrefour).
pub const LOCAL_RATIO: f64 = 0.80;

/// What a run says about the memory policy.
pub fn advise(run: &Run) -> Finding {
    if run.facts.memory_nodes < 2 {
        return Finding::nothing(
            FACTOR,
            "all memory that the program may use is on one node",
            SOURCE,
        );
    }
    let levels = match run.levels(FactorName::Memory) {
        Ok(levels) => levels,
        Err(reason) => return Finding::not_varied(FACTOR, reason, SOURCE),
    };
    let local = run.figure(Metric::LocalAccessRatio);
    let imbalance = run.figure(Metric::ControllerImbalance).ok();
    let estimate = run.estimated_local_ratio();
    let on_nodes = run.memory_imbalance();
    let placement = placement(&local, imbalance, estimate, on_nodes);
    let threads = run.code.as_ref().map_or(usize::MAX, |code| code.threads);
    // Where memory is on all nodes alike, interleaving has nothing to spread: what is uneven are the
    // accesses of one phase, such as the main thread's to its input.
    let at_least = |uneven: f64| uneven >= IMBALANCE;
    let is_uneven = imbalance.is_none_or(at_least) && on_nodes.is_none_or(at_least);
    let is_local = local.as_ref().ok().or(estimate.as_ref()).is_some_and(|l| *l >= most_local(run));
    let is_parallel = threads > 1 && run.concurrency() >= PARALLEL;
    let interleave = levels
        .iter()
        .find(|level| is_interleave(level))
        .filter(|_| is_uneven && is_parallel && !is_local);
    let (verdict, bound, because, first) = match stalls(run) {
        Stalls::Bound(share) if share < AT_LEAST => (
            Verdict::CannotMatter,
            Some(Bound::of(share, run.concurrency())),
            "DRAM accesses cost \
              little more than if all were local and undisturbed"
                .to_owned(),
            None,
        ),
        Stalls::Bound(share) => {
            let because = format!(
                "DRAM accesses cost up to {} of CPU time more than if all were local and undisturbed",
                percent(share)
            );
            (Verdict::CanMatter, Some(Bound::of(share, run.concurrency())), because, interleave)
        }
        Stalls::Rare { maptu, least } => {
            let because = format!(
                "{maptu:.1} DRAM accesses per microsecond are fewer than {least:.0}, for as many CPUs \
                 as were busy"
            );
            (Verdict::CannotMatter, None, because, None)
        }
        Stalls::Frequent { maptu } => {
            let because = format!("{maptu:.1} DRAM accesses per microsecond");
            (Verdict::CanMatter, None, because, interleave)
        }
        Stalls::Unknown(reason) => {
            let because = format!("DRAM accesses were not counted: {reason}");
            // Memory on few nodes that threads of many use is what interleaving is for.
            (Verdict::Unknown, None, because, interleave.filter(|_| estimate.is_some()))
        }
    };
    let uncertainty = match verdict {
        Verdict::CannotMatter => "a phase with more accesses may be hidden in the mean",
        Verdict::Unknown => "numapilot doctor says how to count DRAM accesses",
        _ => "what interleaving takes from local accesses it may lose in latency",
    };
    let finding = Finding { bound, ..Finding::new(FACTOR, verdict, because + &placement, SOURCE) };
    finding
        .but(uncertainty)
        .with("local_access_ratio", local.ok())
        .with("controller_imbalance", imbalance)
        .with("maptu", run.figure(Metric::Maptu).ok())
        .with("estimated_local_access_ratio", estimate)
        .with("memory_imbalance", on_nodes)
        .expecting(levels, first)
}

/// The local access ratio from which memory is not interleaved: twice what interleaving leaves.
fn most_local(run: &Run) -> f64 {
    (2.0 / run.facts.memory_nodes as f64).min(LOCAL_RATIO)
}

/// The figures of placement in words.
fn placement(
    local: &Result<f64, String>,
    imbalance: Option<f64>,
    estimate: Option<f64>,
    on_nodes: Option<f64>,
) -> String {
    let mut text = String::new();
    match (local, estimate) {
        (Ok(local), _) => text += &format!("; {} of them are local", percent(*local)),
        (Err(_), Some(estimate)) => {
            text += &format!(
                "; by CPU time and memory on each node, {} would be local if every thread used all \
                 memory alike",
                percent(estimate)
            );
        }
        _ => {}
    }
    match (imbalance, on_nodes) {
        (Some(imbalance), _) => text += &format!("; controller imbalance {}", percent(imbalance)),
        (None, Some(uneven)) => text += &format!("; imbalance of its memory {}", percent(uneven)),
        _ => {}
    }
    text
}

fn is_interleave(level: &Level) -> bool {
    matches!(level, Level::Memory(policy) if policy.mode == MemoryMode::Interleave)
}

#[cfg(test)]
mod tests {
    use numapilot_topology::NodeId;

    use super::super::example::{Example, run};
    use super::*;

    #[test]
    fn one_node_is_certain() {
        let finding = advise(&run(Example { nodes: 1, ..Example::default() }));
        assert_eq!(finding.verdict, Verdict::CannotMatter);
        assert_eq!(finding.bound, Some(Bound::NOTHING));
        assert!(finding.uncertainty.is_empty());
    }

    /// A quarter of slow accesses is local, and the controllers have this imbalance.
    fn mostly_remote(imbalance: f64) -> Example {
        Example {
            local: 20e6,
            remote: 60e6,
            latency: Some(300e-9),
            imbalance: Some(imbalance),
            ..Example::default()
        }
    }

    #[test]
    fn imbalance_and_slow_accesses_ask_for_interleaving() {
        let finding = advise(&run(mostly_remote(1.7)));
        assert_eq!(finding.verdict, Verdict::CanMatter);
        assert_eq!(finding.first.as_ref().map(Level::name).as_deref(), Some("interleave all"));
        assert!(finding.because.contains("25.0 % of them are local"), "{}", finding.because);
        assert!(finding.bound.unwrap().cpu_share > 0.5);
        assert_eq!(advise(&run(mostly_remote(0.1))).first, None);
    }

    #[test]
    fn what_is_local_or_not_parallel_is_not_interleaved() {
        let first = |local, busy| {
            let remote = 80e6 - local;
            let (latency, imbalance) = (Some(300e-9), Some(1.7));
            advise(&run(Example { local, remote, busy, latency, imbalance, ..Example::default() }))
                .first
                .is_some()
        };
        assert!(first(60e6, 2.0));
        assert!(!first(64e6, 2.0));
        assert!(!first(60e6, 1.9));
    }

    #[test]
    fn interleaving_leaves_at_least_half_of_the_local_accesses() {
        // On eight nodes, an eighth is local afterwards.
        let first = |local: f64| {
            let example = mostly_remote(1.7);
            let example = Example { nodes: 8, local, remote: 80e6 - local, ..example };
            advise(&run(example)).first.is_some()
        };
        assert!(first(19e6) && !first(21e6));
    }

    #[test]
    fn memory_that_is_on_all_nodes_is_not_interleaved() {
        let mut run = run(mostly_remote(0.6));
        assert!(advise(&run).first.is_some());
        run.node_bytes = [(NodeId(0), 3 << 30), (NodeId(1), 2 << 30)].into();
        assert_eq!(advise(&run).first, None);
    }

    #[test]
    fn few_accesses_cannot_cost_much() {
        let few = Example { local: 1e5, remote: 1e5, latency: Some(300e-9), ..Example::default() };
        let finding = advise(&run(few));
        assert_eq!((finding.verdict, finding.first.as_ref()), (Verdict::CannotMatter, None));
        assert!(finding.bound.unwrap().cpu_share < AT_LEAST);
        let rare = advise(&run(Example { local: 1e5, remote: 1e5, ..Example::default() }));
        assert_eq!((rare.verdict, rare.bound), (Verdict::CannotMatter, None));
    }

    #[test]
    fn without_a_pmu_it_is_unknown() {
        let finding = advise(&run(Example::default()));
        assert_eq!((finding.verdict, finding.bound), (Verdict::Unknown, None));
        assert!(finding.because.contains("no hardware PMU"), "{}", finding.because);
        // All memory on node 0, CPU time on both.
        assert_eq!(finding.first.map(|level| level.name()).as_deref(), Some("interleave all"));
    }
}

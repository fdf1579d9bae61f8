//! Thread placement.
//!
//! Source: systematic-numa-study, sections 3.2 and 4.6: sparse placement gives threads the bandwidth
//! and caches of all nodes, dense placement keeps them near each other, and both prevent migrations.
//! Threads that stay on their nodes, as many on each, have all that sparse placement gives, and
//! threads of which fewer than two run at a time, such as those of a client and its server, cannot
//! use the bandwidth of several nodes. Pinning either can only cost.
//! carrefour: nothing needs to move if 80 % of accesses are local and the imbalance is below 35 %.

use numapilot_observe::Metric;
use numapilot_place::ThreadPlacement;
use numapilot_tune::space::{FactorName, Level};

use super::memory::{IMBALANCE, LOCAL_RATIO};
use super::stalls::{PARALLEL, Stalls, stalls};
use super::{counted, percent};
use crate::finding::{Bound, Factor, Finding, Verdict};
use crate::run::Run;
use crate::shares::AT_LEAST;

const FACTOR: Factor = Factor::Plan(FactorName::Threads);
const SOURCE: &str = "systematic-numa-study 3.2, 4.6; carrefour";

/// What a run says about thread placement.
pub fn advise(run: &Run) -> Finding {
    if run.facts.cpu_nodes < 2 {
        let because = "the CPUs that the program may use are all on one node: sparse and dense are \
                       the same";
        return Finding::nothing(FACTOR, because, SOURCE);
    }
    let levels = match run.levels(FactorName::Threads) {
        Ok(levels) => levels,
        Err(reason) => return Finding::not_varied(FACTOR, reason, SOURCE),
    };
    let migrations = run.figure(Metric::CpuMigrations).ok();
    let code = run.code.as_ref().ok().filter(|code| code.samples > 0);
    let is = |placement| levels.iter().find(|level| **level == Level::Threads(placement));
    let Some(code) = code else {
        let because = "threads and their nodes are unknown: its code could not be sampled";
        return Finding::new(FACTOR, Verdict::Unknown, because, SOURCE)
            .with("cpu_migrations", migrations)
            .expecting(levels, None);
    };
    let mut because = format!(
        "{} used CPU time, of which {} ran on several nodes",
        counted(code.threads, "thread"),
        code.wandering_threads
    );
    if let Some(migrations) = migrations {
        because += &format!("; {}", counted(migrations as usize, "CPU migration"));
    }
    let stalls = stalls(run);
    if let Stalls::Bound(share) = stalls {
        because += &format!("; placement costs up to {} of CPU time", percent(share));
    }
    let wanders = code.wandering_threads > 0;
    let (verdict, bound) = match &stalls {
        _ if code.threads == 1 && !wanders => (Verdict::CannotMatter, None),
        Stalls::Bound(share) if *share < AT_LEAST => {
            (Verdict::CannotMatter, Some(Bound::of(*share, run.concurrency())))
        }
        Stalls::Bound(share) => (Verdict::CanMatter, Some(Bound::of(*share, run.concurrency()))),
        Stalls::Rare { .. } => (Verdict::CannotMatter, None),
        Stalls::Frequent { .. } => (Verdict::CanMatter, None),
        Stalls::Unknown(_) if wanders => (Verdict::CanMatter, None),
        Stalls::Unknown(_) => (Verdict::Unknown, None),
    };
    let local = run.figure(Metric::LocalAccessRatio).ok();
    let imbalance = run.figure(Metric::ControllerImbalance).ok();
    let is_well_placed = !wanders
        && local.is_some_and(|local| local >= LOCAL_RATIO)
        && imbalance.is_none_or(|uneven| uneven < IMBALANCE);
    let is_spread = run.is_spread().unwrap_or(false);
    let first = match verdict {
        _ if is_well_placed || is_spread => None,
        Verdict::CanMatter if code.threads == 1 => is(ThreadPlacement::Dense),
        Verdict::CanMatter if run.concurrency() >= PARALLEL => is(ThreadPlacement::Sparse),
        _ => None,
    };
    let uncertainty = if verdict == Verdict::CannotMatter && code.threads == 1 {
        "a second thread with less CPU time than one sample would not be seen"
    } else {
        "caches that threads share are not in these figures"
    };
    Finding { bound, ..Finding::new(FACTOR, verdict, because, SOURCE) }
        .but(uncertainty)
        .with("threads", Some(code.threads as f64))
        .with("busy_cpus", run.figure(Metric::CpusUtilized).ok())
        .with("wandering_threads", Some(code.wandering_threads as f64))
        .with("cpu_migrations", migrations)
        .with("local_access_ratio", local)
        .with("controller_imbalance", imbalance)
        .expecting(levels, first)
}

#[cfg(test)]
mod tests {
    use numapilot_topology::NodeId;

    use super::super::example::{Example, run};
    use super::*;
    use crate::run::CodeShares;

    fn code(threads: usize, wandering_threads: usize) -> Result<CodeShares, String> {
        Ok(CodeShares { samples: 1000, threads, wandering_threads, ..CodeShares::default() })
    }

    #[test]
    fn one_node_and_one_thread() {
        let finding = advise(&run(Example { nodes: 1, ..Example::default() }));
        assert_eq!(finding.bound, Some(Bound::NOTHING));
        let finding = advise(&run(Example { code: code(1, 0), ..Example::default() }));
        assert_eq!((finding.verdict, finding.first), (Verdict::CannotMatter, None));
        let finding = advise(&run(Example { code: code(1, 1), ..Example::default() }));
        assert_eq!(finding.verdict, Verdict::CanMatter);
        assert_eq!(finding.first, Some(Level::Threads(ThreadPlacement::Dense)));
    }

    #[test]
    fn threads_that_use_memory_are_placed_sparsely() {
        let example = Example {
            code: code(8, 0),
            local: 20e6,
            remote: 60e6,
            latency: Some(300e-9),
            ..Example::default()
        };
        let finding = advise(&run(example));
        assert_eq!(finding.first, Some(Level::Threads(ThreadPlacement::Sparse)));
        assert!(finding.because.contains("8 threads"), "{}", finding.because);
    }

    #[test]
    fn threads_that_run_one_at_a_time_stay() {
        let example = Example {
            code: code(5, 1),
            busy: 1.4,
            local: 20e6,
            remote: 60e6,
            latency: Some(300e-9),
            ..Example::default()
        };
        let finding = advise(&run(example));
        assert_eq!((finding.verdict, finding.first), (Verdict::CanMatter, None));
    }

    #[test]
    fn threads_near_their_memory_stay() {
        let example = |imbalance| Example {
            code: code(8, 0),
            local: 90e6,
            remote: 10e6,
            latency: Some(300e-9),
            imbalance: Some(imbalance),
            ..Example::default()
        };
        let finding = advise(&run(example(0.1)));
        assert_eq!((finding.verdict, finding.first), (Verdict::CanMatter, None));
        let finding = advise(&run(example(0.5)));
        assert_eq!(finding.first, Some(Level::Threads(ThreadPlacement::Sparse)));
    }

    #[test]
    fn threads_that_are_spread_over_all_nodes_already_stay() {
        let example = |threads: [usize; 2]| {
            let node_threads = [(NodeId(0), threads[0]), (NodeId(1), threads[1])].into();
            let code = code(8, 0).map(|code| CodeShares { node_threads, ..code });
            let (local, remote, latency) = (20e6, 60e6, Some(300e-9));
            advise(&run(Example { code, local, remote, latency, ..Example::default() }))
        };
        let finding = example([4, 4]);
        assert_eq!((finding.verdict, finding.first), (Verdict::CanMatter, None));
        let uneven = example([6, 2]);
        assert_eq!(uneven.first, Some(Level::Threads(ThreadPlacement::Sparse)));
    }

    #[test]
    fn threads_that_stay_are_unknown_without_a_pmu() {
        let finding = advise(&run(Example { code: code(8, 0), ..Example::default() }));
        assert_eq!((finding.verdict, finding.first), (Verdict::Unknown, None));
    }
}

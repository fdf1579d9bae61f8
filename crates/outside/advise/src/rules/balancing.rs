//! Automatic NUMA balancing.
//!
//! Source: Documentation/admin-guide/sysctl/kernel.rst (`numa_balancing`); kernel/sched/fair.c:
//! a program is scanned after `scan_delay_ms`, 1 second, of CPU time of a thread.
//! systematic-numa-study, section 4.6: its overhead was too costly for analytics with many threads.

use numapilot_observe::Metric;
use numapilot_place::NumaBalancing;
use numapilot_tune::space::{FactorName, Level};

use super::{counted, percent};
use crate::finding::{Bound, Factor, Finding, Verdict};
use crate::run::Run;
use crate::shares::AT_LEAST;

const FACTOR: Factor = Factor::Plan(FactorName::NumaBalancing);
const SOURCE: &str = "kernel.rst (numa_balancing), sched/fair.c; systematic-numa-study 4.6";

/// CPU time of a process after which it is scanned, in seconds.
const SCAN_DELAY_SECONDS: f64 = 1.0;

/// What a run says about AutoNUMA.
pub fn advise(run: &Run) -> Finding {
    if run.facts.memory_nodes < 2 {
        return Finding::nothing(FACTOR, "one node with memory: pages have nowhere to go", SOURCE);
    }
    let levels = match run.levels(FactorName::NumaBalancing) {
        Ok(levels) => levels,
        Err(reason) => return Finding::not_varied(FACTOR, reason, SOURCE),
    };
    match run.facts.numa_balancing {
        Some(true) => when_on(run, levels),
        _ => when_off(run, levels),
    }
}

/// It is on: can it be better off?
fn when_on(run: &Run, levels: &[Level]) -> Finding {
    let counts = [Metric::NumaPteUpdates, Metric::NumaHintFaults, Metric::NumaPagesMigrated];
    let [updates, faults, moved] = counts.map(|metric| run.figure(metric));
    let (updates, faults, moved) = match (updates, faults, moved) {
        (Ok(updates), Ok(faults), Ok(moved)) => (updates, faults, moved),
        (Err(reason), ..) | (_, Err(reason), _) | (.., Err(reason)) => {
            let because = format!("it is on, and what it did was not counted: {reason}");
            return Finding::new(FACTOR, Verdict::Unknown, because, SOURCE).expecting(levels, None);
        }
    };
    if updates == 0.0 && faults == 0.0 {
        let because = "it is on, and has neither scanned nor moved a page in this run";
        return Finding::nothing(FACTOR, because, SOURCE)
            .but("it may in a longer run")
            .with("numa_pte_updates", Some(updates))
            .with("numa_hint_faults", Some(faults))
            .expecting(levels, None);
    }
    let because = format!(
        "it is on, and has caused {} and moved {} on the whole machine",
        counted(faults as usize, "hint fault"),
        counted(moved as usize, "page")
    );
    let kernel = run.kernel_share().ok();
    let is_worth = kernel.is_none_or(|kernel| kernel >= AT_LEAST) || moved > 0.0;
    let verdict = if is_worth { Verdict::CanMatter } else { Verdict::CannotMatter };
    let off = levels.iter().find(|level| **level == Level::NumaBalancing(NumaBalancing::Off));
    let finding = Finding::new(FACTOR, verdict, because, SOURCE);
    let finding = match kernel {
        Some(kernel) => Finding {
            because: finding.because.clone()
                + &format!("; {} of CPU time is spent in the kernel", percent(kernel)),
            ..finding.at_most(Bound::of(kernel, run.concurrency()))
        },
        None => finding,
    };
    finding
        .but("without it, pages also stay where they are remote; the bound holds for its own cost")
        .with("numa_pte_updates", Some(updates))
        .with("numa_hint_faults", Some(faults))
        .with("numa_pages_migrated", Some(moved))
        .with("kernel_share", kernel)
        .expecting(levels, off.filter(|_| verdict == Verdict::CanMatter))
}

/// It is off: can it be better on?
fn when_off(run: &Run, levels: &[Level]) -> Finding {
    if let Ok(cpu) = run.cpu_seconds()
        && cpu < SCAN_DELAY_SECONDS
    {
        let because = format!(
            "it is off, and the program's {cpu:.2} s of CPU time end before its first scan"
        );
        return Finding::nothing(FACTOR, because, SOURCE).expecting(levels, None);
    }
    let local = run.figure(Metric::LocalAccessRatio);
    let (verdict, because) = match &local {
        Ok(local) if *local >= super::memory::LOCAL_RATIO => (
            Verdict::CannotMatter,
            format!("it is off, and {} of DRAM accesses are local already", percent(*local)),
        ),
        Ok(local) => (
            Verdict::CanMatter,
            format!("it is off, and {} of DRAM accesses are local", percent(*local)),
        ),
        Err(reason) => {
            (Verdict::Unknown, format!("it is off, and local accesses were not counted: {reason}"))
        }
    };
    Finding::new(FACTOR, verdict, because, SOURCE)
        .but("a memory policy or balance may do the same at less cost")
        .with("local_access_ratio", local.ok())
        .expecting(levels, None)
}

#[cfg(test)]
mod tests {
    use super::super::example::{Example, run};
    use super::*;

    #[test]
    fn one_node_has_nowhere_to_move_pages() {
        let finding = advise(&run(Example { nodes: 1, ..Example::default() }));
        assert_eq!(finding.bound, Some(Bound::NOTHING));
    }

    #[test]
    fn on_and_idle_saves_nothing_when_off() {
        let on = |faults| Example { balancing: true, hint_faults: faults, ..Example::default() };
        let finding = advise(&run(on(0.0)));
        assert_eq!((finding.verdict, finding.bound), (Verdict::CannotMatter, Some(Bound::NOTHING)));
        assert!(finding.levels.iter().all(|level| level.deviation == 0.0));
        let finding = advise(&run(on(5000.0)));
        assert_eq!(finding.verdict, Verdict::CanMatter);
        assert_eq!(finding.first, Some(Level::NumaBalancing(NumaBalancing::Off)));
        assert!((finding.bound.unwrap().cpu_share - 0.1).abs() < 1e-9);
    }

    #[test]
    fn off_and_short_gains_nothing_when_on() {
        let short = Example { user: 0.5, system: 0.0, ..Example::default() };
        assert_eq!(advise(&run(short)).bound, Some(Bound::NOTHING));
        assert_eq!(advise(&run(Example::default())).verdict, Verdict::Unknown);
        let local = Example { local: 9e6, remote: 1e6, ..Example::default() };
        assert_eq!(advise(&run(local)).verdict, Verdict::CannotMatter);
    }
}

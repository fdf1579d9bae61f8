//! All findings of a run, and the plan to try first.

use numapilot_place::Plan;
use numapilot_tune::space::Level;

use crate::finding::Finding;
use crate::rules;
use crate::run::Run;

/// What the figures of one run say.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// A finding for every factor.
    pub findings: Vec<Finding>,
    /// The plan to try first; the default if nothing is expected to help.
    pub first: Plan,
    /// Levels that belong to the plan to try first, but change a setting of the whole machine.
    pub machine_wide: Vec<Level>,
}

/// Applies all rules to the figures of a run. With `allow_machine_wide` the plan to try first may
/// change settings of the whole machine.
#[must_use]
pub fn advise(run: &Run, allow_machine_wide: bool) -> Advice {
    let findings = vec![
        rules::allocator::advise(run),
        rules::threads::advise(run),
        rules::memory::advise(run),
        rules::huge_pages::advise(run),
        rules::balancing::advise(run),
        rules::cores::advise(run),
    ];
    let mut first = Plan::default();
    let mut machine_wide = Vec::new();
    for level in findings.iter().filter_map(|finding| finding.first.as_ref()) {
        if run.is_machine_wide(level) && !allow_machine_wide {
            machine_wide.push(level.clone());
            continue;
        }
        let mut with = first.clone();
        level.apply(&mut with);
        // Two levels of which each can be applied may exclude each other.
        if !run.space.excludes(&with) {
            first = with;
        }
    }
    Advice { findings, first, machine_wide }
}

#[cfg(test)]
mod tests {
    use numapilot_place::Thp;
    use proptest::prelude::*;

    use super::*;
    use crate::finding::{IGNORANCE, Verdict};
    use crate::rules::example::{Example, run};

    #[test]
    fn the_first_plan_has_what_is_expected_to_help() {
        let run = run(Example { balancing: true, hint_faults: 9.0, ..Example::default() });
        let advice = advise(&run, false);
        assert_eq!(advice.findings.len(), 6);
        assert_eq!(
            advice.first.to_string(),
            "jemalloc, interleave all, thp always, AutoNUMA off",
            "{:#?}",
            advice.findings
        );
    }

    #[test]
    fn a_setting_of_the_whole_machine_is_named_apart() {
        let mut run = run(Example::default());
        let level = Level::Thp(Thp::Always);
        let mut plan = Plan::default();
        level.apply(&mut plan);
        run.machine_wide.push(plan);
        let advice = advise(&run, false);
        assert_eq!(advice.machine_wide, [level]);
        assert_eq!(advice.first.thp, Thp::Inherit);
        assert_eq!(advise(&run, true).first.thp, Thp::Always);
    }

    proptest! {
        #[test]
        fn every_finding_is_consistent(
            nodes in 1u32..4,
            (user, system) in (0.0f64..50.0, 0.0f64..50.0),
            (local, remote) in (0.0f64..1e9, 0.0f64..1e9),
            latency in proptest::option::of(1e-8f64..1e-5),
            dtlb in proptest::option::of(0.0f64..1e10),
            (balancing, hint_faults) in (any::<bool>(), 0.0f64..1e5),
        ) {
            let example = Example {
                nodes, user, system, local, remote, latency, dtlb, cycles: dtlb.map(|_| 1e10),
                balancing, hint_faults, ..Example::default()
            };
            let run = run(example);
            let advice = advise(&run, true);
            for finding in &advice.findings {
                if let Some(bound) = finding.bound {
                    prop_assert!((0.0..=1.0).contains(&bound.cpu_share));
                    prop_assert!(bound.wall_share >= bound.cpu_share);
                }
                prop_assert!(!finding.because.is_empty());
                if finding.verdict == Verdict::CannotMatter || finding.verdict == Verdict::NotVaried {
                    prop_assert_eq!(&finding.first, &None);
                }
                for level in &finding.levels {
                    prop_assert!(level.ratio > 0.0 && level.ratio <= 1.0);
                    prop_assert!((0.0..=IGNORANCE).contains(&level.deviation));
                }
            }
        }
    }
}

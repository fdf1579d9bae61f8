//! Checks every reachable marking, for machines of many sizes.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const VERDICTS: [Verdict; 3] = [Verdict::Idle, Verdict::Stable, Verdict::Overload];

/// The reachable markings with the transitions that may fire in each, whatever the target does.
fn reachable(net: &Net, from: Marking) -> BTreeMap<Marking, Vec<(Transition, Marking)>> {
    let mut graph = BTreeMap::new();
    let mut left = vec![from];
    while let Some(marking) = left.pop() {
        if graph.contains_key(&marking) {
            continue;
        }
        let fires = |transition| Some((transition, net.fire(marking, transition)?));
        let next: Vec<(Transition, Marking)> =
            Transition::ALL.into_iter().filter_map(fires).collect();
        left.extend(next.iter().map(|(_, after)| *after));
        graph.insert(marking, next);
    }
    graph
}

#[test]
fn the_net_is_bounded_live_and_reversible() {
    for all in [1u32, 2, 3, 4, 8, 16, 64, 128] {
        for first in [1, all.div_ceil(2), all] {
            let net = Net::new(1, all);
            let begin = net.begin(first);
            let graph = reachable(&net, begin);
            assert_eq!(graph.len(), 4 * all as usize, "r_d = {all}");
            let mut alive = BTreeSet::new();
            for (marking, next) in &graph {
                let [c, i, s, o, allocated, free] = marking.0;
                // Invariants, and with them bounds.
                assert_eq!((c + i + s + o, allocated + free), (1, all), "{marking:?}");
                assert!(allocated >= 1, "{marking:?}");
                // There is no dead marking. Outside of C exactly one transition is enabled; in C
                // the guards choose one of three.
                let ways = if marking.state() == Place::Checks { 3 } else { 1 };
                assert_eq!(next.len(), ways, "{marking:?}: {next:?}");
                for verdict in VERDICTS {
                    let fires = |transition: &Transition| {
                        Net::guard(*transition, verdict, true)
                            && net.fire(*marking, *transition).is_some()
                    };
                    let enabled = Transition::ALL.iter().filter(|t| fires(t)).count();
                    assert_eq!(enabled, 1, "{marking:?}, {verdict:?}");
                }
                alive.extend(next.iter().map(|(transition, _)| *transition));
            }
            // Reversible: the first marking can be reached from every other. With that a
            // transition that fires somewhere can always fire again: it is live.
            assert!(returns_to(&graph, begin));
            let dead: Vec<Transition> =
                Transition::ALL.into_iter().filter(|t| !alive.contains(t)).collect();
            let expected = if all == 1 { vec![Transition::T4, Transition::T6] } else { Vec::new() };
            assert_eq!(dead, expected, "r_d = {all}");
        }
    }
}

/// Whether every marking leads to `begin`. Walking the arcs backwards finds all of them.
fn returns_to(graph: &BTreeMap<Marking, Vec<(Transition, Marking)>>, begin: Marking) -> bool {
    let mut before: BTreeMap<Marking, Vec<Marking>> = BTreeMap::new();
    for (marking, next) in graph {
        for (_, after) in next {
            before.entry(*after).or_default().push(*marking);
        }
    }
    let mut found = BTreeSet::new();
    let mut left = vec![begin];
    while let Some(marking) = left.pop() {
        if found.insert(marking) {
            left.extend(before.get(&marking).into_iter().flatten());
        }
    }
    found.len() == graph.len()
}

/// y·(Post - Pre) = 0 for the vectors of both invariants.
#[test]
fn the_invariants_are_those_of_the_incidence_matrix() {
    for all in [1, 2, 3, 4, 8, 16, 64, 128] {
        let net = Net::new(1, all);
        for y in [[1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]] {
            for (pre, post) in net.pre().iter().zip(net.post()) {
                let weigh = |row: &[u32; 6]| row.iter().zip(y).map(|(w, y)| w * y).sum::<u32>();
                assert_eq!(weigh(pre), weigh(post));
            }
        }
    }
}

/// The read arcs of t5 and t7 cancel out: the incidence matrix alone cannot tell when those
/// may fire.
#[test]
fn one_matrix_would_not_do() {
    let net = Net::new(1, 16);
    let incidence = |t: Transition| {
        let row = t as usize;
        let sum =
            |place: usize| i64::from(net.post()[row][place]) - i64::from(net.pre()[row][place]);
        std::array::from_fn::<i64, 6, _>(sum)
    };
    assert_eq!(incidence(Transition::T5), [1, -1, 0, 0, 0, 0]);
    assert_eq!(incidence(Transition::T7), [1, 0, 0, -1, 0, 0]);
    assert!(net.pre()[5][Place::Free as usize] > 0 && net.pre()[7][Place::Allocated as usize] > 0);
}

/// The paper's figure 3: u = 93 %, r = 11 of 16, thmax = 70 %.
#[test]
fn the_papers_figure() {
    let mut run = Run::new(Net::new(1, 16), 11);
    let verdict = Verdict::of(Some(0.93), 0.1, 0.7);
    run.tick(verdict, run.cores() + 1);
    assert_eq!(run.firings(), [Transition::T2, Transition::T6]);
    assert_eq!(run.marking(), Marking([1, 0, 0, 0, 12, 4]));
}

#[test]
fn the_net_explains_itself() {
    let mut run = Run::new(Net::new(1, 16), 1);
    run.tick(Verdict::Overload, 3);
    insta::assert_snapshot!(run.explain(), @r"
    t   guard              takes      gives          action
    t0  u <= thmin         C          I              idle
    t1  thmin < u < thmax  C          S              stable
    t2  u >= thmax         C          O              overload
    t3  next tick          S          C              look again
    t4                     I + 2A     C + A + F      release a core
    t5                     I + 15F    C + 15F        at the minimum
    t6                     O + F      C + A          allocate a core
    t7                     O + 16A    C + 16A        at the maximum

    marking      C = 1, I = 0, S = 0, O = 0, A = 3, F = 13
    last tick    t2 t6 t2 t6
    invariants   C + I + S + O = 1, A + F = 16
    ");
    let dot = run.net().dot(run.marking());
    assert!(dot.contains("A [shape=circle, label=\"Allocated\\n3\"];"), "{dot}");
    assert!(dot.contains("A -> t4 [label=\"2\"];") && dot.contains("t4 -> F;"), "{dot}");
}

proptest! {
    /// Any thresholds divide the axis without gaps.
    #[test]
    fn every_utilisation_has_one_verdict(u in proptest::option::of(any::<f64>()), a in 0.0..1.0f64, b in 0.0..1.0f64) {
        let (idle, overload) = (a.min(b), a.max(b));
        let verdict = Verdict::of(u, idle, overload);
        let holds = |t: Transition| Net::guard(t, verdict, false);
        prop_assert_eq!([Transition::T0, Transition::T1, Transition::T2].into_iter().filter(|t| holds(*t)).count(), 1);
        if let Some(u) = u.filter(|u| !u.is_nan()) {
            prop_assert_eq!(verdict == Verdict::Idle, u <= idle);
        }
    }

    /// The invariants hold, and the net ends where it should, however often it fires in a tick and
    /// however its limits change.
    #[test]
    fn ticks_and_limits_keep_the_invariants(
        steps in proptest::collection::vec((0usize..3, 0u32..40, 1u32..5, 1u32..40), 1..60)
    ) {
        let mut run = Run::new(Net::new(1, 16), 4);
        for (verdict, cores, minimum, maximum) in steps {
            run.limit(minimum, maximum);
            run.tick(VERDICTS[verdict], cores);
            let [c, i, s, o, allocated, free] = run.marking().0;
            prop_assert_eq!((c + i + s + o, allocated + free), (1, maximum.max(1)));
            prop_assert_eq!(allocated, cores.clamp(run.net().minimum(), run.net().maximum()));
            prop_assert!(matches!(run.marking().state(), Place::Checks | Place::Stable));
        }
    }
}

//! Tests of the space on made-up machines.

use super::*;
use crate::shape::DEFAULT;

fn facts(nodes: usize) -> Facts {
    Facts {
        cpu_nodes: nodes,
        memory_nodes: nodes,
        allocators: vec!["jemalloc".into(), "mimalloc".into()],
        thp: Some("madvise".into()),
        numa_balancing: Some(true),
    }
}

fn names(space: &Space) -> Vec<String> {
    space
        .factors
        .iter()
        .map(|f| {
            let levels: Vec<String> = f.levels.iter().map(Level::name).collect();
            format!("{}: {}", f.name.name(), levels.join(" "))
        })
        .collect()
}

#[test]
fn plans_of_the_user_can_be_compared_alone() {
    let plan = Plan { thp: Thp::Never, ..Plan::default() };
    let space = Space::of_plans(vec![plan.clone(), Plan::default(), plan.clone()]);
    assert_eq!((space.factors.len(), space.extras.as_slice()), (0, [plan].as_slice()));
    assert_eq!(space.shape().candidates().count(), 2);
}

#[test]
fn several_nodes_have_all_factors() {
    let space = Space::new(&facts(4), &[], vec![], |_| Ok(()));
    assert_eq!(
        names(&space),
        [
            "allocator: inherit jemalloc mimalloc",
            "threads: none sparse dense",
            "memory: inherit interleave all weighted-interleave all local",
            "thp: inherit always never",
            "numa-balancing: inherit off",
        ]
    );
    assert_eq!(space.shape().cells(), 216);
    assert_eq!(space.plan(DEFAULT), Plan::default());
    assert!(space.skipped.is_empty());
}

#[test]
fn daemons_are_compared_on_request_without_levels_that_contradict_them() {
    let request = "daemons=none,balance,cores".parse().unwrap();
    let applies = |plan: &Plan| match (plan.daemons, plan.threads) {
        (Daemons::None | Daemons::Balance, _) | (_, ThreadPlacement::None) => Ok(()),
        _ => Err("both decide".to_owned()),
    };
    let space = Space::new(&facts(2), &[request], vec![], applies);
    assert_eq!(names(&space).last().unwrap(), "daemons: none balance cores");
    let contradicting =
        |plan: &Plan| plan.daemons == Daemons::Cores && plan.threads != ThreadPlacement::None;
    assert!(space.cells().any(|plan| plan.daemons == Daemons::Cores));
    assert!(!space.cells().any(|plan| contradicting(&plan)));
    assert_eq!(space.skipped[0].level.as_deref(), Some("cores with threads sparse, dense"));
}

#[test]
fn one_node_leaves_placement_out_and_says_so() {
    let space = Space::new(&facts(1), &[], vec![], |_| Ok(()));
    assert_eq!(
        names(&space),
        ["allocator: inherit jemalloc mimalloc", "thp: inherit always never"]
    );
    let left: Vec<&str> = space.skipped.iter().map(|l| l.factor.name()).collect();
    assert_eq!(left, ["threads", "memory", "numa-balancing"]);
    assert!(space.skipped[0].reason.contains("one node"));
}

#[test]
fn a_level_that_cannot_be_applied_is_left_out_with_its_reason() {
    let space = Space::new(&facts(1), &[], vec![], |plan| {
        if plan.thp == Thp::Always { Err("needs root".into()) } else { Ok(()) }
    });
    assert_eq!(names(&space)[1], "thp: inherit never");
    assert!(space.skipped.contains(&Skipped {
        factor: FactorName::Thp,
        level: Some("always".into()),
        reason: "needs root".into(),
    }));
}

#[test]
fn levels_that_cannot_be_applied_together_are_left_out_together() {
    let no_switch = |plan: &Plan| match (plan.thp, plan.allocator.to_string().as_str()) {
        (Thp::Always, "jemalloc" | "tcmalloc") => Err("no switch".to_owned()),
        _ => Ok(()),
    };
    let request = "allocator=jemalloc,mimalloc,tcmalloc".parse().unwrap();
    let space = Space::new(&facts(1), &[request], vec![], no_switch);
    assert_eq!(
        names(&space),
        ["allocator: inherit jemalloc mimalloc tcmalloc", "thp: inherit always never"]
    );
    let together = Skipped {
        factor: FactorName::Thp,
        level: Some("always with allocator jemalloc, tcmalloc".into()),
        reason: "no switch".into(),
    };
    let of_thp: Vec<&Skipped> =
        space.skipped.iter().filter(|skipped| skipped.factor == FactorName::Thp).collect();
    assert_eq!(of_thp, [&together]);
    let plans: Vec<Plan> = space.shape().candidates().map(|c| space.plan(c)).collect();
    assert_eq!(plans.len(), 10);
    assert!(plans.iter().all(|plan| no_switch(plan).is_ok()), "{plans:?}");
}

#[test]
fn one_reason_for_all_levels_is_reported_once() {
    let no_allocator = |plan: &Plan| match plan.allocator {
        AllocatorChoice::Inherit => Ok(()),
        _ => Err("statically linked".to_owned()),
    };
    let space = Space::new(&facts(4), &[], vec![], no_allocator);
    let left = |level: Option<&str>| Skipped {
        factor: FactorName::Allocator,
        level: level.map(str::to_owned),
        reason: "statically linked".into(),
    };
    assert_eq!(space.skipped, [left(None)]);
    let some = |plan: &Plan| match plan.allocator.to_string().as_str() {
        "jemalloc" | "inherit" => Ok(()),
        _ => no_allocator(plan),
    };
    let request = "allocator=jemalloc,mimalloc,tcmalloc".parse().unwrap();
    let space = Space::new(&Facts::default(), &[request], vec![], some);
    assert!(space.skipped.contains(&left(Some("mimalloc, tcmalloc"))), "{:?}", space.skipped);
}

#[test]
fn the_user_restricts_and_adds() {
    let requests = ["allocator=glibc,jemalloc", "thp=inherit", "memory=interleave,bind:0-1"]
        .map(|text| text.parse().unwrap());
    let mut extra = Plan::default();
    extra.env.insert("A".into(), "1".into());
    let mut cell = Plan::default();
    Level::Allocator(AllocatorChoice::Named("jemalloc".into())).apply(&mut cell);
    let space = Space::new(&facts(1), &requests, vec![extra.clone(), cell], |_| Ok(()));
    assert_eq!(
        names(&space),
        ["allocator: inherit glibc jemalloc", "memory: inherit interleave all bind 0-1"]
    );
    // The second plan is already a cell of the grid.
    assert_eq!(space.extras.as_slice(), std::slice::from_ref(&extra));
    assert_eq!(space.plan(Candidate(9)), extra);
}

#[test]
fn requests_that_mean_nothing_name_what_there_is() {
    let message = |text: &str| text.parse::<Request>().unwrap_err().to_string();
    assert!(message("thp").contains("NAME=LEVEL"));
    assert!(message("thp=").contains("NAME=LEVEL"));
    assert!(message("pages=never").contains("numa-balancing"));
    assert!(message("thp=maybe").contains("inherit, always, never"));
    assert!(message("allocator=jmalloc").contains("jemalloc"));
    assert!(message("memory=local:0").contains("bind"));
    assert!(message("allocator=jemalloc,,").contains("not a level"));
}

#[test]
fn every_candidate_is_a_different_plan() {
    let space = Space::new(&facts(2), &[], vec![], |_| Ok(()));
    let mut plans: Vec<Plan> = space.shape().candidates().map(|c| space.plan(c)).collect();
    let count = plans.len();
    plans.sort();
    plans.dedup();
    assert_eq!(plans.len(), count);
}

#[test]
fn a_plan_with_an_excluded_pair_is_seen() {
    // Of the two allocators, one has no switch for huge pages.
    let space = Space::new(&facts(1), &[], vec![], |plan| {
        let is_pair =
            plan.thp == Thp::Always && plan.allocator == AllocatorChoice::Named("mimalloc".into());
        if is_pair { Err("no switch".into()) } else { Ok(()) }
    });
    let plan = |allocator: &str, thp| Plan {
        allocator: AllocatorChoice::Named(allocator.into()),
        thp,
        ..Plan::default()
    };
    assert!(space.excludes(&plan("mimalloc", Thp::Always)));
    assert!(!space.excludes(&plan("mimalloc", Thp::Never)));
    assert!(!space.excludes(&plan("jemalloc", Thp::Always)));
    assert!(Level::Thp(Thp::Never).is_in(&plan("jemalloc", Thp::Never)));
    assert!(!Level::Thp(Thp::Never).is_in(&Plan::default()));
}

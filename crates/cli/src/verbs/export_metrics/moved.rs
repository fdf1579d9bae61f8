//! What runs of `balance` have moved.

use std::collections::{BTreeMap, BTreeSet};

use numapilot_place::{Shown, Tally, ancestors};
use numapilot_sys::process::start_time;
use rustix::process::geteuid;

use super::member::Member;
use crate::verbs::balance::VERB;

/// The last sum of each run that has managed a process of the target. Those of ended runs stay, so
/// that the total never falls.
#[derive(Debug, Default)]
pub struct Moved(BTreeMap<(u32, u64), u64>);

impl Moved {
    /// The total now; `None` if no run has managed a process of the target.
    pub fn total(&mut self, members: &[Member]) -> Option<u64> {
        self.add(&Tally::shown(VERB), members);
        let total = self.0.values().fold(0, |sum: u64, value| sum.saturating_add(*value));
        (!self.0.is_empty()).then_some(total)
    }

    fn add(&mut self, shown: &[Shown], members: &[Member]) {
        if shown.is_empty() {
            return;
        }
        let mut identities: BTreeSet<(u32, u64)> = BTreeSet::new();
        let pids: BTreeSet<i32> = members.iter().map(|member| member.identity.0).collect();
        for member in members {
            identities.insert((member.identity.0.unsigned_abs(), member.identity.1));
            if !pids.contains(&member.parent) {
                let above = ancestors(member.identity.0).into_iter().map(i32::unsigned_abs);
                identities.extend(above.filter_map(|pid| Some((pid, start_time(pid).ok()?))));
            }
        }
        // Nobody can write figures for the processes of others.
        let trusted = |user| {
            [0, geteuid().as_raw()].contains(&user)
                || members.iter().all(|member| member.user == user)
        };
        for Shown { run, value, .. } in shown
            .iter()
            .filter(|shown| trusted(shown.user) && !shown.targets.is_disjoint(&identities))
        {
            let last = self.0.entry(*run).or_default();
            *last = (*last).max(*value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::member::tests::member;
    use super::*;

    #[test]
    fn the_total_never_falls_and_strangers_do_not_count() {
        let own = geteuid().as_raw();
        let mut of_target = member("a", Ok(1));
        (of_target.identity, of_target.user) = ((10, 5), 7);
        let members = [of_target];
        let shown = |run, user, value, target| Shown {
            run: (run, 1),
            user,
            value,
            targets: BTreeSet::from([target]),
        };
        let mut moved = Moved::default();
        let mut total = |shown: &[Shown]| {
            moved.add(shown, &members);
            moved.0.values().sum::<u64>()
        };
        assert_eq!(total(&[shown(1, own, 100, (10, 5)), shown(2, 7, 20, (10, 5))]), 120);
        // Another process, one with its ID, and another user.
        let others = [
            shown(3, own, 1, (11, 5)),
            shown(4, own, 1, (10, 6)),
            shown(5, own.max(7) + 1, 1, (10, 5)),
        ];
        assert_eq!(total(&others), 120);
        assert_eq!(total(&[shown(2, 7, 10, (10, 5))]), 120);
        assert_eq!(total(&[shown(1, own, 130, (10, 5))]), 150);
    }
}

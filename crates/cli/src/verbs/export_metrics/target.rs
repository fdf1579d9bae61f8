//! The processes of one selector, and what is measured of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use numapilot_observe::{DramMeter, Metric, NodeMemoryError, ObserveError, Tree};
use numapilot_sys::affinity;
use numapilot_sys::process::PidFd;
use numapilot_topology::{NodeId, NodeSet};

use super::member::{Group, Identity, Member, member};
use super::moved::Moved;
use super::plans::{OTHERS, listed};
use crate::verbs::selection::Selector;

/// Most groups of a target that have their own time series. A program chooses the name of each of
/// its processes, and so could make any number of them.
const MOST_GROUPS: usize = 100;

/// Memory of the processes of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    pub nodes: BTreeMap<NodeId, u64>,
    /// Why the memory of one of them is not known. Then there is no sum.
    pub missing: Option<NodeMemoryError>,
}

/// What was measured of a target.
#[derive(Clone, Debug)]
pub struct State {
    pub target: String,
    pub processes: usize,
    pub resident: BTreeMap<Group, Resident>,
    /// Local accesses divided by all accesses to DRAM, over the last interval.
    pub local_access_ratio: Result<f64, String>,
    /// CPUs on which at least one of its threads may run.
    pub cpus: usize,
    /// What `numapilot balance` has moved, if it has managed a process.
    pub moved_bytes: Option<u64>,
    /// The commands that `numapilot run` has started, with their plans.
    pub plans: BTreeSet<(String, String)>,
    /// Whether the plan of a process is not known.
    pub lacks_plans: bool,
}

/// The processes of one selector.
#[derive(Debug)]
pub struct Target {
    selector: Selector,
    /// Of a process ID: the process, and its tree.
    tree: Option<(PidFd, Tree)>,
    nodes: NodeSet,
    meter: Option<DramMeter>,
    /// The processes that the meter counts.
    counted: BTreeSet<Identity>,
    moved: Moved,
}

impl Target {
    /// Begins to observe. A control group or a unit may be empty; its processes are found later.
    ///
    /// # Errors
    /// The process does not exist or may not be observed.
    pub fn new(selector: Selector, nodes: NodeSet) -> Result<Self, ObserveError> {
        let tree = match selector {
            Selector::Pid(pid) => {
                // The descriptor is opened first: while it refers to a living process, its ID is
                // not reused.
                let fd = PidFd::open(pid).map_err(|_| ObserveError::NoProcess { pid })?;
                let tree = Tree::of(&[pid])?;
                if ended(&fd) {
                    return Err(ObserveError::NoProcess { pid });
                }
                Some((fd, tree))
            }
            _ => None,
        };
        Ok(Self {
            selector,
            tree,
            nodes,
            meter: None,
            counted: BTreeSet::new(),
            moved: Moved::default(),
        })
    }

    /// Whether it is a process that has ended. A control group or unit may get new processes.
    pub fn has_ended(&self) -> bool {
        self.tree.as_ref().is_some_and(|(fd, _)| ended(fd))
    }

    /// Whether it has no process at this moment.
    pub fn is_empty(&self) -> bool {
        self.tree.is_none() && self.selector.members().is_empty()
    }

    /// What is known of it now, and since the last call.
    pub fn state(&mut self) -> State {
        let members = self.members();
        let local_access_ratio = self.local_access_ratio(&members);
        let plans = members.iter().map(|member| (member.group.command.as_str(), &member.plan));
        State {
            target: self.selector.to_string(),
            processes: members.len(),
            cpus: cpus(&members),
            moved_bytes: self.moved.total(&members),
            plans: listed(plans),
            lacks_plans: members.iter().any(|member| member.plan.is_err()),
            resident: resident(members),
            local_access_ratio,
        }
    }

    fn members(&mut self) -> Vec<Member> {
        match &mut self.tree {
            Some((_, tree)) => {
                tree.refresh();
                tree.processes().filter_map(member).collect()
            }
            None => self.selector.members().iter().filter_map(member).collect(),
        }
    }

    /// The ratio since the last call. The counters follow what a counted process starts. A process
    /// that came from elsewhere is not counted, so counting begins again with all of them.
    fn local_access_ratio(&mut self, members: &[Member]) -> Result<f64, String> {
        let has_stranger = has_stranger(&self.counted, members);
        self.counted = members.iter().map(|member| member.identity).collect();
        if members.is_empty() {
            self.meter = None;
            return Err("the target has no process".to_owned());
        }
        match &mut self.meter {
            Some(meter) if !has_stranger => {
                meter.interval().figure(Metric::LocalAccessRatio).map_err(str::to_owned)
            }
            meter => {
                let tids = members.iter().flat_map(|member| &member.tids).copied().collect();
                let started = meter.insert(DramMeter::threads(tids, self.nodes.clone()));
                // Without a PMU, that is the reason and not the new process.
                started.interval().figure(Metric::LocalAccesses).map_err(str::to_owned)?;
                Err("counting has begun in this interval".to_owned())
            }
        }
    }
}

/// Whether a process is not counted: neither was it there before, nor was it started by one that was
/// or is.
fn has_stranger(counted: &BTreeSet<Identity>, members: &[Member]) -> bool {
    let current = members.iter().map(|member| member.identity.0);
    let parents: BTreeSet<i32> = counted.iter().map(|(pid, _)| *pid).chain(current).collect();
    members
        .iter()
        .any(|member| !counted.contains(&member.identity) && !parents.contains(&member.parent))
}

fn ended(fd: &PidFd) -> bool {
    // A descriptor that cannot be polled is as useless as one of an ended process.
    fd.ended_within(Some(Duration::ZERO)).unwrap_or(true)
}

/// The CPUs on which at least one of these threads may run. A thread that has ended has none.
fn cpus(members: &[Member]) -> usize {
    let mut all: Vec<u64> = Vec::new();
    for mask in
        members.iter().flat_map(|member| &member.tids).filter_map(|tid| affinity::get(*tid).ok())
    {
        all.resize(all.len().max(mask.len()), 0);
        all.iter_mut().zip(&mask).for_each(|(all, mask)| *all |= mask);
    }
    all.iter().map(|word| word.count_ones() as usize).sum()
}

/// Adds up the memory of each group; the smallest groups become one if there are too many.
fn resident(members: Vec<Member>) -> BTreeMap<Group, Resident> {
    let mut groups: BTreeMap<Group, Resident> = BTreeMap::new();
    for member in members {
        add(groups.entry(member.group).or_default(), member.bytes);
    }
    if groups.len() <= MOST_GROUPS {
        return groups;
    }
    let mut by_size: Vec<(Group, Resident)> = groups.into_iter().collect();
    by_size.sort_by_key(|(_, resident)| std::cmp::Reverse(resident.nodes.values().sum::<u64>()));
    let beyond = by_size.split_off(MOST_GROUPS - 1);
    let mut groups: BTreeMap<Group, Resident> = by_size.into_iter().collect();
    let others = Group { cgroup: OTHERS.to_owned(), command: OTHERS.to_owned() };
    let sum = groups.entry(others).or_default();
    for (_, resident) in beyond {
        add(sum, resident.missing.map_or(Ok(resident.nodes), Err));
    }
    groups
}

fn add(sum: &mut Resident, bytes: Result<BTreeMap<NodeId, u64>, NodeMemoryError>) {
    match bytes {
        Ok(bytes) => {
            for (node, bytes) in bytes {
                let total = sum.nodes.entry(node).or_default();
                *total = total.saturating_add(bytes);
            }
        }
        Err(error) => sum.missing = Some(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::member::tests::member;
    use super::*;

    #[test]
    fn a_group_is_the_sum_of_its_processes_or_missing() {
        let groups = resident(vec![
            member("a", Ok(1)),
            member("b", Ok(5)),
            member("a", Ok(2)),
            member("b", Err(NodeMemoryError::NotPermitted)),
        ]);
        let seen: Vec<_> =
            groups.values().map(|group| (group.nodes[&NodeId(0)], group.missing)).collect();
        assert_eq!(seen, [(3, None), (5, Some(NodeMemoryError::NotPermitted))]);
    }

    #[test]
    fn the_number_of_groups_is_bounded_and_nothing_is_lost() {
        let members = (0..1000).map(|i| member(&format!("worker {i}"), Ok(i))).collect();
        let groups = resident(members);
        assert_eq!(groups.len(), MOST_GROUPS);
        let total: u64 = groups.values().flat_map(|group| group.nodes.values()).sum();
        assert_eq!(total, (0..1000).sum::<u64>());
        let last = groups.iter().find(|(group, _)| group.command == OTHERS).unwrap();
        assert_eq!(last.1.nodes[&NodeId(0)], (0..=900).sum::<u64>());
    }

    #[test]
    fn counters_follow_children_and_nobody_else() {
        let of =
            |pid, start, parent| Member { identity: (pid, start), parent, ..member("a", Ok(1)) };
        let counted = BTreeSet::from([(10, 1), (11, 2)]);
        // The parent may have ended since.
        for members in [vec![of(10, 1, 1)], vec![of(12, 3, 11)], vec![of(12, 3, 11), of(13, 4, 12)]]
        {
            assert!(!has_stranger(&counted, &members));
        }
        // From elsewhere, and with the number of an ended process.
        for members in [vec![of(10, 1, 1), of(20, 5, 1)], vec![of(11, 9, 1)]] {
            assert!(has_stranger(&counted, &members));
        }
        assert!(has_stranger(&BTreeSet::new(), &[of(10, 1, 1)]));
    }

    #[test]
    fn this_process_is_observed_until_it_ends() {
        let nodes = numapilot_topology::read("/".as_ref()).unwrap().node_ids();
        let own = Selector::Pid(std::process::id().cast_signed());
        let mut target = Target::new(own, nodes.clone()).unwrap();
        let state = target.state();
        assert!(state.processes >= 1 && !state.resident.is_empty(), "{state:?}");
        assert!(!target.has_ended() && !target.is_empty());
        // The first interval is not over yet, or there is no PMU.
        assert!(state.local_access_ratio.is_err());
        assert!(Target::new(Selector::Pid(i32::MAX), nodes).is_err());
    }
}

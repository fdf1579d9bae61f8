//! Decides from outside on which CPU each thread runs: `decide(evidence) -> orders`.
//!
//! A thread inherits the affinity of its creator, so a new thread on a single CPU of the order was
//! created by a placed thread. Any other restriction is the program's own.

use std::collections::{BTreeMap, HashMap};

use numapilot_topology::{CpuId, CpuSet};

/// A thread and its affinity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its id.
    pub tid: i32,
    /// The CPUs it may run on.
    pub affinity: CpuSet,
}

/// An action for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Pin it to this CPU.
    Pin(i32, CpuId),
    /// Allow it all CPUs again.
    Free(i32),
}

/// The place of a known thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    On(CpuId),
    ItsOwn,
}

/// All threads that are placed from outside.
#[derive(Debug)]
pub struct Pinner {
    order: Vec<CpuId>,
    all: CpuSet,
    occupancy: HashMap<CpuId, u32>,
    processes: HashMap<i32, BTreeMap<i32, Place>>,
    /// Whether the threads that are seen now have existed before any was placed.
    is_first_look: bool,
    /// Number of threads pinned so far.
    pub placed: u32,
    /// Number of threads left alone because the program set their affinity.
    pub pins_itself: u32,
    /// Number of threads that the kernel refused to pin.
    pub refused: u32,
}

impl Pinner {
    pub fn new(order: Vec<CpuId>) -> Self {
        Self {
            all: order.iter().copied().collect(),
            order,
            occupancy: HashMap::new(),
            processes: HashMap::new(),
            is_first_look: false,
            placed: 0,
            pins_itself: 0,
            refused: 0,
        }
    }

    /// For a program that runs already. Whatever its threads are restricted to at the first look is
    /// their own choice.
    pub fn of_running(order: Vec<CpuId>) -> Self {
        Self { is_first_look: true, ..Self::new(order) }
    }

    /// Notes that all threads were seen once.
    pub fn has_looked(&mut self) {
        self.is_first_look = false;
    }

    /// All CPUs of the order.
    pub fn all(&self) -> &CpuSet {
        &self.all
    }

    /// The orders for the threads of one process. `threads` must have all of them.
    ///
    /// The only thread of a process is not placed, because programs count their CPUs by its
    /// affinity before they start threads. If it has inherited the CPU of a placed thread, that is
    /// undone for the same reason. A copy of another process (`is_copy`) does not count them again.
    pub fn decide(&mut self, process: i32, threads: &[Seen], is_copy: bool) -> Vec<Order> {
        let mut known = self.processes.remove(&process).unwrap_or_default();
        known.retain(|tid, place| {
            let stays = threads.iter().any(|seen| seen.tid == *tid);
            if let (false, Place::On(cpu)) = (stays, *place) {
                self.leave(cpu);
            }
            stays
        });
        let mut orders = Vec::new();
        for seen in threads {
            match known.get(&seen.tid) {
                Some(Place::ItsOwn) => {}
                Some(Place::On(cpu)) if only(&seen.affinity) == Some(*cpu) => {}
                Some(Place::On(cpu)) => {
                    self.leave(*cpu);
                    self.pins_itself += 1;
                    known.insert(seen.tid, Place::ItsOwn);
                }
                None if !self.is_ours(&seen.affinity) => {
                    self.pins_itself += 1;
                    known.insert(seen.tid, Place::ItsOwn);
                }
                None if threads.len() == 1 && !is_copy => {
                    if !self.all.is_subset(&seen.affinity) {
                        orders.push(Order::Free(seen.tid));
                    }
                }
                None => {
                    let Some(cpu) = self.least_occupied() else { continue };
                    *self.occupancy.entry(cpu).or_default() += 1;
                    self.placed += 1;
                    known.insert(seen.tid, Place::On(cpu));
                    orders.push(Order::Pin(seen.tid, cpu));
                }
            }
        }
        self.processes.insert(process, known);
        orders
    }

    /// Notes that the kernel refused to pin the thread, which is then left alone.
    pub fn refuse(&mut self, process: i32, tid: i32) {
        self.lose(process, tid);
        self.processes.entry(process).or_default().insert(tid, Place::ItsOwn);
        self.refused += 1;
    }

    /// Notes that the thread had ended before it could be pinned.
    pub fn lose(&mut self, process: i32, tid: i32) {
        let known = self.processes.get_mut(&process).and_then(|known| known.remove(&tid));
        if let Some(Place::On(cpu)) = known {
            self.leave(cpu);
            self.placed -= 1;
        }
    }

    /// Forgets all placed threads, and returns them with their CPUs.
    pub fn release(&mut self) -> Vec<(i32, CpuId)> {
        self.occupancy.clear();
        let mut released = Vec::new();
        for known in self.processes.values_mut() {
            known.retain(|tid, place| {
                if let Place::On(cpu) = place {
                    released.push((*tid, *cpu));
                }
                *place == Place::ItsOwn
            });
        }
        released
    }

    /// Whether a thread that is not placed has the CPU of a placed one, which created it.
    pub fn has_inherited(&self, process: i32, seen: &Seen) -> bool {
        let known = self.processes.get(&process).and_then(|known| known.get(&seen.tid));
        known.is_none() && only(&seen.affinity).is_some_and(|cpu| self.all.contains(cpu))
    }

    /// Notes that the process has ended.
    pub fn end(&mut self, process: i32) {
        for place in self.processes.remove(&process).unwrap_or_default().into_values() {
            if let Place::On(cpu) = place {
                self.leave(cpu);
            }
        }
    }

    /// Whether the affinity is all CPUs, or one CPU that was inherited from a placed thread.
    fn is_ours(&self, affinity: &CpuSet) -> bool {
        let is_inherited = |cpu| !self.is_first_look && self.all.contains(cpu);
        self.all.is_subset(affinity) || only(affinity).is_some_and(is_inherited)
    }

    fn least_occupied(&self) -> Option<CpuId> {
        let count = |cpu: &CpuId| self.occupancy.get(cpu).copied().unwrap_or(0);
        self.order.iter().copied().min_by_key(count)
    }

    fn leave(&mut self, cpu: CpuId) {
        if let Some(count) = self.occupancy.get_mut(&cpu) {
            *count = count.saturating_sub(1);
        }
    }
}

fn only(set: &CpuSet) -> Option<CpuId> {
    let mut ids = set.iter();
    ids.next().filter(|_| ids.next().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pinner() -> Pinner {
        Pinner::new([0, 4, 1, 5].map(CpuId).to_vec())
    }

    fn seen(tid: i32, cpus: &str) -> Seen {
        Seen { tid, affinity: CpuSet::parse_list(cpus).unwrap() }
    }

    #[test]
    fn the_only_thread_waits_and_the_first_of_two_is_first() {
        let mut pinner = pinner();
        assert_eq!(pinner.decide(1, &[seen(1, "0-7")], false), []);
        let orders = pinner.decide(1, &[seen(1, "0-7"), seen(2, "0-7")], false);
        assert_eq!(orders, [Order::Pin(1, CpuId(0)), Order::Pin(2, CpuId(4))]);
        assert_eq!(pinner.decide(1, &[seen(1, "0"), seen(2, "4")], false), []);
        assert_eq!((pinner.placed, pinner.pins_itself), (2, 0));
    }

    #[test]
    fn a_thread_that_inherited_our_cpu_is_placed_anew() {
        let mut pinner = pinner();
        pinner.decide(1, &[seen(1, "0-7"), seen(2, "0-7")], false);
        let orders = pinner.decide(1, &[seen(1, "0"), seen(2, "4"), seen(3, "4")], false);
        assert_eq!(orders, [Order::Pin(3, CpuId(1))]);
        // A child process of a placed thread first counts its CPUs.
        assert_eq!(pinner.decide(9, &[seen(9, "4")], false), [Order::Free(9)]);
    }

    #[test]
    fn released_threads_are_those_that_were_placed() {
        let mut pinner = pinner();
        pinner.decide(1, &[seen(1, "0-7"), seen(2, "0-7"), seen(3, "6")], false);
        assert_eq!(pinner.release(), [(1, CpuId(0)), (2, CpuId(4))]);
        // Created by the second one; chosen by the program.
        assert!(pinner.has_inherited(1, &seen(4, "4")));
        assert!(!pinner.has_inherited(1, &seen(3, "6")));
        // They are placed anew, from the first CPU on.
        let orders = pinner.decide(1, &[seen(1, "0-7"), seen(2, "0-7"), seen(3, "6")], false);
        assert_eq!(orders, [Order::Pin(1, CpuId(0)), Order::Pin(2, CpuId(4))]);
    }

    #[test]
    fn what_a_running_program_has_at_the_first_look_is_its_own() {
        let mut pinner = Pinner::of_running([0, 4, 1, 5].map(CpuId).to_vec());
        let orders = pinner.decide(1, &[seen(1, "0-7"), seen(2, "4"), seen(3, "0-7")], false);
        assert_eq!(orders, [Order::Pin(1, CpuId(0)), Order::Pin(3, CpuId(4))]);
        assert_eq!(pinner.decide(2, &[seen(9, "4")], false), []);
        pinner.has_looked();
        assert_eq!(pinner.decide(3, &[seen(10, "4")], false), [Order::Free(10)]);
    }

    #[test]
    fn a_copy_of_a_process_is_placed_although_it_has_one_thread() {
        let mut pinner = pinner();
        assert_eq!(pinner.decide(1, &[seen(1, "0-7")], false), []);
        assert_eq!(pinner.decide(2, &[seen(2, "0-7")], true), [Order::Pin(2, CpuId(0))]);
        assert_eq!(pinner.decide(3, &[seen(3, "0-7")], true), [Order::Pin(3, CpuId(4))]);
    }

    #[test]
    fn the_programs_own_choice_is_left_alone() {
        let mut pinner = pinner();
        let orders = pinner.decide(1, &[seen(1, "0-7"), seen(2, "0-1"), seen(3, "7")], false);
        assert_eq!(orders, [Order::Pin(1, CpuId(0))]);
        assert_eq!(pinner.pins_itself, 2);
        // A later choice of the program gives the CPU back.
        assert_eq!(pinner.decide(1, &[seen(1, "6"), seen(2, "0-1"), seen(3, "7")], false), []);
        assert_eq!(pinner.pins_itself, 3);
        let orders = pinner.decide(2, &[seen(20, "0-7"), seen(21, "0-7")], false);
        assert_eq!(orders[0], Order::Pin(20, CpuId(0)));
    }

    #[test]
    fn what_the_kernel_refuses_is_not_tried_again() {
        let mut pinner = pinner();
        pinner.decide(1, &[seen(1, "0-7"), seen(2, "0-7")], false);
        pinner.refuse(1, 2);
        assert_eq!(pinner.decide(1, &[seen(1, "0"), seen(2, "0-7")], false), []);
        assert_eq!((pinner.placed, pinner.refused), (1, 1));
    }

    proptest! {
        /// Threads start and end. The living ones are spread as evenly as the ended ones allow, and
        /// only living threads are counted.
        #[test]
        fn occupancy_is_the_number_of_living_threads(steps in proptest::collection::vec(2usize..20, 1..30)) {
            let mut pinner = pinner();
            let mut affinity: HashMap<i32, CpuSet> = HashMap::new();
            for count in steps {
                let threads: Vec<Seen> = (0..i32::try_from(count).unwrap())
                    .map(|tid| Seen {
                        tid,
                        affinity: affinity.get(&tid).cloned().unwrap_or_else(|| CpuSet::parse_list("0-7").unwrap()),
                    })
                    .collect();
                affinity.retain(|tid, _| threads.iter().any(|t| t.tid == *tid));
                for order in pinner.decide(1, &threads, false) {
                    if let Order::Pin(tid, cpu) = order {
                        affinity.insert(tid, [cpu].into_iter().collect());
                    }
                }
                prop_assert_eq!(pinner.occupancy.values().sum::<u32>() as usize, count);
                prop_assert_eq!(pinner.pins_itself, 0);
            }
            pinner.end(1);
            prop_assert_eq!(pinner.occupancy.values().sum::<u32>(), 0);
        }
    }
}

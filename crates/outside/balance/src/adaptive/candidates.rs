//! Finds the moves that would save more than they cost.

use numapilot_sys::prefetch;

use super::Adaptive;
use super::access::One;
use super::accesses::Accesses;
use super::congestion::Controllers;
use super::counts::AHEAD;
use super::expected::Expected;
use super::migration_cooldown::COOLDOWN_NS;
use super::migration_unit::MigrationUnit;
use super::sorted::sort_by_number;
use super::weighted_round_robin::WeightedRoundRobin;
use crate::decision::Why;
use crate::evidence::{Evidence, Page, Region};
use crate::nodes::Nodes;

/// A unit and its destination.
pub struct Candidate {
    /// Position among all units.
    pub unit: u32,
    pub to: u16,
    pub why: Why,
    is_region: bool,
    /// Seconds lost per second that the move would save.
    pub gain: f64,
}

impl Candidate {
    /// The gain per page.
    pub fn worth(&self) -> f64 {
        if self.is_region { self.gain / f64::from(Region::PAGES) } else { self.gain }
    }
}

/// The data by which an interval is judged.
pub struct View<'a> {
    pub state: &'a Adaptive,
    pub nodes: &'a Nodes,
    pub accesses: &'a Accesses,
    /// The degree of the convoy, if there is one: pages that several nodes use one after the other
    /// are better spread.
    pub convoy: Option<f64>,
    pub now_ns: u64,
}

impl View<'_> {
    /// All moves that save more than they cost. Units with an owner go to the owner. Shared units
    /// go elsewhere, the most used first, until a congested controller has less load.
    pub fn candidates(&self, evidence: &Evidence, mut controllers: Controllers) -> Vec<Candidate> {
        let units = &self.accesses.units;
        let usable: Vec<bool> =
            self.nodes.ids().iter().map(|id| evidence.usable.contains(*id)).collect();
        let before = controllers.clone();
        let (mut candidates, mut shared) = (Vec::new(), Vec::new());
        for (at, unit) in (0u32..).zip(units).filter(|(_, unit)| unit.movable) {
            let Some(to) = unit.owner() else {
                shared.push(at);
                continue;
            };
            if usable[to] && !evidence.kernel_collocates {
                // Owned units go to their owner whatever the load of its controller.
                let found = self
                    .candidate((at, unit), to, Why::Collocate, || self.nearer(&before, unit, to));
                candidates.extend(found.inspect(|_| controllers.shift(self.accesses.of(unit), to)));
            }
        }
        if controllers.congested {
            let mut expected = Expected::new(self.nodes);
            let round_robin = WeightedRoundRobin::new(&before.target);
            let fullest = controllers.fullest();
            let stays = |unit: &MigrationUnit| {
                fullest.is_some_and(|home| {
                    round_robin.node(unit.start, unit.is_region(), home) == home
                })
            };
            let order = in_rounds(units, &shared, stays);
            for (number, &at) in order.iter().enumerate() {
                let ahead = |by: usize| order.get(number + by).map(|at| &units[*at as usize]);
                if let Some(unit) = ahead(2 * AHEAD) {
                    prefetch::for_write(unit);
                }
                if let Some(unit) = ahead(AHEAD) {
                    self.prepare(unit);
                    prefetch::for_write(self.accesses.of(unit).as_ptr());
                }
                let unit = &units[at as usize];
                let Some((home, to)) = self.taker(&controllers, &round_robin, unit, &usable) else {
                    continue;
                };
                let found = self.candidate((at, unit), to, Why::Interleave, || {
                    self.spread(&controllers, &mut expected, unit, to)
                });
                candidates
                    .extend(found.inspect(|_| controllers.shift_shared(home, to, unit.weight)));
            }
        } else if let Some(convoy) = self.convoy {
            let mut expected = Expected::new(self.nodes);
            let round_robin = WeightedRoundRobin::new(&before.target);
            for at in shared {
                let unit = &units[at as usize];
                let Some(home) = home_of(self.accesses.of(unit), usable.len()) else { continue };
                let to = round_robin.node(unit.start, unit.is_region(), home);
                candidates.extend(self.candidate((at, unit), to, Why::Interleave, || {
                    self.scattered(convoy, &before, &mut expected, unit, to)
                }));
            }
        }
        candidates
    }

    /// A candidate, if the move gains more than it costs. `saved_ns` is what its accesses would
    /// save.
    fn candidate(
        &self,
        (at, unit): (u32, &MigrationUnit),
        to: usize,
        why: Why,
        saved_ns: impl FnOnce() -> f64,
    ) -> Option<Candidate> {
        if self.accesses.of(unit).iter().all(|one| one.home() == to) {
            return None;
        }
        let gain = saved_ns() * self.state.rate * 1e-9;
        // A pattern that has lasted for a time is expected to last for about as long again.
        let lasted_ns = self.now_ns.saturating_sub(unit.born_ns(self.state));
        let cooldown_s = lasted_ns.min(COOLDOWN_NS) as f64 / 1e9;
        let price = f64::from(unit.pages()) * self.state.page_move_ns * 1e-9;
        let to = u16::try_from(to).ok().filter(|_| gain * cooldown_s > price)?;
        Some(Candidate { unit: at, to, why, is_region: unit.is_region(), gain })
    }

    /// Nanoseconds that the accesses of all units take by the machine's figures. For shared pages
    /// it uses the accesses expected from now on.
    pub fn lost(&self, controllers: &Controllers) -> f64 {
        let mut expected = Expected::new(self.nodes);
        let units = &self.accesses.units;
        let of = |(at, unit): (usize, &MigrationUnit)| {
            if let Some(unit) = units.get(at + AHEAD) {
                self.prepare(unit);
            }
            let accesses = self.accesses.of(unit);
            match (unit.lasting(self.state), accesses.last()) {
                (Some(lasting), Some(last)) => {
                    let [mean_ns] = expected.ns(lasting, [last.home()]);
                    accesses.len() as f64 * mean_ns * controllers.stretch(last.home())
                }
                _ => self.taken(controllers, accesses, None),
            }
        };
        units.iter().enumerate().map(of).sum()
    }

    /// Prefetches the counts of a unit.
    fn prepare(&self, unit: &MigrationUnit) {
        if let Some(page) = unit.shared_page() {
            self.state.pages.prepare(page);
        }
    }

    /// Nanoseconds that a move of a shared unit to another node would save: for its own accesses,
    /// and for all other accesses to the memory that it leaves.
    fn spread(
        &self,
        controllers: &Controllers,
        expected: &mut Expected,
        unit: &MigrationUnit,
        to: usize,
    ) -> f64 {
        let accesses = self.accesses.of(unit);
        let Some(home) = accesses.last().map(One::home) else { return 0.0 };
        let stretch = controllers.stretch(home);
        let (here, there) = match unit.lasting(self.state) {
            Some(lasting) => {
                let [here_ns, there_ns] = expected.ns(lasting, [home, to]);
                let weight = f64::from(unit.weight);
                (weight * here_ns * stretch, weight * there_ns * controllers.stretch(to))
            }
            None => {
                let here = self.taken(controllers, accesses, None);
                (here, self.taken(controllers, accesses, Some(to)))
            }
        };
        here * (1.0 + controllers.relief(home) / stretch) - there
    }

    /// Nanoseconds that a shared unit's accesses would save on another node if the whole convoy
    /// were spread: the waiting time beyond the latency of an idle machine, times the degree of the
    /// convoy.
    fn scattered(
        &self,
        convoy: f64,
        controllers: &Controllers,
        expected: &mut Expected,
        unit: &MigrationUnit,
        to: usize,
    ) -> f64 {
        let waited = |one: &One| {
            let idle_ns = self.nodes.latency_ns(one.from(), one.home());
            one.latency_ns().map_or(0.0, |ns| (f64::from(ns) - idle_ns).max(0.0))
        };
        let waited: f64 = self.accesses.of(unit).iter().map(waited).sum();
        convoy * waited + self.spread(controllers, expected, unit, to)
    }

    /// Nanoseconds that accesses take with their pages where they are, or on node `to`.
    fn taken(&self, controllers: &Controllers, accesses: &[One], to: Option<usize>) -> f64 {
        let of = |one: &One| {
            let home = to.unwrap_or(one.home());
            self.nodes.latency_ns(one.from(), home) * controllers.stretch(home)
        };
        accesses.iter().map(of).sum()
    }

    /// Nanoseconds that a unit's accesses would save by the change of distance alone.
    fn nearer(&self, controllers: &Controllers, unit: &MigrationUnit, to: usize) -> f64 {
        let of = |one: &One| {
            let (here, there) = (one.home(), self.nodes.latency_ns(one.from(), to));
            let saved_ns = self.nodes.latency_ns(one.from(), here) - there;
            f64::from(self.accesses.waiting.of(one)) * saved_ns * controllers.stretch(here)
        };
        self.accesses.of(unit).iter().map(of).sum()
    }

    /// Source and destination of a shared unit that relieves an overloaded controller. The
    /// destination is the node whose turn it is, if it has room, else the node with the most room;
    /// among equals, the node that uses the unit more.
    fn taker(
        &self,
        controllers: &Controllers,
        round_robin: &WeightedRoundRobin<'_>,
        unit: &MigrationUnit,
        usable: &[bool],
    ) -> Option<(usize, usize)> {
        let accesses = self.accesses.of(unit);
        let home = home_of(accesses, usable.len())?;
        let excess = controllers.excess(home);
        if excess <= 0.0 {
            return None;
        }
        let turn = round_robin.node(unit.start, unit.is_region(), home);
        if turn == home && !controllers.is_overfull(home) {
            return None;
        }
        let has_room = turn != home && controllers.has_room(turn);
        let used = |at: usize| accesses.iter().filter(|one| one.from() == at).count();
        let others = (0..usable.len()).filter(|at| *at != home && usable[*at]);
        let roomiest = || {
            others.min_by(|a, b| {
                let room = controllers.excess(*a).total_cmp(&controllers.excess(*b));
                room.then_with(|| used(*b).cmp(&used(*a))).then(a.cmp(b))
            })
        };
        let best = if has_room { turn } else { roomiest()? };
        // The destination must not end up with the load that the source had.
        (controllers.excess(best) + f64::from(unit.weight) < excess).then_some((home, best))
    }
}

/// Units in the order in which they are spread: the most used first. Units that are used about
/// equally follow in rounds, each of which takes a sixteenth of the pages, evenly. A program that
/// walks through its memory uses one part of it at a time. With pages that stay beside pages that
/// go, all parts are spread equally, however many pages go. Units that had better stay come last.
fn in_rounds(
    units: &[MigrationUnit],
    chosen: &[u32],
    stays: impl Fn(&MigrationUnit) -> bool,
) -> Vec<u32> {
    let of = |at: &u32| &units[*at as usize];
    let mean = chosen.iter().map(|at| of(at).weight).sum::<f32>() / chosen.len() as f32;
    // The exponent in steps of four: use from half to twice the mean counts as equal. More use
    // sorts first.
    let used = |unit: &MigrationUnit| !(unit.weight / mean).to_bits() >> 24;
    let row = |at: &u32| {
        let unit = of(at);
        (u32::from(stays(unit)) << 12 | used(unit) << 4 | round(unit.start), *at)
    };
    let mut rows: Vec<(u32, u32)> = chosen.iter().map(row).collect();
    sort_by_number(&mut rows, &mut Vec::new(), |(number, _)| (*number).into());
    rows.into_iter().map(|(_, at)| at).collect()
}

/// The round in which a page is spread. The golden ratio keeps the pages of a round, and of several
/// rounds, evenly apart.
///
/// Source: Knuth, "The Art of Computer Programming" 3, 6.4, Fibonacci hashing.
const fn round(page: Page) -> u32 {
    const ROUNDS: u32 = 16;
    let product = page.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (product >> (u64::BITS - ROUNDS.ilog2())) as u32
}

/// The node that most of these accesses went to.
fn home_of(accesses: &[One], nodes: usize) -> Option<usize> {
    let first = accesses.first()?.home();
    if accesses.iter().all(|one| one.home() == first) {
        return Some(first);
    }
    let mut counts = vec![0u32; nodes];
    accesses.iter().for_each(|one| counts[one.home()] += 1);
    (0..nodes).max_by_key(|at| counts[*at])
}

//! Which moves would save more than they cost.

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

/// A unit with where it should go.
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
    /// What a page of it would save.
    pub fn worth(&self) -> f64 {
        if self.is_region { self.gain / f64::from(Region::PAGES) } else { self.gain }
    }
}

/// What an interval is judged by.
pub struct View<'a> {
    pub state: &'a Adaptive,
    pub nodes: &'a Nodes,
    pub accesses: &'a Accesses,
    /// The degree of the convoy, if there is one: what several use one after the other had better
    /// be spread.
    pub convoy: Option<f64>,
    pub now_ns: u64,
}

impl View<'_> {
    /// All moves that save more than they cost: what is somebody's to him, then of what several
    /// share as much as takes load off a congested controller, the most used first.
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
                // Local is local, whatever else the node has to do.
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

    /// A unit that would gain by going there more than the move costs, by the nanoseconds that its
    /// accesses would save.
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
        // What has lasted for a time will last for about as long again.
        let lasted_ns = self.now_ns.saturating_sub(unit.born_ns(self.state));
        let cooldown_s = lasted_ns.min(COOLDOWN_NS) as f64 / 1e9;
        let price = f64::from(unit.pages()) * self.state.page_move_ns * 1e-9;
        let to = u16::try_from(to).ok().filter(|_| gain * cooldown_s > price)?;
        Some(Candidate { unit: at, to, why, is_region: unit.is_region(), gain })
    }

    /// Nanoseconds that the accesses of all units take by the machine's figures. Of shared pages,
    /// as they are to be expected from now on.
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

    /// Asks for the counts of a unit, which will soon be needed.
    fn prepare(&self, unit: &MigrationUnit) {
        if let Some(page) = unit.shared_page() {
            self.state.pages.prepare(page);
        }
    }

    /// Nanoseconds that a shared unit's accesses would save in the memory of another node, and
    /// all others to the memory that it leaves.
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

    /// Nanoseconds that a shared unit's accesses would save in the memory of another node, if all
    /// of the convoy were spread: of their waiting beyond what an idle machine takes, the part that
    /// is the convoy's degree.
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

    /// Nanoseconds that accesses take where their pages are, or would be.
    fn taken(&self, controllers: &Controllers, accesses: &[One], to: Option<usize>) -> f64 {
        let of = |one: &One| {
            let home = to.unwrap_or(one.home());
            self.nodes.latency_ns(one.from(), home) * controllers.stretch(home)
        };
        accesses.iter().map(of).sum()
    }

    /// Nanoseconds of waiting that a unit's accesses would save by another distance alone.
    fn nearer(&self, controllers: &Controllers, unit: &MigrationUnit, to: usize) -> f64 {
        let of = |one: &One| {
            let (here, there) = (one.home(), self.nodes.latency_ns(one.from(), to));
            let saved_ns = self.nodes.latency_ns(one.from(), here) - there;
            f64::from(self.accesses.waiting.of(one)) * saved_ns * controllers.stretch(here)
        };
        self.accesses.of(unit).iter().map(of).sum()
    }

    /// Where a shared unit takes load off a controller that has too much: the node whose turn it
    /// is, if it has room; else the one with the most, the one that uses the unit more among
    /// equals. From where and where to.
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
        // It must not become what the other was.
        (controllers.excess(best) + f64::from(unit.weight) < excess).then_some((home, best))
    }
}

/// Units in the order in which they are spread: the most used first, and those that are used about
/// alike in rounds, each of which takes a sixteenth of the pages, evenly. A program that walks
/// through its memory has one part of it in use at a time: when pages that stay and pages that go
/// lie side by side, all parts are spread alike, however much of them goes. Those that had better
/// stay come last of all.
fn in_rounds(
    units: &[MigrationUnit],
    chosen: &[u32],
    stays: impl Fn(&MigrationUnit) -> bool,
) -> Vec<u32> {
    let of = |at: &u32| &units[*at as usize];
    let mean = chosen.iter().map(|at| of(at).weight).sum::<f32>() / chosen.len() as f32;
    // The exponent by fours: from half to twice the mean is alike. More comes first.
    let used = |unit: &MigrationUnit| !(unit.weight / mean).to_bits() >> 24;
    let row = |at: &u32| {
        let unit = of(at);
        (u32::from(stays(unit)) << 12 | used(unit) << 4 | round(unit.start), *at)
    };
    let mut rows: Vec<(u32, u32)> = chosen.iter().map(row).collect();
    sort_by_number(&mut rows, &mut Vec::new(), |(number, _)| (*number).into());
    rows.into_iter().map(|(_, at)| at).collect()
}

/// The round in which a page is spread: the golden ratio keeps those of a round, and of several,
/// apart as evenly as can be.
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

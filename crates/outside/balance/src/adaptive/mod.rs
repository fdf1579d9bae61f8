//! What is better today than the published rules.
//!
//! ```text
//!  accesses --> counts that fade, of pages and of regions --> units: whose is it?
//!     |                                                         | owned    | shared
//!     +--> controllers: is one congested? ----------------------+----------+--> candidates
//!     +--> trials: have the last moves helped? --> undo                        | gain > cost?
//!                                                                              v token bucket
//!                                                                            orders
//! ```
//!
//! - Shares instead of "more than one node": a page is somebody's when the lower bound of
//!   the share is a majority; a page with little evidence goes with its region.
//! - Congestion by loaded latency where samples carry one, else by imbalance.
//! - A move must save more than it costs; a token bucket bounds bytes per second; one order
//!   for a page in 30 s; what does not help is undone.
//! - Where all moves together would save less than 2 % nothing is done.

mod bucket;
mod congestion;
mod counts;
mod owner;
mod residence;
mod trial;
mod units;

pub(crate) use counts::PageMap;
pub use owner::wilson_lower;

use serde::{Deserialize, Serialize};

use crate::decision::{Decision, Moved, Order, State, Why};
use crate::evidence::{Access, Evidence, Page, Region};
use crate::nodes::Nodes;
use crate::traffic::{Metrics, Traffic};
use bucket::Bucket;
use congestion::Controllers;
use counts::{LONG_NS, Table};
use residence::{RESIDENCE_NS, Residence};
use trial::{Cost, Trials};
use units::Unit;

/// Samples of an interval below which nothing is decided.
const LEAST_SAMPLES: usize = 20;
/// Share of the time lost on memory that all moves together must save.
const LEAST_GAIN: f64 = 0.02;
/// Intervals without that gain after which it is given up.
const PATIENCE: u32 = 5;
/// What moving a page costs until it was measured: about what the kernel takes to unmap,
/// copy and map 4 KiB.
const PAGE_MOVE_NS: f64 = 2000.0;
/// Accesses that a page is taken to get when all that is known is that it is used: its
/// cache lines, once.
const ACCESSES_PER_FAULT: f64 = 64.0;
/// Share of the memory that pages get; regions are few.
const PAGES_SHARE: (usize, usize) = (7, 8);

/// What a user may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Memory for counts. What was moved within a residence is kept beside it: some 80 bytes
    /// for each page.
    pub memory_bytes: usize,
    /// Bytes that may be moved in a second.
    pub bytes_per_second: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { memory_bytes: 64 << 20, bytes_per_second: 128 << 20 }
    }
}

/// All that is remembered of a process.
#[derive(Clone, Debug)]
pub struct Adaptive {
    pages: Table<Page>,
    regions: Table<Region>,
    residence: Residence,
    bucket: Bucket,
    trials: Trials,
    /// What remains to be undone.
    undo: Vec<Order>,
    /// What accesses to the pages of the last orders cost.
    ordered: Cost,
    page_move_ns: f64,
    /// Accesses per second that a sample of this interval stands for.
    rate: f64,
    /// Whether the source shows every page in use, or a random part of all accesses.
    random: bool,
    idle: u32,
}

/// A unit with where it should go.
struct Candidate {
    unit: Unit,
    to: usize,
    why: Why,
    /// Seconds lost per second that the move would save.
    gain: f64,
}

impl Adaptive {
    /// Begins on a machine of so many nodes.
    #[must_use]
    pub fn new(nodes: usize, settings: Settings) -> Self {
        let pages = settings.memory_bytes / PAGES_SHARE.1 * PAGES_SHARE.0;
        Self {
            pages: Table::new(nodes, pages),
            regions: Table::new(nodes, settings.memory_bytes - pages),
            residence: Residence::default(),
            bucket: Bucket::new(settings.bytes_per_second),
            trials: Trials::new(),
            undo: Vec::new(),
            ordered: Cost::default(),
            page_move_ns: PAGE_MOVE_NS,
            rate: 0.0,
            random: false,
            idle: 0,
        }
    }

    /// What follows from the evidence of an interval that ended at `now_ns`.
    pub fn decide(&mut self, nodes: &Nodes, evidence: &Evidence, now_ns: u64) -> Decision {
        let (metrics, _) = Metrics::of(evidence, nodes);
        let accesses = self.learn(nodes, evidence, now_ns);
        self.bucket.fill(now_ns);
        self.residence.prune(now_ns);
        self.ordered = Cost::default();
        let controllers = Controllers::of(evidence, nodes, &Traffic::sampled(evidence, nodes));
        let mut decision =
            Decision { metrics, interleaves: controllers.congested, ..Decision::default() };
        if accesses.len() >= LEAST_SAMPLES && evidence.duration_ns > 0 {
            let costs = accesses
                .iter()
                .filter_map(|access| Some((access.page, 1.0, cost(nodes, &controllers, access)?)));
            let undo = self.trials.judge(costs, now_ns);
            let until_ns = self.trials.paused_until_ns().max(now_ns.saturating_add(RESIDENCE_NS));
            undo.iter().for_each(|order| self.bar(*order, until_ns));
            self.undo.extend(undo);
            self.choose(nodes, evidence, &accesses, controllers, &mut decision, now_ns);
        }
        if now_ns < self.trials.paused_until_ns() {
            decision.state = State::BackingOff;
        }
        let undone = self.undo_some(evidence);
        decision.orders.extend(undone);
        decision.orders.sort_unstable_by_key(|order| order.start);
        decision
    }

    /// Tells which pages were moved, and how long that took.
    pub fn done(&mut self, moved: &[Moved], took_ns: u64, now_ns: u64) {
        if moved.is_empty() {
            return;
        }
        let measured = took_ns as f64 / moved.len() as f64;
        // Half of what is new: one slow call is not the rule.
        self.page_move_ns = f64::midpoint(self.page_move_ns, measured);
        self.trials.begin(moved, self.ordered, now_ns);
    }

    /// Counts the accesses; those by which pages may be judged, in order of pages.
    fn learn(&mut self, nodes: &Nodes, evidence: &Evidence, now_ns: u64) -> Vec<Access> {
        self.random = evidence.accesses_per_sample.is_some();
        let per_sample = evidence.accesses_per_sample.unwrap_or(ACCESSES_PER_FAULT);
        self.rate = per_sample / (evidence.duration_ns.max(1) as f64 / 1e9);
        let mut accesses = evidence.accesses.clone();
        accesses.sort_by_key(|access| access.page);
        accesses.retain(|access| {
            let Some(from) = nodes.position(access.from) else { return false };
            // The first fault is how a page came to be: it says nothing on who uses it.
            if !self.random && !self.pages.meet(access.page, now_ns) {
                return false;
            }
            self.pages.add(access.page, from, now_ns);
            self.regions.add(access.page.region(), from, now_ns);
            true
        });
        accesses
    }

    /// Whether the pages of a region that were not seen are worth moving with those that
    /// were, by how often each of the latter was.
    ///
    /// Source: Good, "The population frequencies of species", Biometrika 40 (1953): the
    /// share of accesses that go to unseen pages is about that of the pages seen once.
    fn reaches_beyond(&self, seen: &[f64]) -> bool {
        let once = seen.iter().filter(|count| **count <= 1.0).count() as f64;
        let unseen = f64::from(Region::PAGES) - seen.len() as f64;
        // Time lost to a remote access is of the order of a local one's.
        let lost_ns = once * self.rate * 100.0;
        self.random && unseen > 0.0 && lost_ns * (LONG_NS as f64 / 1e9) > unseen * self.page_move_ns
    }

    /// The moves that are worth it.
    fn choose(
        &mut self,
        nodes: &Nodes,
        evidence: &Evidence,
        accesses: &[Access],
        mut controllers: Controllers,
        decision: &mut Decision,
        now_ns: u64,
    ) {
        let before = controllers.clone();
        let units = units::divide(self, nodes, accesses);
        let all: f64 = units.iter().map(|unit| lost(nodes, &controllers, unit, None)).sum();
        let (owned, mut shared): (Vec<Unit>, Vec<Unit>) =
            units.into_iter().partition(|unit| unit.owner.is_some());
        let owned = if evidence.kernel_collocates { Vec::new() } else { owned };
        let usable = |at: usize| evidence.usable.contains(nodes.ids()[at]);
        let mut candidates = Vec::new();
        for unit in owned {
            let Some(to) = unit.owner.filter(|to| usable(*to)) else { continue };
            let found = self.candidate(nodes, &before, unit, to, Why::Collocate, now_ns);
            candidates.extend(found.inspect(|found| controllers.shift(found)));
        }
        decision.collocates = !candidates.is_empty();
        if controllers.congested {
            shared.sort_by(|a, b| b.count().total_cmp(&a.count()).then(a.start.cmp(&b.start)));
            for unit in shared {
                let Some(to) = roomiest(&controllers, &unit, &usable) else { continue };
                let found = self.candidate(nodes, &controllers, unit, to, Why::Interleave, now_ns);
                candidates.extend(found.inspect(|found| controllers.shift(found)));
            }
        }
        let saved: f64 = candidates.iter().map(|candidate| candidate.gain).sum();
        let gain = if all > 0.0 { saved / (all * self.rate * 1e-9) } else { 0.0 };
        decision.gain = Some(gain);
        decision.state = State::Idle;
        if gain < LEAST_GAIN {
            self.idle = self.idle.saturating_add(1);
            if self.idle >= PATIENCE {
                decision.state = State::GivenUp;
            }
            return;
        }
        self.idle = 0;
        if now_ns < self.trials.paused_until_ns() {
            return;
        }
        candidates.sort_by(|a, b| {
            let worth = |c: &Candidate| c.gain / f64::from(c.unit.pages);
            worth(b).total_cmp(&worth(a)).then(a.unit.start.cmp(&b.unit.start))
        });
        for Candidate { unit, to, why, .. } in candidates {
            let order = Order { start: unit.start, pages: unit.pages, to: nodes.ids()[to], why };
            if !self.bucket.take(order.bytes()) {
                break;
            }
            self.bar(order, now_ns.saturating_add(RESIDENCE_NS));
            for access in within(accesses, order) {
                if let Some(ns) = cost(nodes, &before, access) {
                    self.ordered.add(1.0, ns);
                }
            }
            decision.orders.push(order);
        }
        if !decision.orders.is_empty() {
            decision.state = State::Moving;
        }
    }

    /// A unit that would gain by going there more than the move costs.
    fn candidate(
        &self,
        nodes: &Nodes,
        controllers: &Controllers,
        unit: Unit,
        to: usize,
        why: Why,
        now_ns: u64,
    ) -> Option<Candidate> {
        let allowed = match unit.is_region() {
            true => self.residence.allows_region(unit.start.region(), now_ns),
            false => self.residence.allows_page(unit.start, now_ns),
        };
        if !allowed || unit.uses.iter().all(|one| one.home == to) {
            return None;
        }
        let saved = match why {
            // Local is local, whatever else the node has to do.
            Why::Collocate => nearer(nodes, controllers, &unit, to),
            _ => lost(nodes, controllers, &unit, None) - lost(nodes, controllers, &unit, Some(to)),
        };
        let gain = saved * self.rate * 1e-9;
        // What has lasted for a time will last for about as long again.
        let residence_s = now_ns.saturating_sub(unit.born_ns).min(RESIDENCE_NS) as f64 / 1e9;
        let price = f64::from(unit.pages) * self.page_move_ns * 1e-9;
        if gain * residence_s <= price {
            return None;
        }
        Some(Candidate { unit, to, why, gain })
    }

    fn bar(&mut self, order: Order, until_ns: u64) {
        if trial::is_whole(&order) {
            self.residence.bar_region(order.start.region(), until_ns);
        } else {
            order.each().for_each(|page| self.residence.bar_page(page, until_ns));
        }
    }

    /// As much of what is to be undone as the bucket has tokens for.
    fn undo_some(&mut self, evidence: &Evidence) -> Vec<Order> {
        let mut orders = Vec::new();
        while let Some(&order) = self.undo.last() {
            if evidence.usable.contains(order.to) {
                if !self.bucket.take(order.bytes()) {
                    break;
                }
                orders.push(order);
            }
            self.undo.pop();
        }
        orders
    }
}

/// Nanoseconds that an access took, or would by the machine's figures.
fn cost(nodes: &Nodes, controllers: &Controllers, access: &Access) -> Option<f64> {
    if let Some(latency) = access.latency_ns {
        return Some(f64::from(latency));
    }
    let (from, home) = (nodes.position(access.from)?, nodes.position(access.home)?);
    Some(nodes.latency_ns(from, home) * controllers.stretch(home))
}

/// Nanoseconds that a unit's accesses take by the machine's figures, where it is or where
/// it would be.
fn lost(nodes: &Nodes, controllers: &Controllers, unit: &Unit, to: Option<usize>) -> f64 {
    let of = |one: &units::Use| {
        let home = to.unwrap_or(one.home);
        one.count * nodes.latency_ns(one.from, home) * controllers.stretch(home)
    };
    unit.expected.as_ref().unwrap_or(&unit.uses).iter().map(of).sum()
}

/// Nanoseconds that a unit's accesses would save by another distance alone.
fn nearer(nodes: &Nodes, controllers: &Controllers, unit: &Unit, to: usize) -> f64 {
    let of = |one: &units::Use| {
        let shorter = nodes.latency_ns(one.from, one.home) - nodes.latency_ns(one.from, to);
        one.count * shorter * controllers.stretch(one.home)
    };
    unit.uses.iter().map(of).sum()
}

/// Where a shared unit takes load off a controller that has too much: the node with the most
/// room, the one that uses the unit more among equals.
fn roomiest(
    controllers: &Controllers,
    unit: &Unit,
    usable: &impl Fn(usize) -> bool,
) -> Option<usize> {
    let home = unit.uses.iter().max_by(|a, b| a.count.total_cmp(&b.count))?.home;
    let count = unit.count();
    if controllers.excess(home) <= 0.0 {
        return None;
    }
    let used = |at: usize| -> f64 {
        unit.uses.iter().filter(|one| one.from == at).map(|one| one.count).sum()
    };
    let others = (0..controllers.loads.len()).filter(|at| *at != home && usable(*at));
    let best = others.min_by(|a, b| {
        let room = controllers.excess(*a).total_cmp(&controllers.excess(*b));
        room.then(used(*b).total_cmp(&used(*a))).then(a.cmp(b))
    })?;
    // It must not become what the other was.
    (controllers.excess(best) + count < controllers.excess(home)).then_some(best)
}

/// Those of the sorted accesses that an order concerns.
fn within(accesses: &[Access], order: Order) -> &[Access] {
    let end = order.start.0 + u64::from(order.pages);
    let first = accesses.partition_point(|access| access.page < order.start);
    let last = accesses.partition_point(|access| access.page.0 < end);
    &accesses[first..last]
}

#[cfg(test)]
mod tests;

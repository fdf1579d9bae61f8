//! The default mode, which improves on the published rules.
//!
//! ```text
//!  accesses --> counts that fade, of pages and of regions --> migration units: page ownership
//!     |                                                         | owned    | shared
//!     +--> controllers: is one congested? ----------------------+----------+--> candidates
//!     +--> evaluation: did the last moves help? --> rollback                    | gain > cost?
//!                                                                              v token bucket
//!                                                                            orders
//! ```
//!
//! - Ownership is decided by shares instead of by "more than one node": a page has an owner if the
//!   lower bound of one node's share is a majority. A page with little evidence follows its region.
//! - A huge page in which several nodes own base pages is split.
//! - Congestion is detected by loaded latency if samples carry one, else by imbalance. A convoy is
//!   detected if controllers are used evenly, but one after the other.
//! - A move must save more than it costs. A token bucket bounds bytes per second. A page gets one
//!   order in 30 s. Moves that do not help are rolled back.
//! - Moves begin only if all of them together would save at least 2 %. A series that has begun is
//!   finished.

mod access;
mod accesses;
mod agreement;
mod bucket;
mod candidates;
mod congestion;
mod convoy;
mod counts;
mod evaluation;
mod expected;
mod fork_join;
mod migration_cooldown;
mod migration_unit;
mod migration_units;
mod owner;
mod replication;
mod simd_sums;
mod sorted;
mod weight;
mod weighted_round_robin;

pub use owner::wilson_lower;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::decision::{Decision, FirstTouch, Moved, Order, State, Why};
use crate::evidence::{Evidence, Page, Region};
use crate::metrics::Metrics;
use crate::nodes::Nodes;
use access::One;
use accesses::Accesses;
use bucket::Bucket;
use candidates::{Candidate, View};
use congestion::Controllers;
use counts::{LONG_NS, Table};
use evaluation::{Cost, Evaluations};
use fork_join::{MANY, fork_join};
use migration_cooldown::{COOLDOWN_NS, MigrationCooldown};

/// Least samples of an interval for a decision.
const LEAST_SAMPLES: usize = 20;
/// Share of the time lost on memory that all moves together must save for moves to begin.
const LEAST_GAIN: f64 = 0.02;
/// Intervals without that gain after which balancing gives up.
const PATIENCE: u32 = 3;
/// Assumed cost of moving a page until it is measured: about the time that the kernel takes to
/// unmap, copy and map 4 KiB.
const PAGE_MOVE_NS: f64 = 2000.0;
/// Assumed accesses to a page that is only known to be used: its cache lines, once.
const ACCESSES_PER_FAULT: f64 = 64.0;
/// Regions whose first-touch policy is changed at once: each takes a request.
const MOST_FIRST_TOUCH: usize = 512;
/// Accesses that are counted by region at a time: the slots of all of them would take too much
/// memory.
const PART: usize = 1 << 16;
/// Share of the memory for the counts of pages. There are few regions.
const PAGES_SHARE: (usize, usize) = (7, 8);

/// Settings for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Memory for counts. Pages that were moved within a cooldown are kept in addition: some 40
    /// bytes per page.
    pub memory_bytes: usize,
    /// Bytes that may be moved per second.
    pub bytes_per_second: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { memory_bytes: 64 << 20, bytes_per_second: 128 << 20 }
    }
}

/// The state of a process under balance.
#[derive(Clone, Debug)]
pub struct Adaptive {
    pages: Table<Page>,
    regions: Table<Region>,
    /// The accesses of the last interval.
    accesses: Accesses,
    cooldown: MigrationCooldown,
    bucket: Bucket,
    evaluations: Evaluations,
    /// Regions whose memory is spread on first touch.
    spread: BTreeSet<Region>,
    /// Orders that remain to be rolled back.
    rollback: Vec<Order>,
    /// The cost of accesses to the pages of the last orders.
    ordered: Cost,
    page_move_ns: f64,
    /// Accesses per second that one sample of this interval stands for.
    rate: f64,
    /// Whether the source shows every page in use, or a random part of all accesses.
    random: bool,
    /// Whether huge pages can be split.
    can_split: bool,
    /// Whether the last interval spread pages. Spreading continues until controllers are even.
    spreading: bool,
    /// Whether it moved pages to their users. That continues until all are there.
    collocating: bool,
    idle: u32,
}

impl Adaptive {
    /// Begins on a machine with this many nodes.
    #[must_use]
    pub fn new(nodes: usize, settings: Settings) -> Self {
        let pages = settings.memory_bytes / PAGES_SHARE.1 * PAGES_SHARE.0;
        Self {
            pages: Table::new(nodes, pages),
            regions: Table::new(nodes, settings.memory_bytes - pages),
            accesses: Accesses::default(),
            cooldown: MigrationCooldown::default(),
            bucket: Bucket::new(settings.bytes_per_second),
            evaluations: Evaluations::new(),
            spread: BTreeSet::new(),
            rollback: Vec::new(),
            ordered: Cost::default(),
            page_move_ns: PAGE_MOVE_NS,
            rate: 0.0,
            random: false,
            can_split: false,
            spreading: false,
            collocating: false,
            idle: 0,
        }
    }

    /// Decides by the evidence of an interval that ended at `now_ns`.
    pub fn decide(&mut self, nodes: &Nodes, evidence: &Evidence, now_ns: u64) -> Decision {
        let mut accesses = std::mem::take(&mut self.accesses);
        let many = evidence.accesses.len() >= MANY;
        let (_, (metrics, traffic)) =
            fork_join(many, || accesses.collect(evidence, nodes), || Metrics::of(evidence, nodes));
        self.learn(&mut accesses, evidence, now_ns);
        self.bucket.fill(now_ns);
        self.cooldown.prune(now_ns);
        self.ordered = Cost::default();
        let traffic = match evidence.counted {
            Some(_) => evidence.sampled_traffic(nodes),
            None => traffic,
        };
        let controllers =
            Controllers::of(&accesses.all, &evidence.usable, nodes, &traffic, self.spreading);
        let mut decision =
            Decision { metrics, interleaves: controllers.congested, ..Decision::default() };
        if accesses.all.len() >= LEAST_SAMPLES && evidence.duration_ns > 0 {
            let cost = |one: &One| cost(nodes, &controllers, one);
            let waited = |one: &One| Cost::of(accesses.waiting.of(one), cost(one));
            let rollback = self.evaluations.evaluate(
                nodes.ids(),
                &accesses.all,
                waited,
                metrics.maptu,
                now_ns,
            );
            let until_ns =
                self.evaluations.paused_until_ns().max(now_ns.saturating_add(COOLDOWN_NS));
            self.cooldown.begin(&rollback, until_ns);
            self.rollback.extend(rollback);
            migration_units::divide(self, nodes, &mut accesses, cost, now_ns);
            self.choose(nodes, evidence, &accesses, controllers, &mut decision, now_ns);
        }
        if now_ns < self.evaluations.paused_until_ns() {
            decision.state = State::BackingOff;
        }
        let ordered = |why| decision.orders.iter().any(|order| order.why == why);
        (self.spreading, self.collocating) = (ordered(Why::Interleave), ordered(Why::Collocate));
        let undone = self.roll_back_some(evidence);
        decision.orders.extend(undone);
        decision.orders.sort_unstable_by_key(|order| order.start);
        decision.first_touch = self.first_touch(&decision.orders, decision.interleaves);
        self.accesses = accesses;
        decision
    }

    /// Records which pages were moved, and how long that took.
    pub fn done(&mut self, moved: &[Moved], took_ns: u64, now_ns: u64) {
        if moved.is_empty() {
            return;
        }
        let measured = took_ns as f64 / moved.len() as f64;
        // A new measurement counts half, because one slow call is not typical.
        self.page_move_ns = f64::midpoint(self.page_move_ns, measured);
        self.evaluations.begin(moved, self.ordered, self.spreading, now_ns);
    }

    /// Counts the accesses. Keeps those by which pages may be judged, in order of pages.
    fn learn(&mut self, accesses: &mut Accesses, evidence: &Evidence, now_ns: u64) {
        self.random = evidence.accesses_per_sample.is_some();
        self.can_split = evidence.can_split;
        let per_sample = evidence.accesses_per_sample.unwrap_or(ACCESSES_PER_FAULT);
        self.rate = per_sample / (evidence.duration_ns.max(1) as f64 / 1e9);
        if !self.random {
            // The first fault created the page; it does not show its user.
            let (mut fresh, mut last, mut at) = (Vec::new(), None, 0);
            accesses.all.retain(|one| {
                let known = last.replace(one.page) == Some(one.page)
                    || self.pages.find(&mut at, one.page).is_some();
                if !known {
                    fresh.push(one.page);
                }
                known
            });
            self.pages.insert_fresh(&fresh, |page| *page, now_ns);
        }
        let Accesses { all, slots, waiting, .. } = accesses;
        let page = |one: &One| (one.page, one.from(), waiting.of(one));
        let region = |one: &One| (one.page.region(), one.from(), waiting.of(one));
        fork_join(
            all.len() >= MANY,
            || self.pages.count(all, page, slots, now_ns),
            || {
                // Their slots are not needed.
                let mut slots = Vec::new();
                let parts = all.chunks(PART);
                parts.for_each(|part| self.regions.count(part, region, &mut slots, now_ns));
            },
        );
    }

    /// Whether pages of a region that were not seen are worth moving with those that were, judged
    /// by the accesses to the latter.
    ///
    /// Source: Good, "The population frequencies of species", Biometrika 40 (1953): the
    /// share of accesses that go to unseen pages is about that of the pages seen once.
    fn reaches_beyond(&self, accesses: &[One]) -> bool {
        let (mut once, mut seen) = (0.0, 0.0);
        for same in accesses.chunk_by(|a, b| a.page == b.page) {
            once += f64::from(u8::from(same.len() == 1));
            seen += 1.0;
        }
        let unseen = f64::from(Region::PAGES) - seen;
        // A remote access loses about the time of a local one.
        let lost_ns = once * self.rate * 100.0;
        self.random && unseen > 0.0 && lost_ns * (LONG_NS as f64 / 1e9) > unseen * self.page_move_ns
    }

    /// Chooses the moves that are worth their cost.
    fn choose(
        &mut self,
        nodes: &Nodes,
        evidence: &Evidence,
        accesses: &Accesses,
        controllers: Controllers,
        decision: &mut Decision,
        now_ns: u64,
    ) {
        let convoy = accesses
            .convoy
            .degree_worth_spreading(self.spreading)
            .filter(|_| !controllers.congested);
        let view = View { state: self, nodes, accesses, convoy, now_ns };
        let cost = |one: &One| cost(nodes, &controllers, one);
        let units = &accesses.units;
        let (mut candidates, (all, copies)) = fork_join(
            accesses.all.len() >= MANY,
            || view.candidates(evidence, controllers.clone()),
            || {
                // A convoy takes longer than the machine's figures predict.
                let seen = || accesses.all.iter().map(cost).sum();
                let all = if convoy.is_some() { seen() } else { view.lost(&controllers) };
                (all, replication::replicable(nodes, &controllers, &accesses.all, all))
            },
        );
        decision.copies = copies;
        decision.replicable = decision.copies.iter().map(|copy| copy.pages as usize).sum();
        let all_s = all * self.rate * 1e-9;
        let share = |saved: f64| if all_s > 0.0 { saved / all_s } else { 0.0 };
        // A small convoy beside pages that go to their users is left alone.
        if convoy.is_some() && !self.spreading {
            let scattered = candidates.iter().filter(|found| found.why == Why::Interleave);
            if share(scattered.map(|found| found.gain).sum()) < LEAST_GAIN {
                candidates.retain(|found| found.why == Why::Collocate);
            }
        }
        let any = |why| candidates.iter().any(|found| found.why == why);
        decision.collocates = any(Why::Collocate);
        decision.interleaves |= any(Why::Interleave);
        // The sum of no numbers would be -0.
        let gain = share(candidates.iter().fold(0.0, |all, candidate| all + candidate.gain));
        decision.gain = Some(gain);
        decision.state = State::Idle;
        // The rest of a series pays for itself: until it is done, the program waits for the thread
        // whose pages are missing, or for the controller.
        let left = |found: &Candidate| match found.why {
            Why::Collocate => self.collocating,
            _ => controllers.uneven || (self.spreading && convoy.is_some()),
        };
        let finishes = candidates.iter().any(left);
        if gain < LEAST_GAIN && !finishes {
            self.idle = self.idle.saturating_add(1);
            if self.idle >= PATIENCE {
                decision.state = State::GivenUp;
            }
            return;
        }
        self.idle = 0;
        if now_ns < self.evaluations.paused_until_ns() {
            return;
        }
        let best = |a: &Candidate, b: &Candidate| {
            b.worth().total_cmp(&a.worth()).then(a.unit.cmp(&b.unit))
        };
        // Only as many candidates as the bucket has tokens for need be sorted.
        let most = usize::try_from(self.bucket.bytes() / Page::BYTES).unwrap_or(usize::MAX);
        if candidates.len() > most {
            candidates.select_nth_unstable_by(most, best);
            candidates.truncate(most + 1);
        }
        candidates.sort_unstable_by(best);
        for Candidate { unit, to, why, .. } in candidates {
            let unit = &units[unit as usize];
            let (start, to) = (unit.start, nodes.ids()[usize::from(to)]);
            let order = Order { start, pages: unit.pages(), to, why };
            if !self.bucket.take_tokens(order.bytes()) {
                break;
            }
            for one in accesses.of(unit) {
                self.ordered.add(Cost::of(accesses.waiting.of(one), cost(one)));
            }
            decision.orders.push(order);
            if unit.splits {
                decision.splits.push(start.region());
            }
        }
        decision.splits.sort_unstable();
        decision.splits.dedup();
        self.cooldown.begin(&decision.orders, now_ns.saturating_add(COOLDOWN_NS));
        if !decision.orders.is_empty() {
            decision.state = State::Moving;
        }
    }

    /// Decides on memory that is touched from now on. Where pages are spread, and where they were
    /// freed before a move could help, new pages will be used in the same way. Memory that comes
    /// and goes faster than it can be moved is spread on first touch, if a controller is congested.
    /// When moves are rolled back, this is undone too.
    fn first_touch(&mut self, orders: &[Order], congested: bool) -> Vec<FirstTouch> {
        let short_lived = self.evaluations.take_short_lived();
        let spread = short_lived.into_iter().filter(|_| congested).map(|region| (region, true));
        let ordered = orders.iter().filter(|order| order.why != Why::Collocate);
        let ordered = ordered.map(|order| (order.start.region(), order.why == Why::Interleave));
        let mut changes = Vec::new();
        for (region, spread) in spread.chain(ordered) {
            if changes.len() == MOST_FIRST_TOUCH {
                break;
            }
            let changed =
                if spread { self.spread.insert(region) } else { self.spread.remove(&region) };
            if changed {
                changes.push(FirstTouch { region, spread });
            }
        }
        // If a region has two changes, the last one counts.
        changes.reverse();
        changes.sort_by_key(|change| change.region);
        changes.dedup_by_key(|change| change.region);
        changes
    }

    /// As many of the remaining rollbacks as the bucket has tokens for.
    fn roll_back_some(&mut self, evidence: &Evidence) -> Vec<Order> {
        let mut orders = Vec::new();
        while let Some(&order) = self.rollback.last() {
            if evidence.usable.contains(order.to) {
                if !self.bucket.take_tokens(order.bytes()) {
                    break;
                }
                orders.push(order);
            }
            self.rollback.pop();
        }
        orders
    }
}

/// Nanoseconds that an access took; without a measured latency, by the machine's figures.
fn cost(nodes: &Nodes, controllers: &Controllers, one: &One) -> f64 {
    one.latency_ns().map_or_else(
        || nodes.latency_ns(one.from(), one.home()) * controllers.stretch(one.home()),
        f64::from,
    )
}

#[cfg(test)]
mod tests;

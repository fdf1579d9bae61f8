//! What is better today than the published rules.
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
//! - Shares instead of "more than one node": a page is somebody's when the lower bound of
//!   the share is a majority; a page with little evidence goes with its region.
//! - A huge page in which several nodes have pages of their own is split.
//! - Congestion by loaded latency where samples carry one, else by imbalance. A convoy is
//!   seen where controllers are used evenly, but one after the other.
//! - A move must save more than it costs; a token bucket bounds bytes per second; one order
//!   for a page in 30 s; what does not help is rolled back.
//! - Where all moves together would save less than 2 % nothing is begun; what was begun is
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

/// Samples of an interval below which nothing is decided.
const LEAST_SAMPLES: usize = 20;
/// Share of the time lost on memory that all moves together must save, if they are to be begun.
const LEAST_GAIN: f64 = 0.02;
/// Intervals without that gain after which it is given up.
const PATIENCE: u32 = 3;
/// What moving a page costs until it was measured: about what the kernel takes to unmap,
/// copy and map 4 KiB.
const PAGE_MOVE_NS: f64 = 2000.0;
/// Accesses that a page is taken to get when all that is known is that it is used: its
/// cache lines, once.
const ACCESSES_PER_FAULT: f64 = 64.0;
/// Regions for which is changed at once where memory goes that is touched: each takes a request.
const MOST_FIRST_TOUCH: usize = 512;
/// Accesses that are counted by regions at a time: all of them would take memory for their slots.
const PART: usize = 1 << 16;
/// Share of the memory that pages get; regions are few.
const PAGES_SHARE: (usize, usize) = (7, 8);

/// What a user may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Memory for counts. What was moved within a cooldown is kept beside it: some 40 bytes
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
    /// Those of the last interval.
    accesses: Accesses,
    cooldown: MigrationCooldown,
    bucket: Bucket,
    evaluations: Evaluations,
    /// Regions in which memory is spread when it is touched.
    spread: BTreeSet<Region>,
    /// What remains to be undone.
    rollback: Vec<Order>,
    /// What accesses to the pages of the last orders cost.
    ordered: Cost,
    page_move_ns: f64,
    /// Accesses per second that a sample of this interval stands for.
    rate: f64,
    /// Whether the source shows every page in use, or a random part of all accesses.
    random: bool,
    /// Whether huge pages can be split.
    can_split: bool,
    /// Whether the last interval spread pages: one goes on until controllers are even.
    spreading: bool,
    /// Whether it brought pages to their users: one goes on until all are there.
    collocating: bool,
    idle: u32,
}

impl Adaptive {
    /// Begins on a machine of so many nodes.
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

    /// What follows from the evidence of an interval that ended at `now_ns`.
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

    /// Tells which pages were moved, and how long that took.
    pub fn done(&mut self, moved: &[Moved], took_ns: u64, now_ns: u64) {
        if moved.is_empty() {
            return;
        }
        let measured = took_ns as f64 / moved.len() as f64;
        // Half of what is new: one slow call is not the rule.
        self.page_move_ns = f64::midpoint(self.page_move_ns, measured);
        self.evaluations.begin(moved, self.ordered, self.spreading, now_ns);
    }

    /// Counts the accesses; leaves those by which pages may be judged, in order of pages.
    fn learn(&mut self, accesses: &mut Accesses, evidence: &Evidence, now_ns: u64) {
        self.random = evidence.accesses_per_sample.is_some();
        self.can_split = evidence.can_split;
        let per_sample = evidence.accesses_per_sample.unwrap_or(ACCESSES_PER_FAULT);
        self.rate = per_sample / (evidence.duration_ns.max(1) as f64 / 1e9);
        if !self.random {
            // The first fault is how a page came to be: it says nothing on who uses it.
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
                // Nobody asks for their slots.
                let mut slots = Vec::new();
                let parts = all.chunks(PART);
                parts.for_each(|part| self.regions.count(part, region, &mut slots, now_ns));
            },
        );
    }

    /// Whether the pages of a region that were not seen are worth moving with those that
    /// were, by the accesses to the latter.
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
        // Time lost to a remote access is of the order of a local one's.
        let lost_ns = once * self.rate * 100.0;
        self.random && unseen > 0.0 && lost_ns * (LONG_NS as f64 / 1e9) > unseen * self.page_move_ns
    }

    /// The moves that are worth it.
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
                // A convoy takes longer than any figure of the machine says.
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
        // What is left of what was begun pays for itself, and without it a program waits for the
        // thread that has it, or for the controller.
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
        // No more than the bucket has tokens for need be in order.
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

    /// What is to be done with memory that is touched from now on. Where pages are spread, and
    /// where they were given back before a move of them could help, their successors will be in
    /// the same place: what comes and goes faster than it can be moved is spread from the
    /// beginning, if a controller is congested. What did not help is undone with the moves.
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
        // The last word counts where one region has both.
        changes.reverse();
        changes.sort_by_key(|change| change.region);
        changes.dedup_by_key(|change| change.region);
        changes
    }

    /// As much of what is to be undone as the bucket has tokens for.
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

/// Nanoseconds that an access took, or would by the machine's figures.
fn cost(nodes: &Nodes, controllers: &Controllers, one: &One) -> f64 {
    one.latency_ns().map_or_else(
        || nodes.latency_ns(one.from(), one.home()) * controllers.stretch(one.home()),
        f64::from,
    )
}

#[cfg(test)]
mod tests;

//! Evaluation and rollback of moves.
//!
//! After a round of moves, the cost of accesses to the moved pages is compared with their cost
//! before, over the next two rounds in which the pages are seen. If the cost has not fallen by 5 %,
//! and the program does not make a tenth more accesses in the same time, the moves are rolled back
//! and nothing is moved for a while, longer each time. Pages that are freed and touched again
//! before that tell nothing. While pages are being spread, the controller that they leave is still
//! congested for all its users. So moves that spread are evaluated together, after the last moves
//! of the series. The last moves of a series gain little by themselves, because most of the queue
//! is gone by then.

use std::collections::VecDeque;

use numapilot_topology::NodeId;

use super::access::One;
use super::migration_cooldown::COOLDOWN_NS;
use super::sorted::seek;
use crate::decision::{Moved, Order, Why};
use crate::evidence::Region;

/// Highest cost of an access afterwards, relative to the cost before, for moves to count as useful.
const MOST_AFTER: f64 = 0.95;
/// Least accesses per time afterwards, relative to before, for moves to count as useful if the cost
/// has not fallen. A sample shows the latency of one access, and not how many are in flight.
const LEAST_FASTER: f64 = 1.1;
/// Rounds after which moves are evaluated.
const ROUNDS: u32 = 2;
/// Longest series whose moves are evaluated after its end.
const LONGEST_SERIES_NS: u64 = COOLDOWN_NS / 3;
/// Accesses needed for a cost.
const LEAST_ACCESSES: f64 = 30.0;
/// The first pause, and the longest.
const PAUSE_NS: u64 = 10_000_000_000;
const LONGEST_PAUSE_NS: u64 = 640_000_000_000;

/// The cost of accesses, each weighted by how much the program waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    accesses: f64,
    ns: f64,
}

impl Cost {
    /// The cost of one access with this weight.
    pub fn of(weight: f32, ns: f64) -> Self {
        let weight = f64::from(weight);
        Self { accesses: weight, ns: weight * ns }
    }

    pub fn add(&mut self, other: Self) {
        self.accesses += other.accesses;
        self.ns += other.ns;
    }

    fn mean(self) -> Option<f64> {
        (self.accesses >= LEAST_ACCESSES).then(|| self.ns / self.accesses)
    }
}

/// Moves of one round.
#[derive(Clone, Debug)]
struct Evaluation {
    began_ns: u64,
    /// Whether other moves may continue it.
    spreads: bool,
    /// The moved pages, in order.
    moved: Vec<Moved>,
    before: Cost,
    after: Cost,
    /// Accesses of the program per time before, if known, and in all rounds since.
    rate_before: Option<f64>,
    rates_after: f64,
    /// Accesses that found a page on another node: it was freed and touched again.
    elsewhere: f64,
    rounds: u32,
}

impl Evaluation {
    /// Whether its pages do not live long enough to be evaluated.
    fn is_void(&self) -> bool {
        self.elsewhere >= LEAST_ACCESSES && self.elsewhere > self.after.accesses
    }

    /// Whether the moves failed; `None` if unknown yet.
    fn failed(&self) -> Option<bool> {
        if self.rounds < ROUNDS {
            return None;
        }
        let dear = self.after.mean()? > self.before.mean()? * MOST_AFTER;
        Some(dear && !self.is_faster())
    }

    /// Whether the program makes more accesses per time since.
    fn is_faster(&self) -> bool {
        let rate = self.rates_after / f64::from(self.rounds.max(1));
        self.rate_before.is_some_and(|before| before > 0.0 && rate > before * LEAST_FASTER)
    }

    /// Drops the observations since, which were made in the middle of a series.
    fn restart(&mut self) {
        (self.after, self.rates_after, self.rounds) = (Cost::default(), 0.0, 0);
    }

    /// Orders that move its pages back, neighbours together.
    fn rollback(self) -> Vec<Order> {
        let mut orders: Vec<Order> = Vec::new();
        for Moved { page, from: to, .. } in self.moved {
            match orders.last_mut() {
                Some(last)
                    if last.to == to
                        && last.start.0 + u64::from(last.pages) == page.0
                        && last.start.region() == page.region() =>
                {
                    last.pages += 1;
                }
                _ => orders.push(Order { start: page, pages: 1, to, why: Why::Undo }),
            }
        }
        orders
    }
}

/// Rounds of moves that are not evaluated yet, and the consequences of those that were.
#[derive(Clone, Debug)]
pub struct Evaluations {
    open: VecDeque<Evaluation>,
    /// Regions in which memory is freed before a move of it can help.
    short_lived: Vec<Region>,
    /// Accesses of the program per time in the last interval.
    rate: Option<f64>,
    pause_ns: u64,
    paused_until_ns: u64,
}

impl Evaluations {
    pub const fn new() -> Self {
        Self {
            open: VecDeque::new(),
            short_lived: Vec::new(),
            rate: None,
            pause_ns: PAUSE_NS,
            paused_until_ns: 0,
        }
    }

    /// Begins to evaluate moves that were just made of pages whose accesses cost `before`.
    /// `spreading` tells whether they continue earlier moves.
    pub fn begin(&mut self, moved: &[Moved], before: Cost, spreading: bool, now_ns: u64) {
        if moved.is_empty() {
            return;
        }
        let lasts = |evaluation: &&mut Evaluation| now_ns - evaluation.began_ns < LONGEST_SERIES_NS;
        self.open.iter_mut().filter(|_| spreading).filter(lasts).for_each(Evaluation::restart);
        let series = self
            .open
            .iter_mut()
            .find(|evaluation| spreading && evaluation.spreads && lasts(evaluation));
        if let Some(series) = series {
            series.moved.extend(moved);
            series.moved.sort_by_key(|moved| moved.page);
            series.before.add(before);
            return;
        }
        let mut moved = moved.to_vec();
        moved.sort_unstable_by_key(|moved| moved.page);
        self.open.push_back(Evaluation {
            began_ns: now_ns,
            spreads: spreading,
            moved,
            before,
            after: Cost::default(),
            rate_before: self.rate,
            rates_after: 0.0,
            elsewhere: 0.0,
            rounds: 0,
        });
    }

    /// Counts the accesses of an interval, which are in order of pages, at the cost of each. `rate`
    /// is the program's accesses per time (`None` if a source cannot tell). Evaluates all moves
    /// that can be evaluated, and returns the orders that roll back moves that did not help.
    pub fn evaluate(
        &mut self,
        nodes: &[NodeId],
        accesses: &[One],
        cost: impl Fn(&One) -> Cost,
        rate: Option<f64>,
        now_ns: u64,
    ) -> Vec<Order> {
        self.rate = rate;
        for evaluation in &mut self.open {
            let (mut seen, mut at) = (false, 0);
            for Moved { page, to, .. } in &evaluation.moved {
                seek(accesses, &mut at, page, |one| &one.page);
                for one in accesses[at..].iter().take_while(|one| one.page == *page) {
                    seen = true;
                    match nodes.get(one.home()) {
                        Some(home) if home == to => evaluation.after.add(cost(one)),
                        _ => evaluation.elsewhere += 1.0,
                    }
                }
            }
            if seen {
                evaluation.rounds += 1;
                evaluation.rates_after += rate.unwrap_or(0.0);
            }
        }
        let mut rollback = Vec::new();
        let mut failed = false;
        for evaluation in std::mem::take(&mut self.open) {
            if evaluation.is_void() {
                self.short_lived.extend(evaluation.moved.iter().map(|moved| moved.page.region()));
                continue;
            }
            match evaluation.failed() {
                Some(true) => {
                    failed = true;
                    rollback.extend(evaluation.rollback());
                }
                Some(false) => self.pause_ns = PAUSE_NS,
                // The pages are no longer used, so no verdict is possible.
                None if now_ns.saturating_sub(evaluation.began_ns) > COOLDOWN_NS => {}
                None => self.open.push_back(evaluation),
            }
        }
        if failed {
            self.paused_until_ns = now_ns.saturating_add(self.pause_ns);
            self.pause_ns = (self.pause_ns * 2).min(LONGEST_PAUSE_NS);
        }
        rollback
    }

    /// Takes the regions whose memory lives too shortly to be moved, in order.
    pub fn take_short_lived(&mut self) -> Vec<Region> {
        let mut regions = std::mem::take(&mut self.short_lived);
        regions.sort_unstable();
        regions.dedup();
        regions
    }

    /// Until when only rollbacks may move pages.
    pub const fn paused_until_ns(&self) -> u64 {
        self.paused_until_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Page;

    fn moved(page: u64) -> Moved {
        Moved { page: Page(page), from: NodeId(0), to: NodeId(1) }
    }

    const NODES: [NodeId; 2] = [NodeId(0), NodeId(1)];

    fn before() -> Cost {
        Cost { accesses: 100.0, ns: 10_000.0 }
    }

    /// Evaluates accesses of this latency to a page on node 1.
    fn evaluate(
        evaluations: &mut Evaluations,
        page: u64,
        count: usize,
        ns: u32,
        now: u64,
    ) -> Vec<Order> {
        let accesses = vec![One::new(Page(page), 0, 1, Some(ns)); count];
        let cost = |one: &One| Cost::of(1.0, one.latency_ns().map_or(0.0, f64::from));
        evaluations.evaluate(&NODES, &accesses, cost, None, now)
    }

    #[test]
    fn what_helps_stays() {
        let mut evaluations = Evaluations::new();
        evaluations.begin(&[moved(1)], before(), false, 0);
        for now in 1..=2 {
            assert_eq!(evaluate(&mut evaluations, 1, 50, 94, now), []);
        }
        assert_eq!(evaluations.paused_until_ns(), 0);
        assert!(evaluations.open.is_empty());
    }

    #[test]
    fn what_does_not_help_is_undone_and_the_pause_doubles() {
        let mut evaluations = Evaluations::new();
        for (round, pause) in [PAUSE_NS, 2 * PAUSE_NS, 4 * PAUSE_NS].into_iter().enumerate() {
            let now = round as u64 * 10;
            evaluations.begin(
                &[moved(7), moved(6), moved(9), moved(511), moved(512)],
                before(),
                false,
                now,
            );
            assert_eq!(evaluate(&mut evaluations, 7, 50, 96, now + 1), []);
            let orders = evaluate(&mut evaluations, 7, 50, 96, now + 2);
            let ranges: Vec<_> = orders.iter().map(|o| (o.start.0, o.pages, o.to.0)).collect();
            assert_eq!(ranges, [(6, 2, 0), (9, 1, 0), (511, 1, 0), (512, 1, 0)]);
            assert_eq!(evaluations.paused_until_ns(), now + 2 + pause);
        }
    }

    /// Streams show this: more accesses are in flight at a time, and each takes as long.
    #[test]
    fn what_lets_the_program_make_more_accesses_stays() {
        for (faster, undone) in [(1.05, 1), (1.2, 0)] {
            let mut evaluations = Evaluations::new();
            let accesses = [One::new(Page(1), 0, 1, Some(100)); 50];
            let rolled_back = |evaluations: &mut Evaluations, rate, now| {
                evaluations
                    .evaluate(&NODES, &accesses, |_| Cost::of(1.0, 100.0), Some(rate), now)
                    .len()
            };
            assert_eq!(rolled_back(&mut evaluations, 1000.0, 0), 0);
            evaluations.begin(&[moved(1)], before(), false, 0);
            let rate = 1000.0 * faster;
            assert_eq!([1, 2].map(|now| rolled_back(&mut evaluations, rate, now)), [0, undone]);
            assert!(evaluations.open.is_empty());
        }
    }

    #[test]
    fn what_is_spread_is_evaluated_when_the_last_of_it_is() {
        let (mut evaluations, second) = (Evaluations::new(), 1_000_000_000);
        evaluations.begin(&[moved(1)], before(), true, 0);
        for now in 1..=3 {
            assert_eq!(evaluate(&mut evaluations, 1, 50, 200, now * second), []);
            evaluations.begin(&[moved(1 + now)], before(), true, now * second);
        }
        for now in 4..=5 {
            assert_eq!(evaluate(&mut evaluations, 1, 50, 50, now * second), []);
        }
        assert_eq!((evaluations.open.len(), evaluations.paused_until_ns()), (0, 0));
    }

    #[test]
    fn the_last_moves_of_a_series_need_not_help_by_themselves() {
        let mut evaluations = Evaluations::new();
        evaluations.begin(&[moved(1), moved(2)], before(), true, 0);
        // The queue is gone by then: 50 accesses of 55 ns each.
        evaluations.begin(&[moved(3)], Cost { accesses: 50.0, ns: 2750.0 }, true, 1);
        for now in 2..=3 {
            assert_eq!(evaluate(&mut evaluations, 3, 50, 55, now), []);
        }
        assert_eq!((evaluations.open.len(), evaluations.paused_until_ns()), (0, 0));
    }

    #[test]
    fn a_series_without_end_is_evaluated_all_the_same() {
        let mut evaluations = Evaluations::new();
        evaluations.begin(&[moved(1)], before(), true, 0);
        let mut now = LONGEST_SERIES_NS - 1;
        for undone in [0, 1] {
            evaluations.begin(&[moved(2)], before(), true, now);
            now += 1;
            assert_eq!(evaluate(&mut evaluations, 1, 50, 200, now).len(), undone);
        }
    }

    #[test]
    fn pages_that_are_elsewhere_again_are_not_evaluate() {
        let mut evaluations = Evaluations::new();
        evaluations.begin(&[moved(1), moved(2)], before(), false, 0);
        let at = |page, home| One::new(Page(page), 0, home, Some(2000));
        let accesses = [vec![at(1, 0); 60], vec![at(2, 1); 40]].concat();
        assert_eq!(evaluations.evaluate(&NODES, &accesses, |_| Cost::of(1.0, 2000.0), None, 1), []);
        assert!(evaluations.open.is_empty() && evaluations.paused_until_ns() == 0);
        assert_eq!(
            (evaluations.take_short_lived(), evaluations.take_short_lived()),
            (vec![Region(0)], vec![])
        );
    }

    #[test]
    fn pages_that_nobody_uses_are_not_evaluate() {
        let mut evaluations = Evaluations::new();
        evaluations.begin(&[moved(1)], before(), false, 0);
        assert_eq!(evaluate(&mut evaluations, 2, 500, 2000, 1), []);
        assert_eq!(evaluations.open.len(), 1);
        assert_eq!(evaluate(&mut evaluations, 1, 0, 0, COOLDOWN_NS + 1), []);
        assert!(evaluations.open.is_empty());
    }
}

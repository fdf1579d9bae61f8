//! Finds regions that have no owner although each of their pages has one: threads use neighbouring
//! pages without sharing them.
//!
//! A single page seldom has enough evidence. All pages of a region together show how often two
//! accesses to one page come from the same node. If that is almost always so, a single access shows
//! the owner of a page.
//!
//! ```text
//!  page       0     1     2     3
//!  accesses   aa    b     cc    bb      3 pairs agree of 3; the region: 2 a, 3 b, 2 c
//! ```
//!
//! Source: Gaud et al., "Large Pages May Be Harmful on NUMA Systems", USENIX ATC 2014
//! (Carrefour-LP): huge pages are split when their base pages would be local by themselves, by
//! samples, and when that brings 5 %.

use super::access::One;
use super::owner::wilson_lower;
use super::simd_sums::sum;
use crate::nodes::Nodes;

/// Share of pairs that must agree, at the bound of the confidence interval.
const LEAST_AGREEING: f64 = 0.8;
/// Share of the time lost that splitting a huge page must save.
const LEAST_SAVED: f64 = 0.05;
/// Additional cost of an access through base pages: their TLB entries cover less memory, and the
/// last entry of the page table comes from the shared cache.
const PAGE_WALK_NS: f64 = 30.0;

/// Pairs of accesses to one page.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreement {
    pairs: f64,
    agreeing: f64,
}

impl Agreement {
    /// Adds a page by its counts, one for each node. A page weighs as many pairs as it has accesses
    /// beyond the first, so a hot page does not dominate the others.
    pub fn add(&mut self, counts: &[f32]) {
        let all = sum(counts);
        let pairs = f64::from(all) - 1.0;
        if pairs <= 0.5 {
            return;
        }
        let of = |count: f64| count * (count - 1.0).max(0.0);
        let agreeing: f64 = counts.iter().map(|count| of(f64::from(*count))).sum();
        self.pairs += pairs;
        self.agreeing += agreeing / f64::from(all);
    }

    /// Whether each page has an owner.
    pub fn holds(self) -> bool {
        wilson_lower(self.agreeing, self.pairs) > LEAST_AGREEING
    }

    /// Whether pages certainly do not have one owner each. With few pairs neither is known.
    pub fn fails(self) -> bool {
        wilson_lower(self.pairs - self.agreeing, self.pairs) > 1.0 - LEAST_AGREEING
    }

    /// Mean nanoseconds that each access to a huge page saves if the page is split and its base
    /// pages go to their users, from the accesses of an interval and the present cost of each.
    /// `None` if splitting is not worth it.
    pub fn saved_ns(
        self,
        nodes: &Nodes,
        accesses: &[One],
        cost: impl Fn(&One) -> f64,
    ) -> Option<f64> {
        let count = accesses.len() as f64;
        let local = |one: &One| nodes.latency_ns(one.from(), one.from());
        let now_ns = accesses.iter().map(cost).sum::<f64>() / count;
        let local_ns = accesses.iter().map(local).sum::<f64>() / count;
        let share = wilson_lower(self.agreeing, self.pairs);
        let saved_ns = share * (now_ns - local_ns) - PAGE_WALK_NS;
        (self.holds() && saved_ns > now_ns * LEAST_SAVED).then_some(saved_ns)
    }
}

/// The node that almost all accesses to a page came from, if there is one.
pub fn sole_node(counts: &[f32]) -> Option<u16> {
    let all = sum(counts);
    let (user, most) = (0u16..).zip(counts).max_by(|a, b| a.1.total_cmp(b.1))?;
    (all > 0.0 && f64::from(*most) >= LEAST_AGREEING * f64::from(all)).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_by_hand() {
        let mut own = Agreement::default();
        for _ in 0..20 {
            own.add(&[2.0, 0.0]);
            own.add(&[0.0, 1.0]);
        }
        assert_eq!((own.pairs, own.agreeing), (20.0, 20.0));
        assert!(own.holds() && !own.fails());
        let mut shared = Agreement::default();
        (0..1000).for_each(|_| shared.add(&[2.0, 2.0]));
        // 2 of the 6 pairs of 4 accesses agree.
        assert!((shared.agreeing / shared.pairs - 1.0 / 3.0).abs() < 1e-9, "{shared:?}");
        assert!(!shared.holds() && shared.fails());
        let none = Agreement::default();
        assert!(!none.holds() && !none.fails());
    }

    #[test]
    fn who_has_almost_all_is_the_sole_user() {
        assert_eq!(sole_node(&[0.0, 0.3, 0.0]), Some(1));
        assert_eq!(sole_node(&[1.0, 0.1]), Some(0));
        assert_eq!(sole_node(&[0.1, 0.3]), None);
        assert_eq!(sole_node(&[0.0, 0.0]), None);
        assert_eq!(sole_node(&[]), None);
    }
}

//! Allows one order per page and cooldown: a page that was moved stays for a while, right or wrong,
//! so that no page is moved back and forth.

use super::counts::LONG_NS;
use super::sorted::seek;
use crate::decision::Order;
use crate::evidence::{Page, Region};

/// How long a moved page stays.
pub const COOLDOWN_NS: u64 = LONG_NS;

#[derive(Clone, Copy, Debug, Default)]
struct Barred {
    /// End of the cooldown of the region as a whole.
    whole_ns: u64,
    /// End of the last cooldown of any of its pages.
    any_ns: u64,
}

/// Pages and regions that may not be moved yet, in order. It holds only what was ordered within a
/// cooldown, which the token bucket bounds.
#[derive(Clone, Debug, Default)]
pub struct MigrationCooldown {
    pages: Vec<(Page, u64)>,
    regions: Vec<(Region, Barred)>,
    pruned_ns: u64,
}

/// Positions of a search: queried pages and regions must ascend.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pages: usize,
    regions: usize,
}

impl MigrationCooldown {
    fn region(&self, asked: &mut Asked, region: Region) -> Barred {
        let found = seek(&self.regions, &mut asked.regions, &region, |row| &row.0);
        if found { self.regions[asked.regions].1 } else { Barred::default() }
    }

    /// Whether a page may be moved.
    pub fn allows_page(&self, asked: &mut Asked, page: Page, now_ns: u64) -> bool {
        let free = self.region(asked, page.region()).whole_ns <= now_ns;
        let barred = seek(&self.pages, &mut asked.pages, &page, |row| &row.0);
        free && !(barred && now_ns < self.pages[asked.pages].1)
    }

    /// Whether all of a region may be moved.
    pub fn allows_region(&self, asked: &mut Asked, region: Region, now_ns: u64) -> bool {
        let barred = self.region(asked, region);
        now_ns >= barred.whole_ns.max(barred.any_ns)
    }

    /// Begins the cooldown of pages that were ordered to move.
    pub fn begin(&mut self, orders: &[Order], until_ns: u64) {
        if orders.is_empty() {
            return;
        }
        for order in orders {
            let (whole_ns, any_ns) = if order.is_whole() { (until_ns, 0) } else { (0, until_ns) };
            self.regions.push((order.start.region(), Barred { whole_ns, any_ns }));
            if !order.is_whole() {
                self.pages.extend(order.each().map(|page| (page, until_ns)));
            }
        }
        merge(&mut self.pages, |kept, new| *kept = (*kept).max(new));
        merge(&mut self.regions, |kept, new| {
            kept.whole_ns = kept.whole_ns.max(new.whole_ns);
            kept.any_ns = kept.any_ns.max(new.any_ns);
        });
    }

    /// Drops pages and regions that may be moved again.
    pub fn prune(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.pruned_ns) >= COOLDOWN_NS / 10 {
            self.pruned_ns = now_ns;
            self.pages.retain(|(_, until)| now_ns < *until);
            self.regions.retain(|(_, b)| now_ns < b.whole_ns.max(b.any_ns));
        }
    }
}

/// Sorts rows and merges those with the same key.
fn merge<K: Ord, V: Copy>(rows: &mut Vec<(K, V)>, one: impl Fn(&mut V, V)) {
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows.dedup_by(|new, kept| {
        let same = new.0 == kept.0;
        if same {
            one(&mut kept.1, new.1);
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use numapilot_topology::NodeId;

    use super::*;
    use crate::decision::Why;

    fn order(start: Page, pages: u32) -> Order {
        Order { start, pages, to: NodeId(0), why: Why::Collocate }
    }

    #[test]
    fn pages_and_regions_bar_each_other() {
        let mut cooldown = MigrationCooldown::default();
        let (region, page) = (Region(3), Region(3).start());
        let next = Page(page.0 + 1);
        cooldown.begin(&[order(page, 1)], 10);
        let allows = |cooldown: &MigrationCooldown, page, now| {
            cooldown.allows_page(&mut Asked::default(), page, now)
        };
        let all = |cooldown: &MigrationCooldown, now| {
            cooldown.allows_region(&mut Asked::default(), region, now)
        };
        assert!(!allows(&cooldown, page, 9) && allows(&cooldown, page, 10));
        assert!(!all(&cooldown, 9) && all(&cooldown, 10));
        assert!(allows(&cooldown, next, 0));
        cooldown.begin(&[order(page, Region::PAGES), order(page, 1)], 20);
        assert!(!allows(&cooldown, next, 19) && !allows(&cooldown, page, 19));
        cooldown.prune(COOLDOWN_NS);
        assert!(cooldown.pages.is_empty() && cooldown.regions.is_empty());
    }
}

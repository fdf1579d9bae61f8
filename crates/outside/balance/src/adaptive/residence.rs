//! One order for a page in every residence: what was moved stays for a while, right or wrong,
//! so that no page is carried to and fro.

use super::counts::{LONG_NS, PageMap};
use crate::evidence::{Page, Region};

/// How long a page stays where it was moved to.
pub const RESIDENCE_NS: u64 = LONG_NS;

#[derive(Clone, Copy, Debug, Default)]
struct Barred {
    /// Until when the region as a whole has been moved.
    whole_ns: u64,
    /// Until when one of its pages has.
    any_ns: u64,
}

/// What may not be moved yet. It holds what was ordered within a residence and no more,
/// which the token bucket bounds.
#[derive(Clone, Debug, Default)]
pub struct Residence {
    pages: PageMap<Page, u64>,
    regions: PageMap<Region, Barred>,
    pruned_ns: u64,
}

impl Residence {
    /// Whether a page may be moved.
    pub fn allows_page(&self, page: Page, now_ns: u64) -> bool {
        let whole = self.regions.get(&page.region()).map_or(0, |barred| barred.whole_ns);
        now_ns >= whole && self.pages.get(&page).is_none_or(|until| now_ns >= *until)
    }

    /// Whether all of a region may be moved.
    pub fn allows_region(&self, region: Region, now_ns: u64) -> bool {
        self.regions.get(&region).is_none_or(|b| now_ns >= b.whole_ns.max(b.any_ns))
    }

    /// A page was ordered to move, and stays until then.
    pub fn bar_page(&mut self, page: Page, until_ns: u64) {
        let until = self.pages.entry(page).or_default();
        *until = (*until).max(until_ns);
        let barred = self.regions.entry(page.region()).or_default();
        barred.any_ns = barred.any_ns.max(until_ns);
    }

    /// A region was ordered to move, and stays until then.
    pub fn bar_region(&mut self, region: Region, until_ns: u64) {
        let barred = self.regions.entry(region).or_default();
        barred.whole_ns = barred.whole_ns.max(until_ns);
    }

    /// Forgets what may be moved again.
    pub fn prune(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.pruned_ns) >= RESIDENCE_NS / 10 {
            self.pruned_ns = now_ns;
            self.pages.retain(|_, until| now_ns < *until);
            self.regions.retain(|_, b| now_ns < b.whole_ns.max(b.any_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_regions_bar_each_other() {
        let mut residence = Residence::default();
        let (region, page) = (Region(3), Region(3).start());
        residence.bar_page(page, 10);
        assert!(!residence.allows_page(page, 9) && residence.allows_page(page, 10));
        assert!(!residence.allows_region(region, 9) && residence.allows_region(region, 10));
        assert!(residence.allows_page(Page(page.0 + 1), 0));
        residence.bar_region(region, 20);
        assert!(!residence.allows_page(Page(page.0 + 1), 19));
        residence.prune(RESIDENCE_NS);
        assert!(residence.pages.is_empty() && residence.regions.is_empty());
    }
}

//! What is moved as one: a page, or a region of 2 MiB when it is a huge page or when its
//! evidence speaks for all of it.

use super::Adaptive;
use super::owner::owner;
use crate::evidence::{Access, Page, Region};
use crate::nodes::Nodes;

/// Pages that were accessed and what they should do.
#[derive(Clone, Debug)]
pub struct Unit {
    pub start: Page,
    pub pages: u32,
    /// Whose it is; `None` for what several share.
    pub owner: Option<usize>,
    /// Accesses of the interval, by node and home.
    pub uses: Vec<Use>,
    /// Of shared pages, the same as it is to be expected from now on.
    pub expected: Option<Vec<Use>>,
    /// When it was first seen.
    pub born_ns: u64,
}

/// Accesses from one node to the memory of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    pub from: usize,
    pub home: usize,
    pub count: f64,
}

impl Unit {
    fn add(uses: &mut Vec<Use>, from: usize, home: usize) {
        match uses.iter_mut().find(|u| (u.from, u.home) == (from, home)) {
            Some(found) => found.count += 1.0,
            None => uses.push(Use { from, home, count: 1.0 }),
        }
    }

    fn merge(pages: &[Seen]) -> Vec<Use> {
        let mut uses: Vec<Use> = Vec::new();
        for one in pages.iter().flat_map(|page| &page.uses) {
            match uses.iter_mut().find(|u| (u.from, u.home) == (one.from, one.home)) {
                Some(found) => found.count += one.count,
                None => uses.push(*one),
            }
        }
        uses
    }

    /// Accesses.
    pub fn count(&self) -> f64 {
        self.uses.iter().map(|u| u.count).sum()
    }

    /// Whether it moves as a region.
    pub const fn is_region(&self) -> bool {
        self.pages == Region::PAGES
    }
}

/// One page of an interval.
struct Seen {
    page: Page,
    uses: Vec<Use>,
    huge: bool,
}

impl Seen {
    fn count(&self) -> f64 {
        self.uses.iter().map(|u| u.count).sum()
    }
}

/// Divides sorted accesses into units.
pub fn divide(state: &Adaptive, nodes: &Nodes, accesses: &[Access]) -> Vec<Unit> {
    let regions = accesses.chunk_by(|a, b| a.page.region() == b.page.region());
    regions.flat_map(|region| of_region(state, nodes, region)).collect()
}

fn of_region(state: &Adaptive, nodes: &Nodes, accesses: &[Access]) -> Vec<Unit> {
    let pages: Vec<Seen> = accesses
        .chunk_by(|a, b| a.page == b.page)
        .map(|same| {
            let mut uses = Vec::with_capacity(1);
            for access in same {
                if let (Some(from), Some(home)) =
                    (nodes.position(access.from), nodes.position(access.home))
                {
                    Unit::add(&mut uses, from, home);
                }
            }
            Seen { page: same[0].page, uses, huge: same.iter().any(|access| access.huge) }
        })
        .collect();
    let region = accesses[0].page.region();
    let known = state.regions.get(region);
    let region_known = known;
    let owned = known.and_then(|known| settled(known.short, known.long));
    let whole = |owner| Unit {
        start: region.start(),
        pages: Region::PAGES,
        owner,
        uses: Unit::merge(&pages),
        expected: None,
        born_ns: known.map_or(u64::MAX, |known| known.born_ns),
    };
    let huge = pages.iter().any(|page| page.huge);
    if huge || owned.is_some() && state.reaches_beyond(&pages_seen(&pages)) {
        return vec![whole(owned)];
    }
    pages
        .into_iter()
        .filter_map(|page| {
            let known = state.pages.get(page.page)?;
            let own = settled(known.short, known.long);
            // What a page has shown itself counts for more than what its region has.
            let owner = own.or(owned.filter(|_| owner(known.long).is_none()));
            let (start, born_ns) = (page.page, known.born_ns);
            let region = region_known.filter(|_| owner.is_none());
            let expected = region.map(|region| expected(&page, known.long, region.long));
            Some(Unit { start, pages: 1, owner, uses: page.uses, expected, born_ns })
        })
        .collect()
}

/// Who will use a shared page: what an interval has seen of one page is too little to tell, so
/// its lasting counts speak, and those of its region with the weight of a few samples.
fn expected(page: &Seen, long: &[f32], region: &[f32]) -> Vec<Use> {
    const REGION_WEIGHT: f64 = 2.0;
    let Some(home) = page.uses.last().map(|last| last.home) else { return Vec::new() };
    let sum = |counts: &[f32]| counts.iter().copied().map(f64::from).sum::<f64>();
    let (own, whole) = (sum(long), sum(region).max(f64::MIN_POSITIVE));
    let share = |from: usize| {
        (f64::from(long[from]) + REGION_WEIGHT * f64::from(region[from]) / whole)
            / (own + REGION_WEIGHT)
    };
    (0..long.len())
        .map(|from| Use { from, home, count: page.count() * share(from) })
        .filter(|one| one.count > 0.0)
        .collect()
}

/// The owner by what lasts, unless it is another's now.
fn settled(short: &[f32], long: &[f32]) -> Option<usize> {
    let owner = owner(long)?;
    let now = short.iter().copied().fold(0.0, f32::max);
    (short[owner] >= now).then_some(owner)
}

/// How often each of the pages was seen.
fn pages_seen(pages: &[Seen]) -> Vec<f64> {
    pages.iter().map(Seen::count).collect()
}

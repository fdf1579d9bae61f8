//! Divides the accesses of an interval into migration units.

use super::Adaptive;
use super::access::One;
use super::accesses::Accesses;
use super::agreement::{Agreement, sole_node};
use super::counts::{AHEAD, NO_ROOM};
use super::fork_join::{MANY, fork_join, middle};
use super::migration_cooldown::{Asked, COOLDOWN_NS};
use super::migration_unit::MigrationUnit;
use super::owner::owner;
use super::sorted::seek;
use super::weight::Weights;
use crate::evidence::Region;
use crate::nodes::Nodes;

/// A region in which one page in so many belongs to another node than the owner moves as pages.
const MOST_OF_OTHERS: usize = 16;

/// Divides accesses into units, in order. `cost` is the cost of one access in nanoseconds.
pub fn divide(
    state: &Adaptive,
    nodes: &Nodes,
    accesses: &mut Accesses,
    cost: impl Fn(&One) -> f64 + Sync,
    now_ns: u64,
) {
    let all = &accesses.all;
    let is_same = |a: &One, b: &One| a.page.region() == b.page.region();
    let many = all.len() >= MANY;
    // A few accesses are one part, because units made by another thread have to be copied.
    let middle = if many { middle(all, is_same) } else { all.len() };
    let mut units = std::mem::take(&mut accesses.units);
    units.clear();
    let part = |mut units: Vec<MigrationUnit>, part: std::ops::Range<usize>| {
        units.reserve(part.len());
        let mut divider = Divider::new(state, nodes, accesses, units, &cost, now_ns);
        let mut first = part.start;
        for region in all[part].chunk_by(is_same) {
            divider.region(region, first);
            first += region.len();
        }
        divider.units
    };
    let (mut units, more) =
        fork_join(many, || part(units, 0..middle), || part(Vec::new(), middle..all.len()));
    units.extend(more);
    accesses.units = units;
}

/// The positions in all ordered inputs.
struct Divider<'a, C> {
    state: &'a Adaptive,
    nodes: &'a Nodes,
    cost: C,
    huge: &'a [Region],
    now_ns: u64,
    units: Vec<MigrationUnit>,
    /// The slot of the page of each access.
    slots: &'a [u32],
    huge_at: usize,
    regions_at: usize,
    asked: Asked,
}

impl<'a, C: Fn(&One) -> f64> Divider<'a, C> {
    fn new(
        state: &'a Adaptive,
        nodes: &'a Nodes,
        accesses: &'a Accesses,
        units: Vec<MigrationUnit>,
        cost: C,
        now_ns: u64,
    ) -> Self {
        Self {
            state,
            nodes,
            cost,
            huge: &accesses.huge,
            now_ns,
            units,
            slots: &accesses.slots,
            huge_at: 0,
            regions_at: 0,
            asked: Asked::default(),
        }
    }

    /// The units of a region; its accesses begin at `first`.
    fn region(&mut self, accesses: &[One], first: usize) {
        let state = self.state;
        let region = accesses[0].page.region();
        let huge = seek(self.huge, &mut self.huge_at, &region, |region| region);
        // Regions for which a full table had no room are not judged.
        let Some(slot) = state.regions.find(&mut self.regions_at, region) else { return };
        let known = state.regions.known(slot);
        let owned = settled(known.short, owner(known.long));
        if !huge {
            let begun = self.units.len();
            self.pages(accesses, first, (slot, owned));
            if owned.is_none() || !state.reaches_beyond(accesses) || self.divided(begun, owned) {
                return;
            }
            self.units.truncate(begun);
        }
        let movable = state.cooldown.allows_region(&mut self.asked, region, self.now_ns);
        // A huge page that was not split when it should have been is moved as a whole.
        if huge && movable && state.can_split {
            let begun = self.units.len();
            let agreement = self.pages(accesses, first, (slot, None));
            let lasted_ns = self.now_ns.saturating_sub(known.born_ns).min(COOLDOWN_NS);
            // If one node owns most of it, compare with a move of the whole page to that node.
            let cost = |one: &One| match owned.map(usize::from) {
                Some(owner) if owner == one.from() || owner != one.home() => {
                    self.nodes.latency_ns(one.from(), owner)
                }
                _ => (self.cost)(one),
            };
            let saved_ns = agreement.saved_ns(self.nodes, accesses, cost);
            let price_ns = f64::from(Region::PAGES) * state.page_move_ns;
            let worth = saved_ns.is_some_and(|saved_ns| {
                let accesses = accesses.len() as f64 * state.rate * lasted_ns as f64 / 1e9;
                accesses * saved_ns > price_ns
            });
            if worth {
                self.units[begun..].iter_mut().for_each(|unit| unit.splits = true);
                return;
            }
            self.units.truncate(begun);
        }
        self.units.push(MigrationUnit {
            start: region.start(),
            first: position(first),
            end: position(first + accesses.len()),
            page: None,
            region: slot,
            owner: owned,
            weight: accesses.len() as f32,
            movable,
            splits: false,
        });
    }

    /// Whether so many of the pages from `begun` belong to other nodes than the owner of their
    /// region that it must not move as one unit. The owner then only makes most of the accesses,
    /// for example because its pages are near.
    fn divided(&self, begun: usize, owned: Option<u16>) -> bool {
        let pages = &self.units[begun..];
        let others = pages.iter().filter(|unit| unit.owner.is_some() && unit.owner != owned);
        others.count() > pages.len() / MOST_OF_OTHERS
    }

    /// Makes a unit of each page of a region. Returns whether each page has an owner.
    fn pages(
        &mut self,
        accesses: &[One],
        first: usize,
        (region, owned): (u32, Option<u16>),
    ) -> Agreement {
        let state = self.state;
        let counts = accesses.chunk_by(|a, b| a.page == b.page).map(|same| position(same.len()));
        // A hint fault shows that a page is used, and not how often.
        let weights = state.random.then(|| Weights::of(counts));
        let region_born_ns = state.regions.known(region).born_ns;
        let (begun, mut at) = (self.units.len(), position(first));
        let mut agreement = Agreement::default();
        for same in accesses.chunk_by(|a, b| a.page == b.page) {
            let (first, start) = (at, same[0].page);
            at += position(same.len());
            if let Some(soon) = self.slots.get(first as usize + AHEAD) {
                state.pages.prepare(*soon);
            }
            let page = self.slots[first as usize];
            if page == NO_ROOM {
                continue;
            }
            let known = state.pages.known(page);
            let lasting = owner(known.long);
            let owner = settled(known.short, lasting);
            agreement.add(known.long);
            let movable = known.born_ns.min(region_born_ns) < self.now_ns
                && state.cooldown.allows_page(&mut self.asked, start, self.now_ns);
            let count = position(same.len());
            let weight = weights.map_or(count.into(), |weights| weights.weight(count)) as f32;
            self.units.push(MigrationUnit {
                start,
                first,
                end: at,
                page: Some(page),
                region,
                owner,
                weight,
                movable,
                splits: false,
            });
        }
        let (holds, fails) = (agreement.holds(), agreement.fails());
        if fails && owned.is_none() {
            return agreement;
        }
        for unit in self.units[begun..].iter_mut().filter(|unit| unit.owner.is_none()) {
            let Some(page) = unit.page else { continue };
            let known = state.pages.known(page);
            if holds {
                // The present user decides: the node that filled the page long ago does not count.
                unit.owner = sole_node(known.short);
            }
            if unit.owner.is_some() {
                continue;
            }
            if owned.is_some() {
                // A page's own evidence counts for more than its region's.
                unit.owner = owned.filter(|_| owner(known.long).is_none());
            } else if holds {
                // A page that has an owner who is unknown is not spread.
                unit.movable = false;
            } else {
                // The region does not show whether the page is shared; the page's own accesses
                // must.
                unit.movable &= known.born_ns < self.now_ns;
            }
        }
        agreement
    }
}

/// A position among accesses; there are fewer than 2^32.
fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The owner by lasting counts, unless another node owns it at present.
fn settled(short: &[f32], owner: Option<usize>) -> Option<u16> {
    let owner = owner?;
    let now = short.iter().copied().fold(0.0, f32::max);
    u16::try_from(owner).ok().filter(|_| short[owner] >= now)
}

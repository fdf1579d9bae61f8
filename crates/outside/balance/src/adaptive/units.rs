//! What is moved as one: a page, or a region of 2 MiB when it is a huge page or when its
//! evidence speaks for all of it.

use super::Adaptive;
use super::accesses::{Accesses, One};
use super::owner::owner;
use super::residence::Asked;
use super::sorted::seek;
use super::weight::Weights;
use crate::evidence::{Page, Region};

/// Pages that were accessed and what they should do. There can be a million: it has no memory of
/// its own.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    pub start: Page,
    /// Its accesses among all of the interval.
    first: u32,
    end: u32,
    /// Where its page and its region are counted.
    page: Option<u32>,
    region: u32,
    /// Whose it is; `None` for what several share.
    owner: Option<u16>,
    /// Accesses that are to be expected in an interval like this one.
    pub weight: f32,
    /// Whether it has not been moved lately.
    pub movable: bool,
}

impl Unit {
    /// How many pages it moves.
    pub const fn pages(&self) -> u32 {
        if self.is_region() { Region::PAGES } else { 1 }
    }

    /// Whether it moves as a region.
    pub const fn is_region(&self) -> bool {
        self.page.is_none()
    }

    pub fn owner(&self) -> Option<usize> {
        self.owner.map(usize::from)
    }

    /// Its accesses.
    pub fn of<'a>(&self, accesses: &'a Accesses) -> &'a [One] {
        &accesses.all[self.first as usize..self.end as usize]
    }

    /// Since when it is known.
    pub fn born_ns(&self, state: &Adaptive) -> u64 {
        match self.page {
            Some(page) => state.pages.known(page).born_ns,
            None => state.regions.known(self.region).born_ns,
        }
    }

    /// Counts that last of a shared page and of its region: what an interval has seen of one page
    /// is too little to tell who will use it.
    pub fn lasting<'a>(&self, state: &'a Adaptive) -> Option<(&'a [f32], &'a [f32])> {
        let page = self.page.filter(|_| self.owner.is_none())?;
        Some((state.pages.known(page).long, state.regions.known(self.region).long))
    }
}

/// Divides accesses into units, in order.
pub fn divide(state: &Adaptive, accesses: &Accesses, now_ns: u64) -> Vec<Unit> {
    let mut divider = Divider::new(state, accesses, now_ns);
    let mut first = 0;
    for region in accesses.all.chunk_by(|a, b| a.page.region() == b.page.region()) {
        divider.region(region, first);
        first += region.len();
    }
    divider.units
}

/// How far one has come in everything that is in order.
struct Divider<'a> {
    state: &'a Adaptive,
    huge: &'a [Region],
    now_ns: u64,
    units: Vec<Unit>,
    huge_at: usize,
    regions_at: usize,
    pages_at: usize,
    asked: Asked,
}

impl<'a> Divider<'a> {
    fn new(state: &'a Adaptive, accesses: &'a Accesses, now_ns: u64) -> Self {
        let pages = accesses.all.chunk_by(|a, b| a.page == b.page).count();
        Self {
            state,
            huge: &accesses.huge,
            now_ns,
            units: Vec::with_capacity(pages),
            huge_at: 0,
            regions_at: 0,
            pages_at: 0,
            asked: Asked::default(),
        }
    }

    /// The units of a region; its accesses begin at `first`.
    fn region(&mut self, accesses: &[One], first: usize) {
        let state = self.state;
        let region = accesses[0].page.region();
        let huge = seek(self.huge, &mut self.huge_at, &region, |region| region);
        // What a full table had no room for is not judged.
        let Some(slot) = state.regions.find(&mut self.regions_at, region) else { return };
        let known = state.regions.known(slot);
        let owned = settled(known.short, owner(known.long));
        let (first, end) = (position(first), position(first + accesses.len()));
        if huge || owned.is_some() && state.reaches_beyond(accesses) {
            let movable = state.residence.allows_region(&mut self.asked, region, self.now_ns);
            let start = region.start();
            self.units.push(Unit {
                start,
                first,
                end,
                page: None,
                region: slot,
                owner: owned,
                weight: accesses.len() as f32,
                movable,
            });
            return;
        }
        let counts = accesses.chunk_by(|a, b| a.page == b.page).map(|same| position(same.len()));
        // A hint fault says that a page is used and not how often.
        let weights = state.random.then(|| Weights::of(counts));
        let mut at = first;
        for same in accesses.chunk_by(|a, b| a.page == b.page) {
            let (first, start) = (at, same[0].page);
            at += position(same.len());
            let Some(page) = state.pages.find(&mut self.pages_at, start) else { continue };
            let known = state.pages.known(page);
            let lasting = owner(known.long);
            let own = settled(known.short, lasting);
            // What a page has shown itself counts for more than what its region has.
            let owner = own.or(owned.filter(|_| lasting.is_none()));
            let movable = state.residence.allows_page(&mut self.asked, start, self.now_ns);
            let count = position(same.len());
            let weight = weights.map_or(count.into(), |weights| weights.weight(count)) as f32;
            self.units.push(Unit {
                start,
                first,
                end: at,
                page: Some(page),
                region: slot,
                owner,
                weight,
                movable,
            });
        }
    }
}

/// A position among accesses, of which there are fewer than 2^32.
fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The owner by what lasts, unless it is another's now.
fn settled(short: &[f32], owner: Option<usize>) -> Option<u16> {
    let owner = owner?;
    let now = short.iter().copied().fold(0.0, f32::max);
    u16::try_from(owner).ok().filter(|_| short[owner] >= now)
}

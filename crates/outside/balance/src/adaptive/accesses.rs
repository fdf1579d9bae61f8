//! The accesses of an interval in a compact form, in order of pages: there can be a million. Their
//! memory is kept between intervals, because allocating it again takes a sixth of a decision's
//! time.

use super::access::{One, WRITE, Waiting};
use super::convoy::Convoy;
use super::migration_unit::MigrationUnit;
use super::sorted::sort_by_number;
use crate::evidence::{Evidence, Region};
use crate::nodes::Nodes;

/// All accesses of an interval.
#[derive(Clone, Debug, Default)]
pub struct Accesses {
    /// The accesses, in order of pages.
    pub all: Vec<One>,
    pub waiting: Waiting,
    /// Detects convoys, in the order in which accesses came.
    pub convoy: Convoy,
    /// Regions that are huge pages, in order.
    pub huge: Vec<Region>,
    /// The slot of the counts of each access's page, or [`super::counts::NO_ROOM`].
    pub slots: Vec<u32>,
    /// The migration units, in order.
    pub units: Vec<MigrationUnit>,
    /// Scratch space for sorting.
    room: Vec<One>,
}

impl Accesses {
    /// The accesses of a unit.
    pub fn of(&self, unit: &MigrationUnit) -> &[One] {
        &self.all[unit.first as usize..unit.end as usize]
    }

    /// Replaces the accesses with those of an interval, between known nodes.
    pub fn collect(&mut self, evidence: &Evidence, nodes: &Nodes) {
        let position = |id| u16::try_from(nodes.position(id)?).ok().filter(|at| *at < WRITE);
        self.all.clear();
        self.huge.clear();
        self.convoy.begin(nodes.len());
        self.all.reserve(evidence.accesses.len());
        let mut stores = 0;
        for access in &evidence.accesses {
            let (Some(from), Some(home)) = (position(access.from), position(access.home)) else {
                continue;
            };
            let one = One::new(access.page, from, home, access.latency_ns);
            self.all.push(one.writing(access.write));
            self.convoy.observe_access(from.into(), home.into(), access);
            stores += usize::from(access.write);
            let region = access.page.region();
            if access.huge && self.huge.last() != Some(&region) {
                self.huge.push(region);
            }
        }
        self.waiting = Waiting::among(stores, self.all.len());
        sort_by_number(&mut self.all, &mut self.room, |one| one.page.0);
        self.huge.sort_unstable();
        self.huge.dedup();
    }
}

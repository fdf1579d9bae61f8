//! The running system: records on disk, and targets that are processes.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

use numapilot_observe::Tree;
use numapilot_topology::{CpuSet, Machine, NodeId};

use super::system::{System, Target};
use crate::CoresError;
use crate::actuator::{Hold, Notes, Way};
use crate::cached_proc_file::Watch;
use crate::decide::Load;
use crate::meter::Meter;
use crate::pace::{OFTEN, Pace, RARELY, SELDOM};
use crate::record::{Claim, Records};

/// The running system.
#[derive(Debug)]
pub struct Linux {
    records: Records,
    /// CPUs of other daemons, and when the records last changed.
    others: (Option<SystemTime>, CpuSet),
}

/// A target with the way to hold it.
#[derive(Debug)]
pub struct Plan {
    root: i32,
    tree: Tree,
    hold: Hold,
}

/// A target that consists of processes.
#[derive(Debug)]
pub struct Held {
    root: i32,
    tree: Tree,
    look: Pace,
    meter: Meter,
    hold: Hold,
    /// `None` in a dry run.
    claim: Option<Claim>,
    watch: Watch,
    /// Whether the CPUs that it may use have changed in this tick.
    disturbed: bool,
    use_look: Pace,
    pinned: usize,
    pin_look: Pace,
}

impl Linux {
    /// The running system with the records of this user.
    ///
    /// # Errors
    /// Fails if there is no place for records.
    pub fn new() -> Result<Self, CoresError> {
        Ok(Self { records: Records::system()?, others: Default::default() })
    }
}

impl System for Linux {
    type Tree = Tree;
    type Plan = Plan;
    type Target = Held;

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn machine(&self) -> Result<Machine, CoresError> {
        numapilot_topology::read("/".as_ref())
            .map_err(|error| CoresError::Machine(error.to_string()))
    }

    fn cpus_of_others(&mut self) -> Result<CpuSet, CoresError> {
        let changed = self.records.changed();
        if changed.is_none() || changed != self.others.0 {
            self.others = (changed, self.records.cpus_of_others()?);
        }
        Ok(self.others.1.clone())
    }

    fn contains(tree: &Tree, pid: i32) -> bool {
        tree.pids().any(|member| member == pid)
    }

    fn plan(
        &mut self,
        root: i32,
        tree: Tree,
        way: Option<Way>,
    ) -> Result<(Plan, CpuSet), CoresError> {
        self.records.make_way(root, &tree)?;
        // A record may be newer than the last one by less than the clock of files shows.
        self.others = Default::default();
        let hold = Hold::plan(root, &tree, way)?;
        let allowed = hold.available()?;
        Ok((Plan { root, tree, hold }, allowed))
    }

    fn hold(&mut self, plan: Plan, first: &CpuSet, dry_run: bool) -> Result<Held, CoresError> {
        let Plan { root, tree, hold: plan } = plan;
        let (hold, claim) = if dry_run {
            (plan, None)
        } else {
            let claim = self.records.claim(root, &tree, plan, first)?;
            self.others = Default::default();
            if let Err(error) = claim.record.hold.begin(&tree) {
                // Put back what was made; the first error is the one that matters.
                let _ = claim.release();
                return Err(error);
            }
            (claim.record.hold.clone(), Some(claim))
        };
        Ok(Held {
            root,
            look: Pace::of(SELDOM),
            meter: Meter::new(&tree, hold.accounts().as_deref()),
            watch: Watch::of(&hold.watched(root)),
            disturbed: true,
            hold,
            claim,
            use_look: Pace::of(OFTEN),
            pinned: 0,
            pin_look: Pace::of(RARELY),
            tree,
        })
    }
}

impl Target for Held {
    fn contains(&self, pid: i32) -> bool {
        Linux::contains(&self.tree, pid)
    }

    fn held_by(&self) -> String {
        self.hold.describe()
    }

    fn traffic(&self) -> Result<&'static str, String> {
        self.meter.traffic().source().map_err(str::to_owned)
    }

    fn has_ended(&mut self) -> bool {
        let (tree, meter) = (&mut self.tree, &mut self.meter);
        self.look.when_due(|| meter.find_newcomers(tree)).is_some() && !tree.runs()
    }

    fn changed_cpus(&mut self) -> Result<Option<CpuSet>, CoresError> {
        self.disturbed = self.watch.has_changed();
        self.disturbed.then(|| self.hold.available()).transpose()
    }

    fn load(&mut self, cpus: usize) -> Load {
        self.meter.read(&self.tree, cpus)
    }

    fn node_bytes(&mut self) -> Option<BTreeMap<NodeId, u64>> {
        self.use_look.when_due(|| self.tree.node_bytes())?.ok()
    }

    fn set(&mut self, from: &CpuSet, to: &CpuSet) -> Result<(), CoresError> {
        let Some(claim) = &mut self.claim else { return Ok(()) };
        // During the change both sets count as taken: no other daemon may take a core that is not
        // free yet, or no longer free.
        self.hold.announce(to, &self.tree);
        claim.record.hold = self.hold.clone();
        claim.record.cpus = from.union(to);
        claim.save()?;
        let pinned = self.hold.set(self.root, to, &self.tree)?;
        if matches!(self.hold, Hold::Affinity(_)) {
            self.pinned = pinned;
        }
        if claim.record.cpus != *to {
            claim.record.cpus = to.clone();
            claim.save()?;
        }
        Ok(())
    }

    fn keep(&mut self, cpus: &CpuSet) -> Result<(), CoresError> {
        let Some(claim) = &mut self.claim else { return Ok(()) };
        if self.hold.is_behind(&self.tree) {
            self.hold.take_in(&self.tree);
            claim.record.hold = self.hold.clone();
            claim.save()?;
        }
        if self.disturbed {
            self.hold.keep(self.root, cpus, &self.tree)?;
        }
        if !cpus.is_empty()
            && let Some(count) =
                self.pin_look.when_due(|| self.hold.place_new_threads(cpus, &self.tree))
        {
            self.pinned = count?;
        }
        Ok(())
    }

    fn pinned(&self) -> usize {
        self.pinned
    }

    fn release(mut self) -> Result<Notes, CoresError> {
        self.tree.refresh();
        self.hold.take_in(&self.tree);
        let Some(mut claim) = self.claim else { return Ok(Notes::new()) };
        claim.record.hold = self.hold;
        claim.release()
    }
}

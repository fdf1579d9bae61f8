//! What the daemon needs of the system: a clock, the records, and targets to measure and to hold.

use std::collections::BTreeMap;
use std::time::Instant;

use numapilot_topology::{CpuSet, Machine, NodeId};

use crate::CoresError;
use crate::actuator::{Notes, Way};
use crate::decide::Load;

/// The system that a daemon runs on: Linux, or a simulated one in tests.
pub trait System {
    /// The processes of a target.
    type Tree;
    /// The way to hold a target, before anything is changed.
    type Plan;
    /// A target that is held.
    type Target: Target;

    /// The time.
    fn now(&self) -> Instant;

    /// Reads the machine again.
    ///
    /// # Errors
    /// [`CoresError::Machine`].
    fn machine(&self) -> Result<Machine, CoresError>;

    /// CPUs that targets of other daemons have.
    ///
    /// # Errors
    /// Fails if the records cannot be read.
    fn cpus_of_others(&mut self) -> Result<CpuSet, CoresError>;

    /// Whether a process is among these.
    fn contains(tree: &Self::Tree, pid: i32) -> bool;

    /// Chooses a way to hold a target, and finds the CPUs that it may use. Changes nothing.
    ///
    /// # Errors
    /// [`CoresError`]: there is no way, or another daemon has the target.
    fn plan(
        &mut self,
        root: i32,
        tree: Self::Tree,
        way: Option<Way>,
    ) -> Result<(Self::Plan, CpuSet), CoresError>;

    /// Takes hold of a target and of its first CPUs, as far as no other daemon has taken them
    /// meanwhile, unless this is a dry run. Begins to measure it.
    ///
    /// # Errors
    /// [`CoresError`]; nothing is left changed.
    fn hold(
        &mut self,
        plan: Self::Plan,
        first: &CpuSet,
        dry_run: bool,
    ) -> Result<Self::Target, CoresError>;
}

/// A target that is measured, and held on its CPUs.
pub trait Target {
    /// Whether a process belongs to the target.
    fn contains(&self, pid: i32) -> bool;

    /// How it is held, for people.
    fn held_by(&self) -> String;

    /// What counts its memory traffic, or why nothing does.
    ///
    /// # Errors
    /// The reason.
    fn traffic(&self) -> Result<&'static str, String>;

    /// Whether it is known to have ended.
    fn has_ended(&mut self) -> bool;

    /// The CPUs that it may use, if they may have changed since the last call.
    ///
    /// # Errors
    /// [`CoresError`].
    fn changed_cpus(&mut self) -> Result<Option<CpuSet>, CoresError>;

    /// Its load since the last call, on a machine with `cpus` CPUs.
    fn load(&mut self, cpus: usize) -> Load;

    /// Its memory on each node, from time to time.
    fn node_bytes(&mut self) -> Option<BTreeMap<NodeId, u64>>;

    /// Moves it from these CPUs to others. Nothing changes in a dry run.
    ///
    /// # Errors
    /// [`CoresError`].
    fn set(&mut self, from: &CpuSet, to: &CpuSet) -> Result<(), CoresError>;

    /// Sees to it that it stays on its CPUs.
    ///
    /// # Errors
    /// [`CoresError`].
    fn keep(&mut self, cpus: &CpuSet) -> Result<(), CoresError>;

    /// Threads that the program has pinned itself.
    fn pinned(&self) -> usize;

    /// Puts it back as it was. Returns what could not be put back exactly.
    ///
    /// # Errors
    /// [`CoresError`].
    fn release(self) -> Result<Notes, CoresError>;
}

//! Finds the levels that make sense on this machine.

use std::path::Path;

use numapilot_place::huge_pages::Switches;
use numapilot_place::settings_journal::Setting;
use numapilot_place::{
    AllocatorChoice, MemoryMode, MemoryPolicy, NumaBalancing, Thp, ThreadPlacement, allocators,
};
use numapilot_topology::{CpuSet, Machine};

use super::{FactorName, Level};

/// The facts on which the levels depend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Nodes whose CPUs this process may use.
    pub cpu_nodes: usize,
    /// Nodes whose memory this process may use.
    pub memory_nodes: usize,
    /// Names of the allocators that were found.
    pub allocators: Vec<String>,
    /// The most that programs get of transparent huge pages of any size (`always`, `madvise`,
    /// `never`); `None` without THP.
    pub thp: Option<String>,
    /// `kernel.numa_balancing`, bit 0; `None` without AutoNUMA.
    pub numa_balancing: Option<bool>,
}

/// Nodes with CPUs that the program may use.
fn cpu_nodes(machine: &Machine) -> usize {
    let is_allowed = |cpus: &CpuSet| !cpus.intersection(&machine.allowed.cpus).is_empty();
    machine.nodes.iter().filter(|node| is_allowed(&node.cpus)).count()
}

impl Facts {
    /// The facts of this machine, with the kernel's settings under `root`. Settings left by runs
    /// that were killed must have been put back first.
    #[must_use]
    pub fn new(machine: &Machine, root: &Path) -> Self {
        let thp = Switches::read(root).map(|switches| switches.most().name().to_owned());
        let numa_balancing = Setting::NumaBalancing.read(root).ok();
        let numa_balancing =
            numa_balancing.and_then(|text| text.parse::<u32>().ok()).map(|value| value & 1 == 1);
        Self {
            cpu_nodes: cpu_nodes(machine),
            memory_nodes: machine.memory_nodes().intersection(&machine.allowed.nodes).len(),
            allocators: allocators::installed().iter().map(ToString::to_string).collect(),
            thp,
            numa_balancing,
        }
    }

    /// The facts of an emulated machine with these nodes, which runs Debian's kernel and has the
    /// allocators of this host.
    #[must_use]
    pub fn of_emulated(machine: &Machine) -> Self {
        Self {
            cpu_nodes: cpu_nodes(machine),
            memory_nodes: machine.memory_nodes().len(),
            allocators: allocators::installed().iter().map(ToString::to_string).collect(),
            thp: Some("always".to_owned()),
            numa_balancing: Some(true),
        }
    }

    /// The levels of a factor besides the one that changes nothing.
    ///
    /// # Errors
    /// The reason why the factor is not varied on this machine.
    pub(super) fn levels(&self, factor: FactorName) -> Result<Vec<Level>, String> {
        match factor {
            FactorName::Allocator => self.allocator_levels(),
            FactorName::Threads if self.cpu_nodes < 2 => Err(
                "the CPUs this process may use are all on one node: sparse and dense are the same"
                    .into(),
            ),
            FactorName::Threads => {
                Ok([ThreadPlacement::Sparse, ThreadPlacement::Dense].map(Level::Threads).to_vec())
            }
            FactorName::Memory if self.memory_nodes < 2 => Err(
                "the memory this process may use is all on one node: every policy places it there"
                    .into(),
            ),
            FactorName::Memory => {
                Ok([MemoryMode::Interleave, MemoryMode::WeightedInterleave, MemoryMode::Local]
                    .map(|mode| Level::Memory(MemoryPolicy { mode, ..MemoryPolicy::default() }))
                    .to_vec())
            }
            FactorName::Thp => self.thp_levels(),
            FactorName::NumaBalancing => self.balancing_levels(),
            // On request only.
            FactorName::Daemons => Ok(Vec::new()),
        }
    }

    fn allocator_levels(&self) -> Result<Vec<Level>, String> {
        if self.allocators.is_empty() {
            return Err("no allocator besides the program's own is installed; \
                        Debian and Ubuntu: apt install libjemalloc2 libtcmalloc-minimal4 \
                        libmimalloc2.0 libtbbmalloc2"
                .into());
        }
        let named = |name: &String| Level::Allocator(AllocatorChoice::Named(name.clone()));
        Ok(self.allocators.iter().map(named).collect())
    }

    fn thp_levels(&self) -> Result<Vec<Level>, String> {
        match self.thp.as_deref() {
            None => Err("this kernel has no transparent huge pages".into()),
            Some("always") => Ok(vec![Level::Thp(Thp::Never)]),
            Some("never") => Ok(vec![Level::Thp(Thp::Always)]),
            Some(_) => Ok(vec![Level::Thp(Thp::Always), Level::Thp(Thp::Never)]),
        }
    }

    fn balancing_levels(&self) -> Result<Vec<Level>, String> {
        if self.memory_nodes < 2 {
            return Err("one node: there is nowhere to move pages to".into());
        }
        match self.numa_balancing {
            None => Err("this kernel has no automatic NUMA balancing".into()),
            Some(true) => Ok(vec![Level::NumaBalancing(NumaBalancing::Off)]),
            Some(false) => Ok(vec![Level::NumaBalancing(NumaBalancing::On)]),
        }
    }
}

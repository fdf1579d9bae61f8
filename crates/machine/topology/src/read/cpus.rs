//! Reads the CPUs: which are online, and how threads share cores and packages.
//!
//! Source: Documentation/ABI/stable/sysfs-devices-system-cpu and
//! Documentation/admin-guide/cputopology.rst. An offline CPU has no topology directory, but keeps
//! the `cpuN/nodeN` link that names its node.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::tree::{Dir, parse};
use super::{ReadError, cpu_dir};
use crate::{Cpu, CpuId, CpuSet, Node, NodeId};

/// Most CPUs accepted: a kernel can be built for 8192 at most (x86 `MAXSMP`).
const MAX_CPUS: u32 = 8192;

/// The online CPUs; at least one.
pub(super) fn online(root: &Dir) -> Result<CpuSet, ReadError> {
    let cpus = cpu_dir(root)?.need("online", parse::LIST_OF_CPUS, possible_cpus)?;
    if cpus.is_empty() {
        return Err(ReadError::Contradiction {
            path: cpu_dir(root)?.path("online"),
            contradiction: "no CPU is online".to_owned(),
        });
    }
    Ok(cpus)
}

/// Every CPU of the machine in ascending order of id, including offline ones, without core numbers.
pub(super) fn read(root: &Dir, online: &CpuSet, nodes: &[Node]) -> Result<Vec<Cpu>, ReadError> {
    let dir = cpu_dir(root)?;
    let present = dir
        .find("present", parse::LIST_OF_CPUS, possible_cpus)?
        .map_or_else(|| online.clone(), |present| present.union(online));
    let mut known = BTreeMap::new();
    for node in nodes {
        for id in node.cpus.iter() {
            known.insert(id, node.id);
        }
    }
    let mut cores =
        Cores { dir, online, alone: false, known: BTreeMap::new(), packages: Vec::new() };
    cores.alone = cores.are_alone()?;
    let mut cpus = Vec::with_capacity(present.len());
    for id in present.iter() {
        if online.contains(id) {
            let node = known.get(&id).copied();
            cpus.push(Cpu { node, ..cores.cpu(id)? });
        } else {
            cpus.push(offline(&cores.dir, id)?);
        }
    }
    Ok(cpus)
}

/// Reads shared facts once: siblings with the first CPU of a core, the package number with the
/// first core of a package.
struct Cores<'a> {
    dir: Dir<'a>,
    online: &'a CpuSet,
    /// Whether no core runs a second thread.
    alone: bool,
    /// Later CPUs of the cores read so far.
    known: BTreeMap<CpuId, Cpu>,
    packages: Vec<(CpuSet, Option<u32>)>,
}

impl Cores<'_> {
    fn cpu(&mut self, id: CpuId) -> Result<Cpu, ReadError> {
        if let Some(cpu) = self.known.remove(&id) {
            return Ok(Cpu { id, ..cpu });
        }
        let siblings =
            if self.alone { [id].into_iter().collect() } else { self.threads_of_core(id)? };
        let package = self.package(id)?;
        let cpu = Cpu { id, node: None, online: true, core: None, package, siblings };
        for sibling in cpu.siblings.iter().filter(|s| *s > id) {
            self.known.insert(sibling, cpu.clone());
        }
        Ok(cpu)
    }

    /// What the kernel reports about SMT as a whole. A kernel built without SMT scheduling reports
    /// that there is none whatever the processor does, so the first core is checked as well.
    fn are_alone(&self) -> Result<bool, ReadError> {
        let off = self.dir.find("smt/active", "0 or 1", |text| Some(text == "0"))?;
        Ok(match (off, self.online.first()) {
            (Some(true), Some(first)) => self.threads_of_core(first)?.len() == 1,
            _ => false,
        })
    }

    fn threads_of_core(&self, id: CpuId) -> Result<CpuSet, ReadError> {
        self.together(id, "thread_siblings_list")
    }

    fn package(&mut self, id: CpuId) -> Result<Option<u32>, ReadError> {
        if let Some((_, number)) = self.packages.iter().find(|(cpus, _)| cpus.contains(id)) {
            return Ok(*number);
        }
        let number = number(&self.dir, id, "physical_package_id")?;
        self.packages.push((self.together(id, "core_siblings_list")?, number));
        Ok(number)
    }

    /// The online CPUs in a list of the CPU's topology, always including the CPU itself.
    fn together(&self, id: CpuId, list: &str) -> Result<CpuSet, ReadError> {
        let file = format!("cpu{id}/topology/{list}");
        let cpus: Option<CpuSet> = self.dir.find(&file, parse::LIST_OF_CPUS, parse::list)?;
        let mut cpus = cpus.unwrap_or_default().intersection(self.online);
        cpus.insert(id);
        Ok(cpus)
    }
}

/// The core number of each of these CPUs, read once per core.
pub(super) fn core_numbers(root: &Dir, cpus: &[Cpu]) -> Result<Vec<Option<u32>>, ReadError> {
    let dir = cpu_dir(root)?;
    let mut known = BTreeMap::new();
    let mut read = |cpu: &Cpu| {
        if !cpu.online {
            return Ok(None);
        }
        let core = cpu.siblings.first().unwrap_or(cpu.id);
        Ok(match known.entry(core) {
            Entry::Occupied(number) => *number.get(),
            Entry::Vacant(place) => *place.insert(number(&dir, cpu.id, "core_id")?),
        })
    };
    cpus.iter().map(&mut read).collect()
}

fn number(dir: &Dir, id: CpuId, name: &str) -> Result<Option<u32>, ReadError> {
    let file = format!("cpu{id}/topology/{name}");
    Ok(dir.find(&file, "a number, or -1 for unknown", parse::id_or_none)?.flatten())
}

fn offline(dir: &Dir, id: CpuId) -> Result<Cpu, ReadError> {
    let links = match dir.dir(&format!("cpu{id}"))? {
        Some(cpu) => cpu.numbered("node")?,
        None => Vec::new(),
    };
    Ok(Cpu {
        id,
        node: links.first().copied().map(NodeId),
        online: false,
        core: None,
        package: None,
        siblings: [id].into_iter().collect(),
    })
}

fn possible_cpus(text: &str) -> Option<CpuSet> {
    parse::list(text).filter(|cpus: &CpuSet| cpus.iter().all(|cpu| cpu.0 < MAX_CPUS))
}

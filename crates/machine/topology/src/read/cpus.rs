//! CPUs: which run, and how threads share cores and packages.
//!
//! Source: Documentation/ABI/stable/sysfs-devices-system-cpu and
//! Documentation/admin-guide/cputopology.rst. An offline CPU has no topology directory;
//! its node is known from the `cpuN/nodeN` link, which stays.

use std::collections::BTreeMap;

use super::tree::{Dir, parse};
use super::{ReadError, cpu_dir};
use crate::{Cpu, CpuId, CpuSet, Node, NodeId};

/// CPUs accepted: a kernel can be built for 8192 at most (x86 `MAXSMP`).
const MAX_CPUS: u32 = 8192;

/// CPUs that run; at least one.
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

/// Every CPU the machine has, in ascending order of id, offline ones included.
pub(super) fn read(root: &Dir, online: &CpuSet, nodes: &[Node]) -> Result<Vec<Cpu>, ReadError> {
    let dir = cpu_dir(root)?;
    let present = dir
        .find("present", parse::LIST_OF_CPUS, possible_cpus)?
        .map_or_else(|| online.clone(), |present| present.union(online));
    let mut known = BTreeMap::new();
    for node in nodes {
        for id in node.cpus.iter() {
            known.insert(id, Some(node.id));
        }
    }
    let mut cores = BTreeMap::new();
    let mut cpus = Vec::with_capacity(present.len());
    for id in present.iter() {
        if online.contains(id) {
            let core = core_of(&dir, id, online, &mut cores)?;
            let node = known.get(&id).copied().flatten();
            cpus.push(Cpu { id, node, online: true, ..core });
        } else {
            cpus.push(offline(&dir, id)?);
        }
    }
    Ok(cpus)
}

/// Core, package and siblings of an online CPU. SMT siblings have them in common, so a
/// core is read with its first CPU and remembered for the others.
fn core_of(
    dir: &Dir,
    id: CpuId,
    online: &CpuSet,
    cores: &mut BTreeMap<CpuId, Cpu>,
) -> Result<Cpu, ReadError> {
    if let Some(core) = cores.remove(&id) {
        return Ok(core);
    }
    let file = |name| format!("cpu{id}/topology/{name}");
    let listed: Option<CpuSet> =
        dir.find(&file("thread_siblings_list"), parse::LIST_OF_CPUS, parse::list)?;
    let mut siblings = listed.unwrap_or_default().intersection(online);
    siblings.insert(id);
    const ID: &str = "a number, or -1 for unknown";
    let core = Cpu {
        id,
        node: None,
        online: true,
        core: dir.find(&file("core_id"), ID, parse::id_or_none)?.flatten(),
        package: dir.find(&file("physical_package_id"), ID, parse::id_or_none)?.flatten(),
        siblings,
    };
    for sibling in core.siblings.iter().filter(|s| *s > id) {
        cores.insert(sibling, core.clone());
    }
    Ok(core)
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

//! Caches: each once, with the CPUs that share it.
//!
//! Source: Documentation/ABI/testing/sysfs-devices-system-cpu
//! (`cpuN/cache/indexN/{level,type,size,shared_cpu_list,...}`). Which CPUs share a cache is
//! read for each cache, and so is its size; level, type, associativity and line size are
//! taken from the first cache in the same slot (`indexN`) with that size. This saves two
//! thirds of the files of a large machine and still tells the big from the little cores
//! of a hybrid processor.

use super::tree::{Dir, parse};
use super::{ReadError, cpu_dir};
use crate::{Cache, CacheKind, CpuId, CpuSet};

/// Slots looked at: no processor has more than L1 data and instruction, L2, L3 and L4.
const MAX_SLOTS: usize = 8;

/// Every cache once: by level, then by kind, then by first CPU.
pub(super) fn read(root: &Dir, online: &CpuSet) -> Result<Vec<Cache>, ReadError> {
    let dir = cpu_dir(root)?;
    let mut caches: Vec<Cache> = Vec::new();
    // Per slot: the CPUs whose cache is known, and where caches of that slot are in `caches`.
    let mut slots: Vec<(CpuSet, Vec<usize>)> = vec![Default::default(); MAX_SLOTS];
    for id in online.iter() {
        for (slot, (covered, kinds)) in slots.iter_mut().enumerate() {
            if covered.contains(id) {
                continue;
            }
            let path = format!("cpu{id}/cache/index{slot}");
            let Some((cpus, size_bytes)) = instance(&dir, &path, id, online)? else { break };
            *covered = covered.union(&cpus);
            let alike = kinds.iter().find(|at| caches[**at].size_bytes == size_bytes);
            let cache = match alike {
                Some(at) => Cache { cpus, ..caches[*at].clone() },
                None => {
                    kinds.push(caches.len());
                    first_of_kind(&dir, &path, cpus, size_bytes)?
                }
            };
            caches.push(cache);
        }
    }
    caches.sort_by_key(|cache| (cache.level, cache.kind, cache.cpus.first()));
    Ok(caches)
}

/// CPUs and size of one cache; `None` when the CPU has no cache in this slot.
fn instance(
    dir: &Dir,
    path: &str,
    id: CpuId,
    online: &CpuSet,
) -> Result<Option<(CpuSet, Option<u64>)>, ReadError> {
    let list = format!("{path}/shared_cpu_list");
    let Some(cpus) = dir.find(&list, parse::LIST_OF_CPUS, parse::list)? else {
        return Ok(None);
    };
    let mut cpus = CpuSet::intersection(&cpus, online);
    cpus.insert(id);
    let size = dir.find(&format!("{path}/size"), "a size such as 32K", size_bytes)?;
    Ok(Some((cpus, size)))
}

fn first_of_kind(
    dir: &Dir,
    path: &str,
    cpus: CpuSet,
    size_bytes: Option<u64>,
) -> Result<Cache, ReadError> {
    let number = |name| dir.find(&format!("{path}/{name}"), parse::NUMBER, parse::number);
    Ok(Cache {
        level: dir.need(&format!("{path}/level"), "a cache level from 1 to 9", level)?,
        kind: dir.need(&format!("{path}/type"), "Data, Instruction or Unified", kind)?,
        size_bytes,
        // The kernel writes 0 for a fully associative cache.
        ways: number("ways_of_associativity")?.filter(|ways| *ways > 0),
        line_bytes: number("coherency_line_size")?,
        cpus,
    })
}

fn level(text: &str) -> Option<u32> {
    parse::number(text).filter(|level| (1..=9).contains(level))
}

fn kind(text: &str) -> Option<CacheKind> {
    match text {
        "Data" => Some(CacheKind::Data),
        "Instruction" => Some(CacheKind::Instruction),
        "Unified" => Some(CacheKind::Unified),
        _ => None,
    }
}

/// The kernel writes kibibytes: `32768K`.
fn size_bytes(text: &str) -> Option<u64> {
    parse::number::<u64>(text.strip_suffix('K')?)?.checked_mul(1024)
}

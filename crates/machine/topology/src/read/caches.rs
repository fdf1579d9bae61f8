//! Reads each cache once, with the CPUs that share it.
//!
//! Source: Documentation/ABI/testing/sysfs-devices-system-cpu
//! (`cpuN/cache/indexN/{level,type,size,shared_cpu_list,...}`). A thousand CPUs with four caches
//! and six files for each have too many files to read at every start. Therefore:
//! - A cache that several cores share is read through its first CPU only. If a cache with the same
//!   index and size is already known, only the size and the sharing CPUs are read.
//! - Private caches are read for the first core of each kind only. Another core is of the same kind
//!   when it has as many threads, its private caches have the same sizes, and it shares the caches
//!   above them. This distinguishes the big and the little cores of a hybrid processor, even where
//!   a cluster of little cores shares a cache as large as the private cache of a big core.

use std::collections::BTreeMap;

use super::tree::{Dir, parse};
use super::{ReadError, cpu_dir};
use crate::{Cache, CacheKind, Cpu, CpuId, CpuSet};

/// Number of slots (`indexN`) to read: processors have L1 data and instruction, L2, L3 and L4.
const MAX_SLOTS: usize = 8;

/// Every cache once: by level, then by kind, then by first CPU.
pub(super) fn read(root: &Dir, cpus: &[Cpu]) -> Result<Vec<Cache>, ReadError> {
    let mut reader = Reader {
        dir: cpu_dir(root)?,
        online: cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect(),
        covered: vec![CpuSet::new(); MAX_SLOTS],
        models: vec![Vec::new(); MAX_SLOTS],
        caches: Vec::new(),
        kinds: Vec::new(),
        kind_of_core: BTreeMap::new(),
    };
    for cpu in cpus.iter().filter(|cpu| cpu.online) {
        reader.cpu(cpu)?;
    }
    let mut caches = reader.caches;
    caches.sort_by_cached_key(|cache| (cache.level, cache.kind, cache.cpus.first()));
    Ok(caches)
}

/// A kind of core, as read from its first core.
struct CoreKind {
    /// CPUs of a core.
    threads: usize,
    /// Caches of one CPU, shared ones included.
    slots: usize,
    /// The private caches by slot, smallest level first.
    own: Vec<(usize, Cache)>,
}

struct Reader<'a> {
    dir: Dir<'a>,
    online: CpuSet,
    /// By slot: the CPUs whose cache is known.
    covered: Vec<CpuSet>,
    /// By slot: one cache of each size that was read.
    models: Vec<Vec<Cache>>,
    caches: Vec<Cache>,
    kinds: Vec<CoreKind>,
    /// By the core's first CPU: position in `kinds`.
    kind_of_core: BTreeMap<CpuId, usize>,
}

impl Reader<'_> {
    fn cpu(&mut self, cpu: &Cpu) -> Result<(), ReadError> {
        let core = cpu.siblings.first().unwrap_or(cpu.id);
        if let Some(kind) = self.kind_of_core.get(&core) {
            return self.slots(cpu, self.kinds[*kind].slots).map(drop);
        }
        if let Some(at) = self.kind(cpu)? {
            self.kind_of_core.insert(core, at);
            for (slot, cache) in &self.kinds[at].own {
                self.covered[*slot].extend(cpu.siblings.iter());
                self.caches.push(Cache { cpus: cpu.siblings.clone(), ..cache.clone() });
            }
            return self.slots(cpu, self.kinds[at].slots).map(drop);
        }
        let before = self.caches.len();
        let read = self.slots(cpu, MAX_SLOTS)?;
        let news = read.iter().copied().zip(self.caches[before..].iter().cloned());
        let own: Vec<_> = news.filter(|(_, cache)| cache.cpus == cpu.siblings).collect();
        if !own.is_empty() {
            let slots = self.covered.iter().take_while(|covered| covered.contains(cpu.id)).count();
            self.kind_of_core.insert(core, self.kinds.len());
            self.kinds.push(CoreKind { threads: cpu.siblings.len(), slots, own });
        }
        Ok(())
    }

    /// The known kind of this core.
    fn kind(&self, cpu: &Cpu) -> Result<Option<usize>, ReadError> {
        for (at, kind) in self.kinds.iter().enumerate() {
            if kind.threads == cpu.siblings.len() && self.is_of(kind, cpu)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Whether a core has private caches in the same slots and of the same sizes as this kind, and
    /// shares none of them.
    fn is_of(&self, kind: &CoreKind, cpu: &Cpu) -> Result<bool, ReadError> {
        let Some((last, _)) = kind.own.last() else { return Ok(false) };
        for (slot, cache) in &kind.own {
            if self.size(&slot_path(*slot, cpu.id))? != cache.size_bytes {
                return Ok(false);
            }
        }
        Ok(self.sharers(*last, cpu.id)?.as_ref() == Some(&cpu.siblings)
            && self.sharers(last + 1, cpu.id)?.as_ref() != Some(&cpu.siblings))
    }

    /// The online CPUs that share a cache of a CPU; `None` when there is no such cache.
    fn sharers(&self, slot: usize, cpu: CpuId) -> Result<Option<CpuSet>, ReadError> {
        let file = format!("{}/shared_cpu_list", slot_path(slot, cpu));
        let list = self.dir.find(&file, parse::LIST_OF_CPUS, parse::list)?;
        Ok(list.map(|cpus: CpuSet| {
            let mut cpus = cpus.intersection(&self.online);
            cpus.insert(cpu);
            cpus
        }))
    }

    /// Reads the caches of a CPU that are not yet known, and returns their slots.
    fn slots(&mut self, cpu: &Cpu, slots: usize) -> Result<Vec<usize>, ReadError> {
        let mut read = Vec::new();
        for slot in 0..slots {
            if self.covered[slot].contains(cpu.id) {
                continue;
            }
            let Some(cache) = self.cache(slot, cpu.id)? else { break };
            self.covered[slot].extend(cache.cpus.iter());
            self.caches.push(cache);
            read.push(slot);
        }
        Ok(read)
    }

    /// One cache; `None` when there is none.
    fn cache(&mut self, slot: usize, cpu: CpuId) -> Result<Option<Cache>, ReadError> {
        let Some(cpus) = self.sharers(slot, cpu)? else { return Ok(None) };
        let path = slot_path(slot, cpu);
        let file = |name| format!("{path}/{name}");
        let size_bytes = self.size(&path)?;
        let known = self.models[slot].iter().find(|model| model.size_bytes == size_bytes);
        if let Some(model) = known.filter(|model| model.size_bytes.is_some()) {
            return Ok(Some(Cache { cpus, ..model.clone() }));
        }
        let number = |name| self.dir.find(&file(name), parse::NUMBER, parse::number);
        let cache = Cache {
            level: self.dir.need(&file("level"), "a cache level from 1 to 9", level)?,
            kind: self.dir.need(&file("type"), "Data, Instruction or Unified", kind)?,
            size_bytes,
            // The kernel writes 0 for a fully associative cache.
            ways: number("ways_of_associativity")?.filter(|ways| *ways > 0),
            line_bytes: number("coherency_line_size")?,
            cpus,
        };
        self.models[slot].push(cache.clone());
        Ok(Some(cache))
    }

    fn size(&self, path: &str) -> Result<Option<u64>, ReadError> {
        self.dir.find(&format!("{path}/size"), "a size such as 32K", size_bytes)
    }
}

fn slot_path(slot: usize, cpu: CpuId) -> String {
    format!("cpu{cpu}/cache/index{slot}")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, Recording};

    /// As on a processor with more L3 on one of its chiplets.
    #[test]
    fn shared_caches_of_different_sizes_are_distinguished() {
        let mut machine = Machine::uniform(1, 8);
        for (first, kib, ways) in [(0, 32 << 10, 16), (2, 96 << 10, 12), (4, 96 << 10, 12)] {
            machine.caches.push(Cache {
                level: 3,
                kind: CacheKind::Unified,
                size_bytes: Some(kib << 10),
                ways: Some(ways),
                line_bytes: Some(64),
                cpus: [first, first + 1].map(CpuId).into_iter().collect(),
            });
        }
        assert_eq!(read_back(&machine), machine.caches);
    }

    fn read_back(machine: &Machine) -> Vec<Cache> {
        let directory = tempfile::tempdir().unwrap();
        Recording::synthesize(machine).unpack(directory.path()).unwrap();
        crate::read(directory.path()).unwrap().caches
    }

    /// Six big cores, and ten little ones in clusters of four, four and two. Their second-level
    /// caches differ only in the CPUs that share them. The test puts either kind first.
    #[test]
    fn little_cores_that_share_a_cache_of_the_same_size_are_distinguished() {
        for big in [0..6, 10..16] {
            let mut machine = Machine::uniform(1, 16);
            let cache = |level, kind, kib: u64, cpus: std::ops::Range<u32>| Cache {
                level,
                kind,
                size_bytes: Some(kib << 10),
                ways: Some(8),
                line_bytes: Some(64),
                cpus: cpus.map(CpuId).collect(),
            };
            for cpu in 0..16 {
                let kib = if big.contains(&cpu) { 48 } else { 32 };
                machine.caches.push(cache(1, CacheKind::Data, kib, cpu..cpu + 1));
            }
            for cpu in 0..16 {
                machine.caches.push(cache(1, CacheKind::Instruction, 64, cpu..cpu + 1));
            }
            let first = if big.start == 0 { 6 } else { 0 };
            let clusters = [first..first + 4, first + 4..first + 8, first + 8..first + 10];
            for cpus in big.clone().map(|cpu| cpu..cpu + 1).chain(clusters) {
                machine.caches.push(cache(2, CacheKind::Unified, 2048, cpus));
            }
            machine.caches.sort_by_key(|cache| (cache.level, cache.kind, cache.cpus.first()));
            let read = read_back(&machine);
            assert_eq!(read, machine.caches);
            let count = |level, kind, kib: u64, sharers| {
                let alike = |c: &&Cache| {
                    (c.level, c.kind, c.size_bytes) == (level, kind, Some(kib << 10))
                        && sharers == (c.cpus.len() > 1)
                };
                read.iter().filter(alike).count()
            };
            assert_eq!(count(1, CacheKind::Data, 48, false), 6);
            assert_eq!(count(1, CacheKind::Data, 32, false), 10);
            assert_eq!(count(2, CacheKind::Unified, 2048, false), 6);
            assert_eq!(count(2, CacheKind::Unified, 2048, true), 3);
        }
    }
}

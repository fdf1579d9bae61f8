//! Caches: each once, with the CPUs that share it.
//!
//! Source: Documentation/ABI/testing/sysfs-devices-system-cpu
//! (`cpuN/cache/indexN/{level,type,size,shared_cpu_list,...}`). Six files for each of four
//! caches of a thousand CPUs are too many to read at every start, so:
//! - a cache that several cores share is read with its first CPU only;
//! - of the caches that a core has to itself, those of the first core of a kind are read;
//!   another core is of that kind when it has as many threads and its largest own cache has
//!   the same size. This tells the big from the little cores of a hybrid processor.

use std::collections::BTreeMap;

use super::tree::{Dir, parse};
use super::{ReadError, cpu_dir};
use crate::{Cache, CacheKind, Cpu, CpuId, CpuSet};

/// Slots (`indexN`) looked at: processors have L1 data and instruction, L2, L3 and L4.
const MAX_SLOTS: usize = 8;

/// Every cache once: by level, then by kind, then by first CPU.
pub(super) fn read(root: &Dir, cpus: &[Cpu]) -> Result<Vec<Cache>, ReadError> {
    let mut reader = Reader {
        dir: cpu_dir(root)?,
        online: cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect(),
        covered: vec![CpuSet::new(); MAX_SLOTS],
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

/// A kind of core, known from the first one.
struct CoreKind {
    /// CPUs of a core.
    threads: usize,
    /// Caches of one CPU, shared ones included.
    slots: usize,
    /// The caches it has to itself, by slot, smallest level first.
    own: Vec<(usize, Cache)>,
}

struct Reader {
    dir: Dir,
    online: CpuSet,
    /// By slot: the CPUs whose cache is known.
    covered: Vec<CpuSet>,
    caches: Vec<Cache>,
    kinds: Vec<CoreKind>,
    /// By the core's first CPU: position in `kinds`.
    kind_of_core: BTreeMap<CpuId, usize>,
}

impl Reader {
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

    /// Which known kind this core is of.
    fn kind(&self, cpu: &Cpu) -> Result<Option<usize>, ReadError> {
        for (at, kind) in self.kinds.iter().enumerate() {
            if kind.threads == cpu.siblings.len()
                && let Some((slot, largest)) = kind.own.last()
                && self.size(&format!("cpu{}/cache/index{slot}", cpu.id))? == largest.size_bytes
            {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Reads the caches of a CPU that are not known yet; returns their slots.
    fn slots(&mut self, cpu: &Cpu, slots: usize) -> Result<Vec<usize>, ReadError> {
        let mut read = Vec::new();
        for slot in 0..slots {
            if self.covered[slot].contains(cpu.id) {
                continue;
            }
            let Some(cache) = self.cache(&format!("cpu{}/cache/index{slot}", cpu.id), cpu.id)?
            else {
                break;
            };
            self.covered[slot].extend(cache.cpus.iter());
            self.caches.push(cache);
            read.push(slot);
        }
        Ok(read)
    }

    /// One cache; `None` when there is none.
    fn cache(&self, path: &str, cpu: CpuId) -> Result<Option<Cache>, ReadError> {
        let file = |name| format!("{path}/{name}");
        let list = self.dir.find(&file("shared_cpu_list"), parse::LIST_OF_CPUS, parse::list)?;
        let Some(cpus) = list else { return Ok(None) };
        let mut cpus = CpuSet::intersection(&cpus, &self.online);
        cpus.insert(cpu);
        let number = |name| self.dir.find(&file(name), parse::NUMBER, parse::number);
        Ok(Some(Cache {
            level: self.dir.need(&file("level"), "a cache level from 1 to 9", level)?,
            kind: self.dir.need(&file("type"), "Data, Instruction or Unified", kind)?,
            size_bytes: self.size(path)?,
            // The kernel writes 0 for a fully associative cache.
            ways: number("ways_of_associativity")?.filter(|ways| *ways > 0),
            line_bytes: number("coherency_line_size")?,
            cpus,
        }))
    }

    fn size(&self, path: &str) -> Result<Option<u64>, ReadError> {
        self.dir.find(&format!("{path}/size"), "a size such as 32K", size_bytes)
    }
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

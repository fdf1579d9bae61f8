//! The parameters of the model: a machine description, scaled down for emulation.
//!
//! Cache capacities and TLB entries are divided by the description's `cache_scale`, because data
//! sets are smaller by the same factor. The first level keeps its size as long as it does not
//! exceed a quarter of the next level: the stack and the data of inner loops, for which it exists,
//! do not grow with the data set (the first of the working sets in Woo, Ohara, Torrie, Singh and
//! Gupta, "The SPLASH-2 Programs", ISCA 1995). Bandwidths of controllers and links are multiplied
//! by the ratio of emulated CPUs to described cores: a core's part of a controller stays the same,
//! so the contention does too. Latencies are not scaled.

use numapilot_lab_pmu::Shape;
use numapilot_topology::description::{CacheLevel, Description, SharedBy};
use numapilot_topology::{CacheKind, Machine};
use serde::{Deserialize, Serialize};

use crate::layout::PAGE_BYTES;
use crate::simulation::directory;
use crate::{Layout, MemoryRange, ModelError};

/// The parameters of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The description's title.
    pub title: String,
    /// Length of a cycle, in picoseconds.
    pub ps_per_cycle: f64,
    /// Cycles per instruction when every access hits the first-level cache.
    pub base_cpi: f64,
    /// Number of independent misses that overlap.
    pub memory_level_parallelism: f64,
    /// Node of each virtual CPU.
    pub node_of_cpu: Vec<usize>,
    /// Guest-physical memory, in ascending order.
    pub ranges: Vec<MemoryRange>,
    /// Data caches, from the first level; the last one may be shared.
    pub caches: Vec<Cache>,
    /// Address translation; `None` if the description has none.
    pub tlb: Option<Tlb>,
    /// Memory latency of an idle machine, in nanoseconds; row = from, column = home.
    pub latency_ns: Vec<Vec<f64>>,
    /// Scaled bandwidth of each node's controller, in 10^9 bytes per second.
    pub controllers_gb_per_s: Vec<f64>,
    /// The links, scaled.
    pub links: Vec<Link>,
    /// Emulated CPUs divided by described cores: the factor of the bandwidths.
    pub bandwidth_scale: f64,
}

/// A level of data cache, scaled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Capacity of one cache.
    pub bytes: u64,
    /// Associativity.
    pub ways: u32,
    /// Load-to-use latency of a hit.
    pub latency_cycles: f64,
    /// The cache of this level that each virtual CPU uses.
    pub cache_of_cpu: Vec<u32>,
}

/// Address translation of a CPU, scaled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tlb {
    /// Entries for 4 KiB pages, in the largest level.
    pub entries_4k: u32,
    /// Entries for 2 MiB pages, in the largest level.
    pub entries_2m: u32,
    /// Entries for the kernel's own 2 MiB pages. They are not scaled, because the kernel's working
    /// set does not shrink with the data set.
    pub entries_kernel: u32,
    /// Cost of a page walk, in cycles.
    pub walk_cycles: f64,
}

/// A link between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// One end.
    pub from: usize,
    /// The other end.
    pub to: usize,
    /// Bandwidth of one direction, in 10^9 bytes per second.
    pub gb_per_s: f64,
}

/// Line size of every cache; descriptions with other sizes are refused.
pub(crate) const LINE_BYTES: u64 = 64;
/// Maximum number of virtual CPUs: the directory has one bit for each.
pub(crate) const MAX_CPUS: usize = 64;
/// End of the physical addresses that the directory can represent.
const MAX_ADDRESS: u64 = directory::LINES * LINE_BYTES;
/// Private caches and a last level.
const MAX_LEVELS: usize = 3;

impl Model {
    /// Frequency of the time stamp counter in kHz; it equals the CPU's frequency.
    #[must_use]
    pub fn tsc_khz(&self) -> u64 {
        (1e9 / self.ps_per_cycle).round() as u64
    }

    /// The model of a described machine as it was laid out for the emulator.
    ///
    /// # Errors
    /// [`ModelError`]: a figure is missing, a node cannot be reached, the layout does not fit, or
    /// the model does not cover the kind of machine.
    pub fn from_description(
        description: &Description,
        layout: &Layout,
    ) -> Result<Self, ModelError> {
        let machine =
            description.machine("").map_err(|e| ModelError::Description(e.to_string()))?;
        layout.check(machine.nodes.len())?;
        if layout.cpus.len() > MAX_CPUS {
            return Err(ModelError::Unsupported(format!(
                "{} virtual CPUs are more than {MAX_CPUS}; lower `lab.cpus_per_node`",
                layout.cpus.len()
            )));
        }
        let processor = &description.processor;
        let missing = |key| ModelError::Missing { key };
        let ghz = processor.ghz.ok_or(missing("processor.ghz"))?;
        let cache_scale = description.lab.as_ref().map_or(1, |lab| lab.cache_scale).max(1);
        let cores: u32 = description.nodes.iter().map(|g| g.cores * g.ids.len() as u32).sum();
        let bandwidth_scale = (layout.cpus.len() as f64 / f64::from(cores.max(1))).min(1.0);
        let mut ranges = layout.ranges.clone();
        ranges.sort_by_key(|r| r.start);
        if ranges.last().is_some_and(|last| last.start + last.bytes > MAX_ADDRESS) {
            return Err(ModelError::Unsupported(format!(
                "its memory ends beyond {} GiB; lower `lab.memory_per_node`",
                MAX_ADDRESS >> 30
            )));
        }
        Ok(Self {
            title: description.title.clone(),
            ps_per_cycle: 1000.0 / ghz,
            base_cpi: processor.base_cpi.ok_or(missing("processor.base_cpi"))?,
            memory_level_parallelism: processor
                .memory_level_parallelism
                .ok_or(missing("processor.memory_level_parallelism"))?,
            node_of_cpu: layout.cpus.iter().map(|c| c.node).collect(),
            ranges,
            caches: caches(&description.caches, layout, cache_scale)?,
            tlb: description.tlb.as_ref().map(|tlb| {
                let largest = |levels: &[u32]| levels.iter().copied().max().unwrap_or(1).max(1);
                let scaled = |levels: &[u32]| (largest(levels) / cache_scale).max(1);
                Tlb {
                    entries_4k: scaled(&tlb.entries_4k),
                    entries_2m: scaled(&tlb.entries_2m),
                    entries_kernel: largest(&tlb.entries_2m),
                    walk_cycles: tlb.walk_cycles,
                }
            }),
            latency_ns: latencies(&machine)?,
            controllers_gb_per_s: controllers(description, &machine)
                .into_iter()
                .map(|rate| rate * bandwidth_scale)
                .collect(),
            links: links(&machine)
                .into_iter()
                .map(|link| Link { gb_per_s: link.gb_per_s * bandwidth_scale, ..link })
                .collect(),
            bandwidth_scale,
        })
    }

    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.latency_ns.len()
    }

    /// The shape of the PMU's memory; `None` for a model that does not come from a description.
    #[must_use]
    pub fn pmu_shape(&self) -> Option<Shape> {
        Shape::new(self.node_of_cpu.len(), self.nodes(), self.links.len())
    }
}

fn caches(levels: &[CacheLevel], layout: &Layout, scale: u32) -> Result<Vec<Cache>, ModelError> {
    let mut levels: Vec<&CacheLevel> =
        levels.iter().filter(|l| l.kind != CacheKind::Instruction).collect();
    levels.sort_by_key(|l| l.level);
    if levels.is_empty() {
        return Err(ModelError::Missing { key: "caches" });
    }
    if levels.len() > MAX_LEVELS || levels.windows(2).any(|w| w[0].level == w[1].level) {
        return Err(ModelError::Unsupported(format!(
            "it has {} data caches; the model supports one per level, and at most three levels",
            levels.len()
        )));
    }
    let last = levels.len() - 1;
    let mut caches = (levels.iter().enumerate())
        .map(|(i, level)| cache(level, layout, scale, i == last))
        .collect::<Result<Vec<Cache>, ModelError>>()?;
    if let [first, behind, ..] = &mut caches[..] {
        let whole = cache(levels[0], layout, 1, false)?.bytes;
        let quarter = behind.bytes / sharers(&behind.cache_of_cpu) / 4;
        first.bytes = whole.min(quarter).max(first.bytes);
        // Real processors index it by virtual addresses. With this associativity, the index is the
        // offset in a page, so the kernel's choice of physical pages does not matter.
        first.ways = first.ways.max(u32::try_from(first.bytes / PAGE_BYTES).unwrap_or(u32::MAX));
    }
    Ok(caches)
}

/// The maximum number of virtual CPUs that share a cache.
fn sharers(cache_of_cpu: &[u32]) -> u64 {
    let of = |cache: &u32| cache_of_cpu.iter().filter(|c| *c == cache).count() as u64;
    cache_of_cpu.iter().map(of).max().unwrap_or(1)
}

fn cache(
    level: &CacheLevel,
    layout: &Layout,
    scale: u32,
    is_last: bool,
) -> Result<Cache, ModelError> {
    if level.line_bytes.is_some_and(|bytes| u64::from(bytes) != LINE_BYTES) {
        return Err(ModelError::Unsupported(format!(
            "its level {} cache has lines of {} bytes; the model supports {LINE_BYTES}",
            level.level,
            level.line_bytes.unwrap_or_default()
        )));
    }
    let ways = level.ways.ok_or(ModelError::Missing { key: "caches.ways" })?.max(1);
    let cache_of_cpu = sharing(level.shared_by, layout);
    let mut bytes = level.size.0 / u64::from(scale);
    if !is_last {
        // The model's inner caches are private, so each sharer gets its part.
        bytes /= sharers(&cache_of_cpu);
    }
    Ok(Cache {
        bytes: bytes.max(LINE_BYTES * u64::from(ways)),
        ways,
        latency_cycles: level
            .latency_cycles
            .ok_or(ModelError::Missing { key: "caches.latency_cycles" })?,
        cache_of_cpu: if is_last { cache_of_cpu } else { (0..layout.cpus.len() as u32).collect() },
    })
}

/// The cache that each CPU uses, numbered by its first CPU.
fn sharing(shared_by: SharedBy, layout: &Layout) -> Vec<u32> {
    let key = |cpu: usize| {
        let place = layout.cpus[cpu];
        let (node, package, core) = (place.node as u32, place.package, place.core);
        match shared_by {
            SharedBy::Cpu => (cpu as u32, 0, 0),
            SharedBy::Core => (package, core, 0),
            SharedBy::Cores(count) => {
                // Sharers are neighbours among the node's cores, as a description numbers them.
                let mut cores: Vec<u32> = layout
                    .cpus
                    .iter()
                    .filter(|c| (c.node, c.package) == (place.node, package))
                    .map(|c| c.core)
                    .collect();
                cores.sort_unstable();
                cores.dedup();
                let position = cores.iter().position(|c| *c == core).unwrap_or(0) as u32;
                (node, package, position / count.max(1))
            }
            SharedBy::Node => (node, 0, 0),
            SharedBy::Package => (package, 0, 0),
        }
    };
    let mut seen = Vec::new();
    (0..layout.cpus.len())
        .map(|cpu| {
            let key = key(cpu);
            let known = seen.iter().position(|k| *k == key);
            known.unwrap_or_else(|| {
                seen.push(key);
                seen.len() - 1
            }) as u32
        })
        .collect()
}

/// The complete latency matrix. Latencies from memory-only nodes cannot be measured, so they equal
/// the opposite direction; between two such nodes, they are the sum of both ways through the
/// nearest CPU.
fn latencies(machine: &Machine) -> Result<Vec<Vec<f64>>, ModelError> {
    let given = &machine.figures.latency_ns;
    let n = machine.nodes.len();
    let cell = |i: usize, j: usize| given.get(i)?.get(j).copied().flatten();
    let filled = |i: usize, j: usize| {
        let memory = machine.nodes[j].memory_bytes > 0;
        let over = || {
            let ways = (0..n).filter_map(|k| Some(cell(k, i)? + cell(k, j)?));
            ways.min_by(f64::total_cmp)
        };
        let back = cell(j, i).filter(|_| !memory || machine.nodes[i].cpus.is_empty());
        cell(i, j).or(back).or_else(over).ok_or_else(|| {
            ModelError::Description(format!(
                "there is no latency from node {} to node {}; add a link or the latency",
                machine.nodes[i].id, machine.nodes[j].id
            ))
        })
    };
    (0..n).map(|i| (0..n).map(|j| filled(i, j)).collect()).collect()
}

fn controllers(description: &Description, machine: &Machine) -> Vec<f64> {
    let group = |id| description.nodes.iter().find(|g| g.ids.contains(id));
    let matrix = &machine.figures.bandwidth_gb_per_s;
    let stated = |i: usize| group(machine.nodes[i].id).and_then(|g| g.bandwidth_gb_per_s);
    let best = |j: usize| {
        let column = matrix.iter().filter_map(|row| row.get(j).copied().flatten());
        column.max_by(f64::total_cmp)
    };
    // The controller of a node without memory is never accessed.
    (0..machine.nodes.len()).map(|i| stated(i).or_else(|| best(i)).unwrap_or(f64::MAX)).collect()
}

/// The links. If none are described but bandwidths between nodes are, each pair of nodes gets a
/// link.
fn links(machine: &Machine) -> Vec<Link> {
    if !machine.links.is_empty() {
        let index = |id| machine.node_index(id);
        return machine
            .links
            .iter()
            .filter_map(|l| {
                Some(Link { from: index(l.from)?, to: index(l.to)?, gb_per_s: l.gb_per_s })
            })
            .collect();
    }
    let cell =
        |i: usize, j: usize| machine.figures.bandwidth_gb_per_s.get(i)?.get(j).copied().flatten();
    let n = machine.nodes.len();
    (0..n)
        .flat_map(|from| (from + 1..n).map(move |to| (from, to)))
        .filter_map(|(from, to)| {
            let gb_per_s = cell(from, to).into_iter().chain(cell(to, from)).max_by(f64::total_cmp);
            Some(Link { from, to, gb_per_s: gb_per_s? })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use numapilot_topology::description::{SHIPPED, named};

    use super::*;
    use crate::CpuPlace;

    /// The layout that an emulator makes from a description: its nodes in order.
    pub(crate) fn laid_out(description: &Description) -> Layout {
        let lab = description.lab.clone().unwrap();
        let machine = description.machine("").unwrap();
        let mut layout = Layout { cpus: Vec::new(), ranges: Vec::new() };
        let mut start = 0;
        for (node, of) in machine.nodes.iter().enumerate() {
            if !of.cpus.is_empty() {
                let package = of.cpus.first().and_then(|c| machine.cpu(c)).unwrap().package;
                for core in 0..lab.cpus_per_node {
                    let core = node as u32 * lab.cpus_per_node + core;
                    layout.cpus.push(CpuPlace { node, core, package: package.unwrap_or(0) });
                }
            }
            if of.memory_bytes > 0 {
                let bytes = lab.memory_per_node.0;
                layout.ranges.push(MemoryRange { node, start, bytes });
                start += bytes;
            }
        }
        layout
    }

    fn model_of(name: &str) -> Model {
        let (_, description) = named(name).unwrap();
        Model::from_description(&description, &laid_out(&description)).unwrap()
    }

    #[test]
    fn every_shipped_machine_has_a_model_that_survives_json() {
        for (name, _) in SHIPPED {
            let model = model_of(name);
            let text = serde_json::to_string(&model).unwrap();
            let back: Model = serde_json::from_str(&text).unwrap();
            assert_eq!(back, model, "{name}");
            assert!(model.pmu_shape().is_some(), "{name}");
            assert!(model.latency_ns.iter().flatten().all(|l| *l > 0.0), "{name}");
        }
    }

    #[test]
    fn machine_a_keeps_the_relations_of_its_table() {
        let model = model_of("machine-a");
        assert_eq!(model.nodes(), 8);
        assert!((model.latency_ns[0][7] / model.latency_ns[0][0] - 1.6).abs() < 1e-9);
        assert_eq!(model.caches.len(), 2);
        assert_eq!(model.caches[1].bytes, 64 << 10);
        assert_eq!((model.caches[0].bytes, model.caches[0].ways), (16 << 10, 4), "a quarter of it");
        assert!((model.bandwidth_scale - 1.0).abs() < 1e-9);
    }

    #[test]
    fn bandwidth_follows_the_cores_and_the_last_cache_is_shared() {
        let model = model_of("machine-c");
        assert!((model.bandwidth_scale - 0.25).abs() < 1e-9);
        assert!((model.controllers_gb_per_s[0] - 76.8 / 4.0).abs() < 1e-9);
        assert_eq!(model.caches[2].cache_of_cpu, [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(model.caches[0].cache_of_cpu, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn the_first_level_is_as_large_as_described_up_to_a_quarter_of_the_next() {
        let of = |name: &str, scale: u32| {
            let (_, mut description) = named(name).unwrap();
            description.lab.as_mut().unwrap().cache_scale = scale;
            let model = Model::from_description(&description, &laid_out(&description)).unwrap();
            model.caches.iter().map(|cache| cache.bytes >> 10).collect::<Vec<_>>()
        };
        assert_eq!(of("machine-b", 1), [32, 256, 18 << 10]);
        assert_eq!(of("machine-b", 2), [32, 128, 9 << 10]);
        assert_eq!(of("machine-b", 16), [4, 16, 1152]);
        assert_eq!(of("machine-a", 64), [4, 16]);
    }

    #[test]
    fn a_memory_only_node_is_reached_both_ways() {
        let model = model_of("cxl");
        assert_eq!(model.latency_ns[0], [110.0, 250.0]);
        assert!((model.latency_ns[1][0] - 250.0).abs() < 1e-9);
        assert!(model.node_of_cpu.iter().all(|n| *n == 0));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let (_, description) = named("machine-b").unwrap();
        let layout = laid_out(&description);
        let error = |description: &Description, layout: &Layout| {
            Model::from_description(description, layout).unwrap_err().to_string()
        };
        let mut without = description.clone();
        without.processor.ghz = None;
        without.processor.source = numapilot_topology::description::Source::from("x");
        assert!(error(&without, &layout).contains("processor.ghz"), "{}", error(&without, &layout));
        let mut wrong = layout.clone();
        wrong.cpus[0].node = 9;
        assert!(error(&description, &wrong).contains("node 9"));
        wrong = layout.clone();
        wrong.ranges[1].start = PAGE_BYTES;
        assert!(error(&description, &wrong).contains("overlap"));
        wrong.ranges[1].start = 5;
        assert!(error(&description, &wrong).contains("whole pages"));
        wrong = layout.clone();
        wrong.ranges.clear();
        assert!(error(&description, &wrong).contains("no memory"));
        wrong = layout.clone();
        wrong.ranges.iter_mut().for_each(|range| range.start += MAX_ADDRESS);
        assert!(error(&description, &wrong).contains("lab.memory_per_node"));
        wrong = layout.clone();
        wrong.cpus = vec![layout.cpus[0]; 65];
        assert!(error(&description, &wrong).contains("lab.cpus_per_node"));
        let mut lost = description.clone();
        lost.links[0].between.clear();
        assert!(error(&lost, &layout).contains("links"));
    }
}

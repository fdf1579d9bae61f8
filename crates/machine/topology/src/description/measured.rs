//! Describes a measured machine, so that `--machine` can read it later.

use super::{
    ByteSize, CacheLevel, Description, DescriptionError, Distances, LoadedLatency, NodeGroup,
    Processor, SharedBy, Source,
};
use crate::measure::{Measurement, Sample};
use crate::{Cache, CpuId, CpuSet, Machine, Node};

impl Description {
    /// Describes `machine` with the figures of `measurement`. Every source names `when`, such as
    /// `"2026-01-31"`.
    ///
    /// # Errors
    /// When a figure that a description needs could not be measured, or the machine does
    /// not pass [`Description::check`].
    pub fn measured(
        machine: &Machine,
        measurement: &Measurement,
        when: &str,
    ) -> Result<Self, DescriptionError> {
        let kernel = Source::All(format!("the kernel of {}, {when}", machine.name));
        let measured = Source::All(format!("measured {when} on {}", machine.name));
        let model = machine.processor.clone().unwrap_or_else(|| "unnamed processor".to_owned());
        let mut nodes = Vec::with_capacity(machine.nodes.len());
        for (i, node) in machine.nodes.iter().enumerate() {
            nodes.push(node_group(machine, measurement, i, node, &kernel, &measured)?);
        }
        let several = machine.nodes.len() > 1;
        let distances = Distances {
            hop_factors: Vec::new(),
            latency_ns: matrix(machine, "latency_ns", &measurement.latency_ns, 1)?,
            bandwidth_gb_per_s: matrix(
                machine,
                "bandwidth_gb_per_s",
                &measurement.bandwidth_gb_per_s,
                2,
            )?,
            slit: machine.distances.clone(),
            source: measured.clone(),
        };
        let description = Self {
            title: format!("{}: {model}", machine.name),
            source: format!("measured {when} on {} by numapilot", machine.name),
            processor: Processor {
                model,
                ghz: None,
                base_cpi: None,
                memory_level_parallelism: None,
                nodes_per_package: nodes_per_package(machine),
                source: kernel.clone(),
            },
            caches: cache_levels(machine, &kernel),
            tlb: None,
            nodes,
            links: Vec::new(),
            distances: several.then(|| with_kernels_slit(distances, &kernel, &measured)),
            loaded_latency: measurement
                .loaded_latency
                .iter()
                .map(|loaded| LoadedLatency {
                    node: loaded.node,
                    bandwidth_gb_per_s: loaded
                        .points
                        .iter()
                        .map(|p| round(p.gb_per_s, 2))
                        .collect(),
                    latency_ns: loaded
                        .points
                        .iter()
                        .map(|p| round(p.latency_ns.median, 1))
                        .collect(),
                    source: measured.clone(),
                })
                .collect(),
            lab: None,
        };
        description.check()?;
        Ok(description)
    }
}

/// Digits beyond the spread of any measurement are noise.
fn round(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

fn with_kernels_slit(mut distances: Distances, kernel: &Source, measured: &Source) -> Distances {
    if let (false, Source::All(kernel), Source::All(measured)) =
        (distances.slit.is_empty(), kernel, measured)
    {
        distances.source = Source::Each(
            [("slit".to_owned(), kernel.clone()), ("other".to_owned(), measured.clone())].into(),
        );
    }
    distances
}

fn matrix(
    machine: &Machine,
    what: &str,
    samples: &[Vec<Option<Sample>>],
    digits: i32,
) -> Result<Vec<Vec<f64>>, DescriptionError> {
    let cell = |i: usize, j: usize| {
        samples.get(i).and_then(|row| *row.get(j)?).map(|s| round(s.median, digits)).ok_or_else(
            || {
                DescriptionError::invalid(
                    format!("distances.{what}[{i}][{j}]"),
                    format!(
                        "could not be measured from node {} to node {}, so the machine cannot be \
                     saved; see the reason above",
                        machine.nodes[i].id, machine.nodes[j].id
                    ),
                )
            },
        )
    };
    let n = machine.nodes.len();
    (0..n)
        .map(|i| {
            let columns = if machine.nodes[i].cpus.is_empty() { 0 } else { n };
            (0..columns).map(|j| cell(i, j)).collect()
        })
        .collect()
}

fn node_group(
    machine: &Machine,
    measurement: &Measurement,
    i: usize,
    node: &Node,
    kernel: &Source,
    measured: &Source,
) -> Result<NodeGroup, DescriptionError> {
    let (cores, threads, cpus) = cores_of(machine, node);
    // A machine with a single node has no matrix for these figures.
    let only = machine.nodes.len() == 1;
    let local = |samples: &[Vec<Option<Sample>>], digits| {
        only.then(|| samples.get(i)?.get(i).copied().flatten())
            .flatten()
            .map(|sample| round(sample.median, digits))
    };
    let latency_ns = local(&measurement.latency_ns, 1);
    let bandwidth_gb_per_s = local(&measurement.bandwidth_gb_per_s, 2);
    if only && (latency_ns.is_none() || bandwidth_gb_per_s.is_none()) {
        return Err(DescriptionError::invalid(
            "nodes[0]",
            "could not be measured, so the machine cannot be saved; see the reason above",
        ));
    }
    let source = match (only, kernel, measured) {
        (true, Source::All(kernel), Source::All(measured)) => Source::Each(
            [
                ("latency_ns".to_owned(), measured.clone()),
                ("bandwidth_gb_per_s".to_owned(), measured.clone()),
                ("other".to_owned(), kernel.clone()),
            ]
            .into(),
        ),
        _ => kernel.clone(),
    };
    Ok(NodeGroup {
        ids: [node.id].into_iter().collect(),
        cores,
        threads_per_core: (threads > 1).then_some(threads),
        cpus: (cores > 0).then_some(cpus),
        memory: (node.memory_bytes > 0).then_some(ByteSize(node.memory_bytes)),
        latency_ns,
        bandwidth_gb_per_s,
        source,
    })
}

/// Cores, threads per core and the CPUs, first threads first. When cores differ in their number of
/// threads, each CPU counts as a core.
fn cores_of(machine: &Machine, node: &Node) -> (u32, u32, String) {
    let mut cores: Vec<Vec<CpuId>> = Vec::new();
    for cpu in node.cpus.iter() {
        let siblings = machine.cpu(cpu).map(|c| c.siblings.intersection(&node.cpus));
        let siblings = siblings.filter(|s| s.contains(cpu)).unwrap_or_default();
        if siblings.first().is_none_or(|first| first == cpu) {
            let core: Vec<CpuId> = siblings.iter().collect();
            cores.push(if core.is_empty() { vec![cpu] } else { core });
        }
    }
    let threads = cores.first().map_or(1, Vec::len);
    if cores.iter().any(|core| core.len() != threads) {
        cores = node.cpus.iter().map(|cpu| vec![cpu]).collect();
    }
    let threads = cores.first().map_or(1, Vec::len);
    let order: Vec<CpuId> =
        (0..threads).flat_map(|t| cores.iter().map(move |core| core[t])).collect();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    (count(cores.len()), count(threads), list_in_order(&order))
}

/// `4-7,0-3`: runs of ascending ids, in the order given.
fn list_in_order(cpus: &[CpuId]) -> String {
    let mut runs: Vec<CpuSet> = Vec::new();
    let mut last = None;
    for &cpu in cpus {
        match runs.last_mut() {
            Some(run) if last.is_some_and(|last: u32| cpu.0 == last + 1) => {
                run.insert(cpu);
            }
            _ => runs.push([cpu].into_iter().collect()),
        }
        last = Some(cpu.0);
    }
    runs.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Nodes with CPUs per package, when consecutive nodes fill the packages evenly.
fn nodes_per_package(machine: &Machine) -> Option<u32> {
    let packages: Option<Vec<u32>> = machine
        .nodes
        .iter()
        .filter_map(|node| node.cpus.first())
        .map(|cpu| machine.cpu(cpu)?.package)
        .collect();
    let packages = packages?;
    let first = packages.iter().take_while(|p| **p == packages[0]).count();
    let even =
        packages.chunks(first.max(1)).all(|c| c.len() == first && c.iter().all(|p| *p == c[0]));
    let count = u32::try_from(first).ok().filter(|n| *n > 1);
    count.filter(|_| even)
}

/// The caches of the first core; every core is assumed to have the same.
fn cache_levels(machine: &Machine, kernel: &Source) -> Vec<CacheLevel> {
    let mut levels: Vec<CacheLevel> = Vec::new();
    for cache in &machine.caches {
        if levels.iter().any(|l| l.level == cache.level && l.kind == cache.kind) {
            continue;
        }
        let (Some(size), Some(shared_by)) = (cache.size_bytes, shared_by(machine, cache)) else {
            continue;
        };
        let way = u64::from(cache.ways.unwrap_or(1)) * u64::from(cache.line_bytes.unwrap_or(1));
        levels.push(CacheLevel {
            level: cache.level,
            kind: cache.kind,
            size: ByteSize(size),
            // Some kernels state ways that do not divide the size.
            ways: cache.ways.filter(|w| *w > 0 && way > 0 && size.is_multiple_of(way)),
            line_bytes: cache.line_bytes,
            latency_cycles: None,
            shared_by,
            source: kernel.clone(),
        });
    }
    levels
}

fn shared_by(machine: &Machine, cache: &Cache) -> Option<SharedBy> {
    let cpu = machine.cpu(cache.cpus.first()?)?;
    let node = machine.node(cpu.node?)?;
    let package: CpuSet = machine
        .cpus
        .iter()
        .filter(|c| c.online && c.package == cpu.package)
        .map(|c| c.id)
        .collect();
    if cache.cpus == cpu.siblings {
        return Some(SharedBy::Core);
    }
    if cache.cpus.len() == 1 {
        return Some(SharedBy::Cpu);
    }
    if cache.cpus == node.cpus {
        return Some(SharedBy::Node);
    }
    if cache.cpus == package {
        return Some(SharedBy::Package);
    }
    let cores = machine.cores(&cache.cpus);
    let divides = machine.nodes.iter().all(|n| machine.cores(&n.cpus).is_multiple_of(cores.max(1)));
    u32::try_from(cores).ok().filter(|n| *n > 0 && divides).map(SharedBy::Cores)
}

//! Makes a [`Machine`] from a description.

use std::collections::{BTreeMap, HashSet};

use super::{CacheLevel, Description, DescriptionError, Distances, NodeGroup, SharedBy};
use crate::routes::Routes;
use crate::{Allowed, Cache, Cpu, CpuId, CpuSet, Figures, Link, ListError, Machine, Node, NodeId};

/// Nodes with their CPUs numbered, in ascending order of node id.
pub(super) struct Layout<'a> {
    pub(super) nodes: Vec<NodeLayout<'a>>,
}

/// A node with its CPUs numbered.
pub(super) struct NodeLayout<'a> {
    pub(super) id: NodeId,
    pub(super) group: &'a NodeGroup,
    /// `None` for a memory-only node.
    pub(super) package: Option<u32>,
    /// CPUs of each core.
    pub(super) cores: Vec<CpuSet>,
    pub(super) cpus: CpuSet,
}

impl Layout<'_> {
    /// Position of a node in every matrix.
    pub(super) fn index(&self, id: NodeId) -> Option<usize> {
        self.nodes.binary_search_by_key(&id, |n| n.id).ok()
    }
}

impl Description {
    /// The machine described. Every CPU is online, everything is allowed, and all memory is free.
    ///
    /// # Errors
    /// When the description does not pass [`Description::check`].
    pub fn machine(&self, name: &str) -> Result<Machine, DescriptionError> {
        self.check()?;
        let layout = self.layout()?;
        let links: Vec<Link> = self
            .links
            .iter()
            .flat_map(|group| {
                group.between.iter().map(|&[from, to]| Link {
                    from,
                    to,
                    gb_per_s: group.bandwidth_gb_per_s,
                })
            })
            .collect();
        let ends: Vec<(usize, usize, f64)> = links
            .iter()
            .filter_map(|l| Some((layout.index(l.from)?, layout.index(l.to)?, l.gb_per_s)))
            .collect();
        let routes = Routes::new(layout.nodes.len(), &ends);
        let figures = self.figures(&layout, &routes);
        let mut caches: Vec<Cache> =
            self.caches.iter().flat_map(|level| caches_of(level, &layout)).collect();
        caches.sort_by_key(|cache| (cache.level, cache.kind, cache.cpus.first()));
        let machine = Machine {
            name: name.to_owned(),
            processor: Some(self.processor.model.clone()),
            nodes: layout
                .nodes
                .iter()
                .map(|node| Node {
                    id: node.id,
                    cpus: node.cpus.clone(),
                    memory_bytes: node.group.memory.map_or(0, |size| size.0),
                    ..Node::default()
                })
                .collect(),
            cpus: cpus_of(&layout),
            caches,
            distances: self.slit(&figures.latency_ns),
            links,
            figures,
            allowed: Allowed {
                cpus: layout.nodes.iter().flat_map(|n| n.cpus.iter()).collect(),
                nodes: layout
                    .nodes
                    .iter()
                    .filter(|n| n.group.memory.is_some())
                    .map(|n| n.id)
                    .collect(),
            },
        };
        Ok(machine)
    }

    /// Numbers the CPUs as `cpus` says, or else the first threads of all nodes before the second
    /// ones.
    pub(super) fn layout(&self) -> Result<Layout<'_>, DescriptionError> {
        let groups: BTreeMap<NodeId, (usize, &NodeGroup)> = self
            .nodes
            .iter()
            .enumerate()
            .flat_map(|(i, group)| group.ids.iter().map(move |id| (id, (i, group))))
            .collect();
        let explicit = self.nodes.iter().any(|g| g.cpus.is_some());
        let mut nodes = Vec::with_capacity(groups.len());
        let nodes_per_package = self.processor.nodes_per_package.unwrap_or(1).max(1);
        let mut with_cpus = 0;
        for (&id, &(i, group)) in &groups {
            let mut cores = vec![CpuSet::new(); group.cores as usize];
            if explicit {
                for (n, cpu) in explicit_cpus(i, group)?.into_iter().enumerate() {
                    cores[n % group.cores as usize].insert(cpu);
                }
            }
            let package = (group.cores > 0).then(|| {
                with_cpus += 1;
                (with_cpus - 1) / nodes_per_package
            });
            nodes.push(NodeLayout { id, group, package, cores, cpus: CpuSet::new() });
        }
        if !explicit {
            number_cpus(&mut nodes);
        }
        let mut seen = HashSet::new();
        for node in &mut nodes {
            node.cpus = node.cores.iter().flat_map(|core| core.iter()).collect();
            if let Some(cpu) = node.cpus.iter().find(|cpu| !seen.insert(*cpu)) {
                return Err(DescriptionError::invalid(
                    "nodes",
                    format!("CPU {cpu} is in `cpus` of two nodes"),
                ));
            }
        }
        Ok(Layout { nodes })
    }

    fn figures(&self, layout: &Layout, routes: &Routes) -> Figures {
        let none = Distances::default();
        let d = self.distances.as_ref().unwrap_or(&none);
        let matrix = |given: &[Vec<f64>], derived: &dyn Fn(usize, usize) -> Option<f64>| {
            let n = layout.nodes.len();
            let cell = |i: usize, j: usize| match given.get(i) {
                Some(row) => row.get(j).copied(),
                None if layout.nodes[i].cpus.is_empty() => None,
                None => derived(i, j),
            };
            (0..n).map(|i| (0..n).map(|j| cell(i, j)).collect()).collect()
        };
        let latency = |i: usize, j: usize| {
            let node = &layout.nodes[j];
            let local = node.group.latency_ns?;
            let hops = routes.hops(i, j)? as usize;
            if hops == 0 {
                return Some(local);
            }
            let factor = d.hop_factors.get(hops)?;
            // A memory-only node's latency is stated for one hop.
            let stated_at = if node.cpus.is_empty() { d.hop_factors.get(1)? } else { &1.0 };
            Some(local * factor / stated_at)
        };
        let bandwidth = |i: usize, j: usize| {
            Some(layout.nodes[j].group.bandwidth_gb_per_s?.min(routes.gb_per_s(i, j)?))
        };
        Figures {
            source: Some(self.source_of_figures()),
            latency_ns: matrix(&d.latency_ns, &latency),
            bandwidth_gb_per_s: matrix(&d.bandwidth_gb_per_s, &bandwidth),
        }
    }

    /// The source of the description, and which of its latencies and bandwidths are assumed.
    fn source_of_figures(&self) -> String {
        let mut assumed = Vec::new();
        let nodes = |key, given: fn(&NodeGroup) -> bool| {
            self.nodes.iter().any(|group| given(group) && group.source.is_assumed(key))
        };
        let distances =
            |key| self.distances.as_ref().is_some_and(|d: &Distances| d.source.is_assumed(key));
        let given = |matrix: fn(&Distances) -> bool| self.distances.as_ref().is_some_and(matrix);
        if given(|d| !d.latency_ns.is_empty()) {
            assumed.extend(distances("latency_ns").then_some("latency"));
        } else {
            let local = nodes("latency_ns", |group| group.latency_ns.is_some());
            assumed.extend(local.then_some("local latency"));
            let factors = given(|d| !d.hop_factors.is_empty()) && distances("hop_factors");
            assumed.extend(factors.then_some("remote latency"));
        }
        let links = self.links.iter().any(|group| group.source.is_assumed("bandwidth_gb_per_s"));
        let bandwidth = nodes("bandwidth_gb_per_s", |group| group.bandwidth_gb_per_s.is_some());
        assumed.extend((links || bandwidth).then_some("bandwidth in part"));
        if assumed.is_empty() {
            return self.source.clone();
        }
        format!("{}; assumed: {}", self.source, assumed.join(", "))
    }

    /// Distances as given, or as firmware derives them: ten times latency over local latency (ACPI
    /// 6.5, 5.2.17). A distance from a memory-only node cannot be measured, so it is taken from the
    /// opposite direction. Between two such nodes it is the longest distance of the machine.
    fn slit(&self, latency_ns: &[Vec<Option<f64>>]) -> Vec<Vec<u32>> {
        if let Some(d) = self.distances.as_ref().filter(|d| !d.slit.is_empty()) {
            return d.slit.clone();
        }
        let n = latency_ns.len();
        let measured = |i: usize, j: usize| {
            // Relative to the faster end, so that both directions agree.
            let local = match (latency_ns[i][i], latency_ns[j][j]) {
                (Some(a), Some(b)) => a.min(b),
                (a, b) => a.or(b)?,
            };
            let there = match (latency_ns[i][j], latency_ns[j][i]) {
                (Some(a), Some(b)) => a.midpoint(b),
                (a, b) => a.or(b)?,
            };
            // In range: the value is clamped to what a SLIT byte holds.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Some((10.0 * there / local).round().clamp(11.0, 254.0) as u32)
        };
        let longest = (0..n)
            .flat_map(|i| (0..n).filter(move |j| *j != i).filter_map(move |j| measured(i, j)))
            .max()
            .unwrap_or(20);
        let distance =
            |i: usize, j: usize| if i == j { 10 } else { measured(i, j).unwrap_or(longest) };
        (0..n).map(|i| (0..n).map(|j| distance(i, j)).collect()).collect()
    }
}

/// The CPUs of a group that lists them, in the order given.
fn explicit_cpus(i: usize, group: &NodeGroup) -> Result<Vec<CpuId>, DescriptionError> {
    let at = format!("nodes[{i}].cpus");
    let text = match &group.cpus {
        Some(text) => text,
        None if group.cores == 0 => return Ok(Vec::new()),
        None => {
            return Err(DescriptionError::invalid(
                at,
                "is missing; list the CPUs of every node with cores, or of none",
            ));
        }
    };
    if group.ids.len() != 1 {
        return Err(DescriptionError::invalid(
            at,
            "lists the CPUs of one node; give each node its own entry",
        ));
    }
    // Part by part: the order of the list says which CPU is a core's first thread.
    let parts: Result<Vec<CpuSet>, ListError> = text.split(',').map(str::parse).collect();
    let parts = parts.map_err(|why| DescriptionError::invalid(&at, why.to_string()))?;
    let cpus: Vec<CpuId> = parts.iter().flat_map(|part| part.iter()).collect();
    let distinct: HashSet<CpuId> = cpus.iter().copied().collect();
    let need = group.cpus_per_node() as usize;
    if cpus.len() != need || distinct.len() != need {
        return Err(DescriptionError::invalid(
            at,
            format!("lists {} different CPUs; cores times threads are {need}", distinct.len()),
        ));
    }
    Ok(cpus)
}

fn number_cpus(nodes: &mut [NodeLayout]) {
    let mut next = 0;
    let most = nodes.iter().map(|n| n.group.threads_per_core.unwrap_or(1)).max().unwrap_or(1);
    for thread in 0..most {
        for node in &mut *nodes {
            if thread >= node.group.threads_per_core.unwrap_or(1) {
                continue;
            }
            for core in &mut node.cores {
                core.insert(CpuId(next));
                next += 1;
            }
        }
    }
}

fn cpus_of(layout: &Layout) -> Vec<Cpu> {
    let mut cpus = Vec::new();
    let mut cores_in_package: BTreeMap<Option<u32>, u32> = BTreeMap::new();
    for node in &layout.nodes {
        let next = cores_in_package.entry(node.package).or_default();
        for siblings in &node.cores {
            let core = *next;
            *next += 1;
            cpus.extend(siblings.iter().map(|id| Cpu {
                id,
                node: Some(node.id),
                online: true,
                core: Some(core),
                package: node.package,
                siblings: siblings.clone(),
            }));
        }
    }
    cpus.sort_by_key(|cpu| cpu.id);
    cpus
}

fn caches_of(level: &CacheLevel, layout: &Layout) -> Vec<Cache> {
    let nodes = || layout.nodes.iter().filter(|n| !n.cpus.is_empty());
    let sharers: Vec<CpuSet> = match level.shared_by {
        SharedBy::Cpu => {
            nodes().flat_map(|n| n.cpus.iter()).map(|cpu| [cpu].into_iter().collect()).collect()
        }
        SharedBy::Core => nodes().flat_map(|n| n.cores.iter().cloned()).collect(),
        SharedBy::Cores(count) => nodes()
            .flat_map(|n| n.cores.chunks(count.max(1) as usize))
            .map(|cores| cores.iter().flat_map(CpuSet::iter).collect())
            .collect(),
        SharedBy::Node => nodes().map(|n| n.cpus.clone()).collect(),
        SharedBy::Package => {
            let mut packages: BTreeMap<Option<u32>, CpuSet> = BTreeMap::new();
            for node in nodes() {
                let cpus = packages.entry(node.package).or_default();
                *cpus = cpus.union(&node.cpus);
            }
            packages.into_values().collect()
        }
    };
    sharers
        .into_iter()
        .map(|cpus| Cache {
            level: level.level,
            kind: level.kind,
            size_bytes: Some(level.size.0),
            ways: level.ways,
            line_bytes: level.line_bytes,
            cpus,
        })
        .collect()
}

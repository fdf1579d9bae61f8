//! What a description must satisfy before a machine is built from it.
//!
//! The limits are ten times beyond any existing machine. They catch a wrong digit or unit, and
//! accept new machines.

use std::collections::HashSet;

use super::convert::Layout;
use super::{ByteSize, CacheLevel, Description, DescriptionError, Distances, SharedBy};
use crate::routes::Routes;

type Check = Result<(), DescriptionError>;

const MAX_NODES: usize = 1024;
/// The largest `NR_CPUS` of a kernel (x86, `CONFIG_MAXSMP`).
const MAX_CPUS: u32 = 8192;
const MAX_MEMORY: ByteSize = ByteSize(1 << 50);
const MAX_CACHE: ByteSize = ByteSize(1 << 36);
/// How far the two directions of a latency may differ before one of them is a mistake.
const MAX_ASYMMETRY: f64 = 2.0;

fn invalid(at: impl Into<String>, why: impl Into<String>) -> Check {
    Err(DescriptionError::invalid(at, why))
}

fn within(at: &str, value: f64, low: f64, high: f64) -> Check {
    // In this form, NaN is outside.
    if (low..=high).contains(&value) {
        return Ok(());
    }
    invalid(at, format!("{value} is not possible; it must be from {low} to {high}"))
}

fn optional(at: &str, value: Option<f64>, low: f64, high: f64) -> Check {
    value.map_or(Ok(()), |value| within(at, value, low, high))
}

const LATENCY_NS: (f64, f64) = (1.0, 100_000.0);
const BANDWIDTH_GB_PER_S: (f64, f64) = (0.001, 100_000.0);

impl Description {
    /// Checks everything: values, sources, and that the parts fit together.
    ///
    /// # Errors
    /// [`DescriptionError`] naming the place, the cause and the remedy.
    pub fn check(&self) -> Result<(), DescriptionError> {
        if self.title.trim().is_empty() {
            return invalid("title", "is empty; describe the machine in one line");
        }
        let p = &self.processor;
        optional("processor.ghz", p.ghz, 0.05, 20.0)?;
        optional("processor.base_cpi", p.base_cpi, 0.05, 50.0)?;
        let mlp = p.memory_level_parallelism;
        optional("processor.memory_level_parallelism", mlp, 1.0, 256.0)?;
        if p.nodes_per_package == Some(0) {
            return invalid("processor.nodes_per_package", "is 0; leave it out for 1");
        }
        self.check_nodes()?;
        let layout = self.layout()?;
        for (i, cache) in self.caches.iter().enumerate() {
            check_cache(&format!("caches[{i}]"), cache, &layout)?;
        }
        self.check_tlb()?;
        let routes = self.check_links(&layout)?;
        self.check_distances(&layout, routes.as_ref())?;
        self.check_loaded_latency(&layout)?;
        self.check_lab()?;
        self.check_sources()
    }

    fn check_nodes(&self) -> Check {
        let mut seen = HashSet::new();
        let mut cpus = 0u32;
        for (i, group) in self.nodes.iter().enumerate() {
            let at = format!("nodes[{i}]");
            if group.ids.is_empty() {
                return invalid(format!("{at}.ids"), "is empty; list the nodes: \"0-3\"");
            }
            if let Some(id) = group.ids.iter().find(|id| !seen.insert(*id)) {
                return invalid(format!("{at}.ids"), format!("node {id} is listed twice"));
            }
            if seen.len() > MAX_NODES {
                return invalid(
                    format!("{at}.ids"),
                    format!("more than {MAX_NODES} nodes, the most that Linux supports"),
                );
            }
            if group.threads_per_core.is_some_and(|t| !(1..=16).contains(&t)) {
                return invalid(format!("{at}.threads_per_core"), "must be from 1 to 16");
            }
            let count = u32::try_from(group.ids.len()).unwrap_or(u32::MAX);
            cpus = cpus.saturating_add(group.cpus_per_node().saturating_mul(count));
            if cpus > MAX_CPUS {
                return invalid(
                    format!("{at}.cores"),
                    format!("more than {MAX_CPUS} CPUs in all, the most that Linux supports"),
                );
            }
            match group.memory {
                Some(ByteSize(0)) => {
                    return invalid(
                        format!("{at}.memory"),
                        "leave `memory` out for a node without memory",
                    );
                }
                Some(size) if size > MAX_MEMORY => {
                    return invalid(
                        format!("{at}.memory"),
                        format!("{size} is not possible; at most {MAX_MEMORY} a node"),
                    );
                }
                None if group.cores == 0 => {
                    return invalid(at, "has neither cores nor memory; give it one of them");
                }
                _ => {}
            }
            let (low, high) = LATENCY_NS;
            optional(&format!("{at}.latency_ns"), group.latency_ns, low, high)?;
            let (low, high) = BANDWIDTH_GB_PER_S;
            optional(&format!("{at}.bandwidth_gb_per_s"), group.bandwidth_gb_per_s, low, high)?;
        }
        if !self.nodes.iter().any(|g| g.cores > 0) {
            return invalid("nodes", "no node has cores; programs must run somewhere");
        }
        if !self.nodes.iter().any(|g| g.memory.is_some()) {
            return invalid("nodes", "no node has memory");
        }
        Ok(())
    }

    fn check_tlb(&self) -> Check {
        let Some(tlb) = &self.tlb else { return Ok(()) };
        within("tlb.walk_cycles", tlb.walk_cycles, 0.0, 100_000.0)?;
        for (at, levels) in
            [("tlb.entries_4k", &tlb.entries_4k), ("tlb.entries_2m", &tlb.entries_2m)]
        {
            if levels.is_empty() || levels.len() > 3 {
                return invalid(at, "needs one to three levels, first level first: [64, 1536]");
            }
            for &entries in levels {
                within(at, f64::from(entries), 1.0, 1e6)?;
            }
        }
        Ok(())
    }

    /// Checks links and returns the routes over them, or `None` without links.
    fn check_links(&self, layout: &Layout) -> Result<Option<Routes>, DescriptionError> {
        if self.links.is_empty() {
            return Ok(None);
        }
        let mut links = Vec::new();
        let mut seen = HashSet::new();
        for (i, group) in self.links.iter().enumerate() {
            let at = format!("links[{i}].bandwidth_gb_per_s");
            within(&at, group.bandwidth_gb_per_s, BANDWIDTH_GB_PER_S.0, BANDWIDTH_GB_PER_S.1)?;
            let at = format!("links[{i}].between");
            if group.between.is_empty() {
                invalid(&at, "is empty; list pairs of nodes: [[0, 1], [1, 2]]")?;
            }
            for &[from, to] in &group.between {
                if from == to {
                    invalid(&at, format!("links node {from} to itself"))?;
                }
                if !seen.insert((from.min(to), from.max(to))) {
                    invalid(
                        &at,
                        format!("nodes {from} and {to} are linked twice; add up the bandwidths"),
                    )?;
                }
                let (Some(a), Some(b)) = (layout.index(from), layout.index(to)) else {
                    let unknown = if layout.index(from).is_none() { from } else { to };
                    return Err(DescriptionError::invalid(
                        at,
                        format!("node {unknown} is not among `nodes`"),
                    ));
                };
                links.push((a, b, group.bandwidth_gb_per_s));
            }
        }
        let routes = Routes::new(layout.nodes.len(), &links);
        if let Some(lost) = (0..layout.nodes.len()).find(|to| routes.hops(0, *to).is_none()) {
            invalid(
                "links",
                format!(
                    "node {} cannot be reached from node {}; add the missing link",
                    layout.nodes[lost].id, layout.nodes[0].id
                ),
            )?;
        }
        Ok(Some(routes))
    }

    fn check_distances(&self, layout: &Layout, routes: Option<&Routes>) -> Check {
        let none = Distances::default();
        let d = self.distances.as_ref().unwrap_or(&none);
        let n = layout.nodes.len();
        check_hop_factors(&d.hop_factors, routes, n)?;
        let rows_of = |i: usize| if layout.nodes[i].cpus.is_empty() { 0 } else { n };
        let at = "distances.latency_ns";
        check_matrix(at, &d.latency_ns, n, rows_of, LATENCY_NS)?;
        check_symmetry(at, &d.latency_ns, |a, b| a / b <= MAX_ASYMMETRY && b / a <= MAX_ASYMMETRY)?;
        let at = "distances.bandwidth_gb_per_s";
        check_matrix(at, &d.bandwidth_gb_per_s, n, rows_of, BANDWIDTH_GB_PER_S)?;
        let slit: Vec<Vec<f64>> =
            d.slit.iter().map(|row| row.iter().map(|v| f64::from(*v)).collect()).collect();
        check_matrix("distances.slit", &slit, n, |_| n, (10.0, 254.0))?;
        check_symmetry("distances.slit", &slit, |a, b| a.total_cmp(&b).is_eq())?;
        if let Some(i) = (0..slit.len()).find(|i| slit[*i][*i].total_cmp(&10.0).is_ne()) {
            return invalid(format!("distances.slit[{i}][{i}]"), "must be 10, which is local");
        }
        if n > 1 && d.latency_ns.is_empty() && (d.hop_factors.is_empty() || routes.is_none()) {
            return invalid(
                "distances",
                "remote latency is missing; give `hop_factors` together with `links`, or the \
                 matrix `latency_ns`",
            );
        }
        for (i, group) in self.nodes.iter().enumerate().filter(|(_, g)| g.memory.is_some()) {
            let missing = match (group.latency_ns, group.bandwidth_gb_per_s) {
                (None, _) if d.latency_ns.is_empty() => "latency_ns",
                (_, None) if d.bandwidth_gb_per_s.is_empty() => "bandwidth_gb_per_s",
                (Some(_), _) if !d.latency_ns.is_empty() => {
                    return invalid(
                        format!("nodes[{i}].latency_ns"),
                        "is also in `distances.latency_ns`; say it once",
                    );
                }
                _ => continue,
            };
            return invalid(
                format!("nodes[{i}]"),
                format!("`{missing}` is missing; give it here, or as a matrix in `distances`"),
            );
        }
        Ok(())
    }

    fn check_loaded_latency(&self, layout: &Layout) -> Check {
        for (i, loaded) in self.loaded_latency.iter().enumerate() {
            let at = format!("loaded_latency[{i}]");
            if layout.index(loaded.node).is_none() {
                return invalid(at, format!("node {} is not among `nodes`", loaded.node));
            }
            if loaded.bandwidth_gb_per_s.len() != loaded.latency_ns.len() {
                return invalid(
                    at,
                    "has different numbers of bandwidths and latencies; give one latency for each bandwidth",
                );
            }
            for &bandwidth in &loaded.bandwidth_gb_per_s {
                within(&format!("{at}.bandwidth_gb_per_s"), bandwidth, 0.0, BANDWIDTH_GB_PER_S.1)?;
            }
            for &latency in &loaded.latency_ns {
                within(&format!("{at}.latency_ns"), latency, LATENCY_NS.0, LATENCY_NS.1)?;
            }
        }
        Ok(())
    }

    fn check_lab(&self) -> Check {
        let Some(lab) = &self.lab else { return Ok(()) };
        within("lab.cpus_per_node", f64::from(lab.cpus_per_node), 1.0, 64.0)?;
        within("lab.cache_scale", f64::from(lab.cache_scale), 1.0, 65_536.0)?;
        let memory = lab.memory_per_node;
        if !(ByteSize(16 << 20)..=MAX_MEMORY).contains(&memory) {
            return invalid(
                "lab.memory_per_node",
                format!("{memory} is not within 16 MiB to {MAX_MEMORY}"),
            );
        }
        Ok(())
    }
}

fn check_cache(at: &str, cache: &CacheLevel, layout: &Layout) -> Check {
    if !(1..=5).contains(&cache.level) {
        return invalid(format!("{at}.level"), "must be from 1 to 5");
    }
    if !(ByteSize(256)..=MAX_CACHE).contains(&cache.size) {
        return invalid(
            format!("{at}.size"),
            format!("{} is not possible; it must be from 256 B to {MAX_CACHE}", cache.size),
        );
    }
    if cache.ways.is_some_and(|w| !(1..=65_536).contains(&w)) {
        return invalid(format!("{at}.ways"), "must be from 1 to 65536");
    }
    if cache.line_bytes.is_some_and(|l| !l.is_power_of_two() || !(8..=4096).contains(&l)) {
        return invalid(format!("{at}.line_bytes"), "must be a power of two from 8 to 4096");
    }
    if let (Some(ways), Some(line)) = (cache.ways, cache.line_bytes) {
        let way = u64::from(ways) * u64::from(line);
        if !cache.size.0.is_multiple_of(way) {
            return invalid(
                format!("{at}.size"),
                format!("{} is not a multiple of {ways} ways of {line} bytes", cache.size),
            );
        }
    }
    optional(&format!("{at}.latency_cycles"), cache.latency_cycles, 0.5, 100_000.0)?;
    if let SharedBy::Cores(n) = cache.shared_by
        && let Some(node) =
            layout.nodes.iter().find(|node| !node.cores.len().is_multiple_of(n as usize))
    {
        return invalid(
            format!("{at}.shared_by"),
            format!(
                "{} does not divide the {} cores of node {}",
                cache.shared_by,
                node.cores.len(),
                node.id
            ),
        );
    }
    Ok(())
}

fn check_hop_factors(factors: &[f64], routes: Option<&Routes>, nodes: usize) -> Check {
    let at = "distances.hop_factors";
    let Some(first) = factors.first() else { return Ok(()) };
    if first.total_cmp(&1.0).is_ne() {
        return invalid(at, "must begin with 1, the factor of local accesses");
    }
    for &factor in factors {
        within(at, factor, 1.0, 100.0)?;
    }
    if factors.windows(2).any(|pair| pair[1] < pair[0]) {
        return invalid(at, "must not decrease; a longer route is never faster");
    }
    let Some(routes) = routes else {
        return invalid(at, "needs `links`, over which the hops are counted");
    };
    let longest = (0..nodes)
        .flat_map(|a| (0..nodes).filter_map(move |b| routes.hops(a, b)))
        .max()
        .unwrap_or(0) as usize;
    if factors.len() <= longest {
        return invalid(
            at,
            format!("has no factor for {longest} hops, the longest route over `links`"),
        );
    }
    Ok(())
}

/// Accepts an absent matrix. A present one must have `n` rows, and row `i` must have `columns(i)`
/// values.
fn check_matrix(
    at: &str,
    matrix: &[Vec<f64>],
    n: usize,
    columns: impl Fn(usize) -> usize,
    (low, high): (f64, f64),
) -> Check {
    if matrix.is_empty() {
        return Ok(());
    }
    if matrix.len() != n {
        return invalid(
            at,
            format!("has {} rows; it needs one for each of {n} nodes", matrix.len()),
        );
    }
    for (i, row) in matrix.iter().enumerate() {
        let need = columns(i);
        if row.len() != need {
            let why = if need == 0 { " (the node has no CPU to measure from)" } else { "" };
            return invalid(
                format!("{at}[{i}]"),
                format!("has {} values; it needs {need}{why}", row.len()),
            );
        }
        for (j, &value) in row.iter().enumerate() {
            within(&format!("{at}[{i}][{j}]"), value, low, high)?;
        }
    }
    Ok(())
}

fn check_symmetry(at: &str, matrix: &[Vec<f64>], alike: impl Fn(f64, f64) -> bool) -> Check {
    for (i, row) in matrix.iter().enumerate() {
        for (j, &value) in row.iter().enumerate() {
            match matrix[j].get(i) {
                Some(&back) if !alike(value, back) => {
                    return invalid(
                        format!("{at}[{i}][{j}]"),
                        format!(
                            "is {value} one way and {back} the other; the matrix must be symmetric"
                        ),
                    );
                }
                _ => {}
            }
        }
    }
    Ok(())
}

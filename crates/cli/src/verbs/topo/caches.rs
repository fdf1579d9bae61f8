//! Describes caches in words: those of one core, and those that cores of a node share.

use std::collections::BTreeMap;

use numapilot_cli_kit::terminal::bytes;
use numapilot_topology::{Cache, CacheKind, Machine, Node, NodeSet};

use super::fold::fold;

/// Identical caches: level, kind, size.
type Kind = (u32, CacheKind, Option<u64>);

/// The private caches of cores: `L1d 32.0 KiB x 64, L2 1.00 MiB x 64`.
pub fn of_cores(machine: &Machine) -> String {
    let kinds = grouped(machine.caches.iter().filter(|cache| is_private(machine, cache)));
    let words = kinds.iter().map(|(kind, group)| format!("{} x {}", name(kind), group.len()));
    words.collect::<Vec<_>>().join(", ")
}

/// The caches that several cores of a node share, one entry of folded lines per kind:
/// `L3 32.0 MiB x 2 shared by 0-3 | 4-7`.
pub fn shared(machine: &Machine, node: &Node, width: usize) -> Vec<Vec<String>> {
    let here = |cache: &&Cache| !cache.cpus.intersection(&node.cpus).is_empty();
    let caches = machine.caches.iter().filter(here).filter(|c| !is_private(machine, c));
    let kinds = grouped(caches);
    let line = |(kind, group): (&Kind, &Vec<&Cache>)| {
        let head = format!("{} x {} shared by ", name(kind), group.len());
        let sharers: Vec<_> = group.iter().map(|cache| sharers(machine, node, cache)).collect();
        fold(&head, &sharers.join(" | "), width)
    };
    kinds.iter().map(line).collect()
}

fn sharers(machine: &Machine, node: &Node, cache: &Cache) -> String {
    let here = cache.cpus.intersection(&node.cpus);
    let mut words = here.to_string();
    if here == node.cpus && words.contains(',') {
        "all CPUs".clone_into(&mut words);
    }
    let elsewhere = cache.cpus.difference(&node.cpus);
    let nodes: NodeSet = elsewhere.iter().filter_map(|id| machine.cpu(id)?.node).collect();
    match nodes.len() {
        0 => words,
        1 => format!("{words} and node {nodes}"),
        _ => format!("{words} and nodes {nodes}"),
    }
}

fn is_private(machine: &Machine, cache: &Cache) -> bool {
    let core = cache.cpus.first().and_then(|id| machine.cpu(id));
    core.is_some_and(|core| cache.cpus.is_subset(&core.siblings))
}

fn grouped<'a>(caches: impl Iterator<Item = &'a Cache>) -> BTreeMap<Kind, Vec<&'a Cache>> {
    let mut groups: BTreeMap<Kind, Vec<&Cache>> = BTreeMap::new();
    for cache in caches {
        groups.entry((cache.level, cache.kind, cache.size_bytes)).or_default().push(cache);
    }
    groups
}

fn name((level, kind, size): &Kind) -> String {
    let letter = match kind {
        CacheKind::Data => "d",
        CacheKind::Instruction => "i",
        CacheKind::Unified => "",
    };
    let size = size.map_or_else(|| "of unknown size".to_owned(), bytes);
    format!("L{level}{letter} {size}")
}

//! Generates the kernel files that a machine would show, for tests and measurements of machines
//! that are not at hand.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::Recording;
use crate::{Cache, CacheKind, CpuSet, Machine, Node, NodeSet};

impl Recording {
    /// The files from which [`crate::read`] makes this machine again, with three exceptions: links
    /// and figures are left out, and unknown free memory becomes 0.
    #[must_use]
    pub fn synthesize(machine: &Machine) -> Self {
        let mut files = Files::default();
        files.add("proc/sys/kernel/hostname", &machine.name);
        if let Some(processor) = &machine.processor {
            files.add("proc/cpuinfo", format!("model name\t: {processor}"));
        }
        let allowed = &machine.allowed;
        files.add(
            "proc/self/status",
            format!("Cpus_allowed_list:\t{}\nMems_allowed_list:\t{}", allowed.cpus, allowed.nodes),
        );
        files.add("sys/devices/system/node/online", machine.node_ids());
        for (i, node) in machine.nodes.iter().enumerate() {
            files.node(node, machine.distances.get(i).map_or(&[], Vec::as_slice));
        }
        files.tiers(machine);
        files.cpus(machine);
        files.caches(&machine.caches);
        Self { comment: String::new(), entries: files.0 }
    }
}

#[derive(Default)]
struct Files(BTreeMap<String, String>);

impl Files {
    fn add(&mut self, path: impl Into<String>, text: impl Display) {
        self.0.insert(path.into(), text.to_string());
    }

    fn node(&mut self, node: &Node, distances: &[u32]) {
        let id = node.id;
        let dir = format!("sys/devices/system/node/node{id}");
        let kb = |bytes: u64| bytes / 1024;
        let (total, free) = (kb(node.memory_bytes), kb(node.free_bytes.unwrap_or(0)));
        self.add(format!("{dir}/cpulist"), &node.cpus);
        self.add(
            format!("{dir}/meminfo"),
            format!("Node {id} MemTotal:{total:>15} kB\nNode {id} MemFree:{free:>16} kB"),
        );
        if !distances.is_empty() {
            let row: Vec<String> = distances.iter().map(u32::to_string).collect();
            self.add(format!("{dir}/distance"), row.join(" "));
        }
        for pool in &node.huge_pages {
            let dir = format!("{dir}/hugepages/hugepages-{}kB", kb(pool.page_bytes));
            self.add(format!("{dir}/nr_hugepages"), pool.total);
            self.add(format!("{dir}/free_hugepages"), pool.free);
        }
    }

    fn tiers(&mut self, machine: &Machine) {
        for tier in machine.nodes.iter().filter_map(|node| node.tier) {
            let nodes = machine.nodes.iter().filter(|n| n.tier == Some(tier)).map(|n| n.id);
            let path = format!("sys/devices/virtual/memory_tiering/memory_tier{tier}/nodelist");
            self.add(path, nodes.collect::<NodeSet>());
        }
    }

    fn cpus(&mut self, machine: &Machine) {
        let dir = "sys/devices/system/cpu";
        self.add(format!("{dir}/online"), machine.online_cpus());
        let smt = machine.cpus.iter().any(|cpu| cpu.siblings.len() > 1);
        self.add(format!("{dir}/smt/active"), u32::from(smt));
        let present: CpuSet = machine.cpus.iter().map(|cpu| cpu.id).collect();
        self.add(format!("{dir}/present"), present);
        let online = machine.cpus.iter().filter(|cpu| cpu.online);
        let mut packages: BTreeMap<Option<u32>, CpuSet> = BTreeMap::new();
        online.for_each(|cpu| packages.entry(cpu.package).or_default().extend([cpu.id]));
        for cpu in &machine.cpus {
            if let Some(node) = cpu.node {
                self.add(format!("{dir}/cpu{}/node{node}/", cpu.id), "");
            }
            if cpu.online {
                let topology = format!("{dir}/cpu{}/topology", cpu.id);
                let known = |id: Option<u32>| id.map_or_else(|| "-1".to_owned(), |n| n.to_string());
                self.add(format!("{topology}/core_id"), known(cpu.core));
                self.add(format!("{topology}/physical_package_id"), known(cpu.package));
                self.add(format!("{topology}/thread_siblings_list"), &cpu.siblings);
                if let Some(cpus) = packages.get(&cpu.package) {
                    self.add(format!("{topology}/core_siblings_list"), cpus);
                }
            }
        }
    }

    fn caches(&mut self, caches: &[Cache]) {
        // The caches of a CPU are numbered in the order of the list, which is by level.
        let mut slots: BTreeMap<u32, usize> = BTreeMap::new();
        for cache in caches {
            for cpu in cache.cpus.iter() {
                let slot = slots.entry(cpu.0).or_default();
                let dir = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{slot}");
                *slot += 1;
                let kind = match cache.kind {
                    CacheKind::Data => "Data",
                    CacheKind::Instruction => "Instruction",
                    CacheKind::Unified => "Unified",
                };
                self.add(format!("{dir}/level"), cache.level);
                self.add(format!("{dir}/type"), kind);
                self.add(format!("{dir}/shared_cpu_list"), &cache.cpus);
                if let Some(bytes) = cache.size_bytes {
                    self.add(format!("{dir}/size"), format!("{}K", bytes / 1024));
                }
                if let Some(ways) = cache.ways {
                    self.add(format!("{dir}/ways_of_associativity"), ways);
                }
                if let Some(bytes) = cache.line_bytes {
                    self.add(format!("{dir}/coherency_line_size"), bytes);
                }
            }
        }
    }
}

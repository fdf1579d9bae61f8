//! Prints the machine for people: a summary, a tree of nodes, the distances.
//!
//! Properties that all cores share (their private caches) appear once at the top. Properties that
//! differ between nodes (memory, CPUs, shared caches) appear at the node.

use numapilot_cli_kit::terminal::{BOLD, WARN, bytes, plural, printable};
use numapilot_topology::{CpuSet, Machine, Node};

use super::caches;
use super::fold::fold;
use super::matrix;

/// The whole text; lists of CPUs are folded at `width` columns.
pub fn draw(machine: &Machine, width: usize) -> String {
    let mut text = summary(machine, width);
    for node in &machine.nodes {
        text.push('\n');
        let title = format!("{BOLD}node {}{BOLD:#}  {}", node.id, memory(node));
        text += &node_tree(machine, node, &title, width);
    }
    let homeless = Node { cpus: cpus_of_no_node(machine), ..Node::default() };
    if !homeless.cpus.is_empty() {
        text.push('\n');
        let title = format!("{BOLD}no node{BOLD:#}  CPUs whose node the kernel does not report");
        text += &node_tree(machine, &homeless, &title, width);
    }
    let matrices = matrix::all(machine, width);
    if !matrices.is_empty() {
        text.push('\n');
        text += &matrices;
    }
    text + &restriction(machine, width)
}

/// Online CPUs that no node lists: firmware may leave them out of its tables.
fn cpus_of_no_node(machine: &Machine) -> CpuSet {
    machine.online_cpus().difference(&machine.cpus_of(&machine.node_ids()))
}

fn summary(machine: &Machine, width: usize) -> String {
    let processor = machine.processor.as_deref().unwrap_or("unnamed processor");
    let online = machine.online_cpus();
    let counts = [
        (machine.nodes.len(), "node"),
        (machine.packages(&online), "package"),
        (machine.cores(&online), "core"),
        (online.len(), "CPU"),
    ];
    // Packages are counted only if the kernel reports them.
    let counts = counts.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| plural(n, what));
    let counts = counts.collect::<Vec<_>>().join(", ");
    let memory: u64 = machine.nodes.iter().map(|n| n.memory_bytes).sum();
    let (name, processor) = (printable(&machine.name), printable(processor));
    let mut lines = vec![
        format!("{BOLD}{name}{BOLD:#}: {processor}"),
        format!("{counts}, {} of memory", bytes(memory)),
    ];
    let private = caches::of_cores(machine);
    if !private.is_empty() {
        lines.extend(fold("core caches: ", &private, width));
    }
    let offline: CpuSet = machine.cpus.iter().filter(|c| !c.online).map(|c| c.id).collect();
    if !offline.is_empty() {
        lines.extend(fold("offline CPUs: ", &offline.to_string(), width));
    }
    lines.join("\n") + "\n"
}

/// ```text
/// node 0  64.0 GiB, 60.1 GiB free
/// ├─ CPUs 0-7,64-71: 8 cores, 2 threads each, package 0
/// └─ L3 32.0 MiB x 2 shared by 0-3,64-67 | 4-7,68-71
/// ```
fn node_tree(machine: &Machine, node: &Node, title: &str, width: usize) -> String {
    const BRANCH: usize = 3;
    let inner = width.saturating_sub(BRANCH);
    let mut items = vec![cpus(machine, node, inner)];
    items.extend(caches::shared(machine, node, inner));
    items.extend(huge_pages(node));
    let mut text = format!("{title}\n");
    for (i, lines) in items.iter().enumerate() {
        let (first, later) =
            if i + 1 == items.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        for (j, line) in lines.iter().enumerate() {
            text += if j == 0 { first } else { later };
            text += line;
            text.push('\n');
        }
    }
    text
}

fn memory(node: &Node) -> String {
    if node.memory_bytes == 0 {
        return "no memory".to_owned();
    }
    let free = node.free_bytes.map(|free| format!(", {} free", bytes(free)));
    let tier = node.tier.map(|tier| format!(", tier {tier}"));
    bytes(node.memory_bytes) + &free.unwrap_or_default() + &tier.unwrap_or_default()
}

fn cpus(machine: &Machine, node: &Node, width: usize) -> Vec<String> {
    if node.cpus.is_empty() {
        return vec!["no CPUs".to_owned()];
    }
    let cores = machine.cores(&node.cpus);
    let mut about = format!("{}, {}", plural(node.cpus.len(), "CPU"), plural(cores, "core"));
    let mut packages: Vec<u32> =
        node.cpus.iter().filter_map(|id| machine.cpu(id)?.package).collect();
    packages.sort_unstable();
    packages.dedup();
    if let [package] = packages[..] {
        about += &format!(" of package {package}");
    }
    fold(&format!("{about}: "), &node.cpus.to_string(), width)
}

fn huge_pages(node: &Node) -> Vec<Vec<String>> {
    let pools = node.huge_pages.iter().filter(|pool| pool.total > 0);
    pools
        .map(|pool| {
            let count = plural(pool.total, "huge page");
            vec![format!("{count} of {}, {} free", bytes(pool.page_bytes), pool.free)]
        })
        .collect()
}

/// The part of the machine that this process may use, if it is not all.
fn restriction(machine: &Machine, width: usize) -> String {
    let mut lines = Vec::new();
    if machine.allowed.cpus != machine.online_cpus() {
        lines.extend(fold("CPUs ", &machine.allowed.cpus.to_string(), width));
    }
    if machine.allowed.nodes != machine.memory_nodes() {
        lines.push(format!("memory of nodes {}", machine.allowed.nodes));
    }
    if lines.is_empty() {
        return String::new();
    }
    format!("\n{WARN}this process may use only{WARN:#}\n{}\n", lines.join("\n"))
}

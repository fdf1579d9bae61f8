//! Tables for a terminal of 80 columns.

use core::fmt::{self, Write};

use numapilot_syscall::caller::process_id;

use super::{ClassUsage, NodeUsage, Usage, sized};
use crate::os::output::{Bytes, Output};

/// Writes a row for each node, and for each node a row for each object size.
pub fn write(usage: &Usage, to: &mut Output<'_>) -> fmt::Result {
    let process = process_id();
    writeln!(to, "numapilot: allocator of process {process}")?;
    writeln!(to)?;
    writeln!(
        to,
        "{:<12}{:>10}{:>10}{:>9}{:>9}{:>9}{:>9}{:>9}",
        "node", "in use", "large", "cached", "free", "returned", "overhead", "threads"
    )?;
    for node in usage.iter() {
        write!(to, "{:<12}", node.place)?;
        row(to, |figure| figure(node))?;
    }
    if usage.len() > 1 {
        write!(to, "{:<12}", "all")?;
        row(to, |figure| usage.sum(figure))?;
    }
    for node in usage.iter() {
        classes(to, node)?;
    }
    Ok(())
}

fn row(to: &mut Output<'_>, of: impl Fn(fn(&NodeUsage) -> usize) -> usize) -> fmt::Result {
    writeln!(
        to,
        "{:>10}{:>10}{:>9}{:>9}{:>9}{:>9}{:>9}",
        Bytes(of(NodeUsage::in_use_bytes)),
        Bytes(of(|node| node.large_bytes)),
        Bytes(of(NodeUsage::cached_bytes)),
        Bytes(of(|node| node.free_bytes)),
        Bytes(of(|node| node.returned_bytes)),
        Bytes(of(|node| node.overhead_bytes)),
        of(|node| node.threads),
    )
}

fn classes(to: &mut Output<'_>, node: &NodeUsage) -> fmt::Result {
    if node.span_bytes == 0 {
        return Ok(());
    }
    writeln!(to)?;
    let place = node.place;
    writeln!(to, "objects of up to 32 KiB, node {place}; free ones by where they wait")?;
    writeln!(
        to,
        "{:>6}{:>9}{:>12}{:>12}{:>12}{:>12}{:>12}",
        "bytes", "spans", "in use", "in spans", "in depots", "in threads", "memory"
    )?;
    for (size, class) in sized(&node.classes) {
        let ClassUsage { spans, in_spans, in_depots, in_threads, .. } = *class;
        let in_use = class.in_use();
        writeln!(
            to,
            "{size:>6}{spans:>9}{in_use:>12}{in_spans:>12}{in_depots:>12}{in_threads:>12}{:>12}",
            Bytes(in_use * size)
        )?;
    }
    Ok(())
}

//! Reads latency and bandwidth as the firmware states them (ACPI HMAT).
//!
//! Source: Documentation/admin-guide/mm/numaperf.rst. `nodeN/access1/initiators` links to the nodes
//! whose CPUs reach memory node N fastest, and gives the figures of that access: latency in
//! nanoseconds, bandwidth in MiB/s. The kernel does not show slower pairs, so they stay unknown
//! here. Kernels before 5.11 have only `access0`, which may name a node with another device instead
//! of CPUs; its figures are left out.

use super::tree::{Dir, parse};
use super::{ReadError, node_dir};
use crate::{Figures, Node};

/// Figures of the best access to each node; empty when the firmware has none.
pub(super) fn read(root: &Dir, nodes: &[Node]) -> Result<Figures, ReadError> {
    let unknown = vec![vec![None; nodes.len()]; nodes.len()];
    let (mut latency_ns, mut bandwidth_gb_per_s) = (unknown.clone(), unknown);
    let mut any = false;
    if let Some(dir) = node_dir(root)? {
        for (to, node) in nodes.iter().enumerate() {
            let Some(access) = best_access(&dir, node)? else { continue };
            let figure = |name| {
                let known = access.find(name, parse::NUMBER, parse::number::<u32>);
                // The kernel shows 0 where the firmware gives no figure.
                known.map(|value| value.filter(|v| *v > 0).map(f64::from))
            };
            let latency = figure("read_latency")?;
            let bandwidth = figure("read_bandwidth")?.map(gb_per_s);
            for id in access.numbered("node")? {
                let with_cpus = |n: &Node| n.id.0 == id && !n.cpus.is_empty();
                let Some(from) = nodes.iter().position(with_cpus) else { continue };
                any |= latency.is_some() || bandwidth.is_some();
                latency_ns[from][to] = latency;
                bandwidth_gb_per_s[from][to] = bandwidth;
            }
        }
    }
    if !any {
        return Ok(Figures::default());
    }
    Ok(Figures { source: Some("HMAT".to_owned()), latency_ns, bandwidth_gb_per_s })
}

fn best_access<'a>(dir: &Dir<'a>, node: &Node) -> Result<Option<Dir<'a>>, ReadError> {
    let initiators = |class| dir.dir(&format!("node{}/access{class}/initiators", node.id));
    Ok(match initiators(1)? {
        Some(cpus) => Some(cpus),
        None => initiators(0)?,
    })
}

fn gb_per_s(mib_per_s: f64) -> f64 {
    mib_per_s * f64::from(1 << 20) / 1e9
}

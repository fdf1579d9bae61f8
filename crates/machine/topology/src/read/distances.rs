//! Reads the distance matrix (ACPI SLIT): 10 = local, 20 = twice as far.

use super::tree::Dir;
use super::tree::parse;
use super::{ReadError, node_dir};
use crate::Node;

/// The kernel's defaults where the firmware gives no distances (`LOCAL_DISTANCE`, `REMOTE_DISTANCE`
/// in include/linux/topology.h).
const LOCAL: u32 = 10;
const REMOTE: u32 = 20;

/// Row = from node, column = to node, both by position in `nodes`.
pub(super) fn read(root: &Dir, nodes: &[Node]) -> Result<Vec<Vec<u32>>, ReadError> {
    let dir = node_dir(root)?;
    let mut matrix = Vec::with_capacity(nodes.len());
    for from in nodes {
        let row = match &dir {
            Some(dir) => dir.find(
                &format!("node{}/distance", from.id),
                "one distance from 1 to 255 for each online node",
                |text| distances(text, nodes.len()),
            )?,
            None => None,
        };
        let assumed = || nodes.iter().map(|to| if to.id == from.id { LOCAL } else { REMOTE });
        matrix.push(row.unwrap_or_else(|| assumed().collect()));
    }
    Ok(matrix)
}

fn distances(text: &str, count: usize) -> Option<Vec<u32>> {
    let row: Option<Vec<u32>> = text
        .split_whitespace()
        .map(|d| parse::number(d).filter(|d| (1..=255).contains(d)))
        .collect();
    row.filter(|row| row.len() == count)
}

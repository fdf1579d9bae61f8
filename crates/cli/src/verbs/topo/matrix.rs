//! Tables with nodes as rows and columns.

use numapilot_cli_kit::terminal::BOLD;
use numapilot_topology::Machine;

use super::fold::fold;

/// All known figures between nodes: distances if there are several nodes; latency and bandwidth if
/// the firmware, a description or a measurement gives them.
pub fn all(machine: &Machine, width: usize) -> String {
    let figures = &machine.figures;
    let mut matrices = Vec::new();
    if machine.nodes.len() > 1 && !machine.distances.is_empty() {
        matrices.push(draw("distance, 10 = local", machine, |row, column| {
            Some(machine.distances.get(row)?.get(column)?.to_string())
        }));
    }
    let known = |matrix: &[Vec<Option<f64>>], row: usize, column: usize| {
        matrix.get(row)?.get(column).copied().flatten().map(|v| format!("{v:.1}"))
    };
    if !figures.latency_ns.is_empty() {
        let cell = |row, column| known(&figures.latency_ns, row, column);
        matrices.push(draw("latency in ns", machine, cell));
    }
    if !figures.bandwidth_gb_per_s.is_empty() {
        let cell = |row, column| known(&figures.bandwidth_gb_per_s, row, column);
        matrices.push(draw("bandwidth in GB/s", machine, cell));
    }
    if let Some(source) = &figures.source {
        matrices.push(fold("latency and bandwidth: ", source, width).join("\n") + "\n");
    }
    matrices.join("\n")
}

/// One matrix: row = from node, column = to node, `-` if unknown.
fn draw(title: &str, machine: &Machine, cell: impl Fn(usize, usize) -> Option<String>) -> String {
    let ids: Vec<String> = machine.nodes.iter().map(|n| n.id.to_string()).collect();
    let nodes = 0..ids.len();
    let row = |from| nodes.clone().map(move |to| (from, to));
    let text = |(from, to)| cell(from, to).unwrap_or_else(|| "-".to_owned());
    let rows: Vec<Vec<String>> = nodes.clone().map(|from| row(from).map(text).collect()).collect();
    let side = "node".len().max(ids.iter().map(String::len).max().unwrap_or(0));
    let cells = rows.iter().flatten().chain(&ids);
    let width = cells.map(String::len).max().unwrap_or(0);
    let line = |cells: &[String]| cells.iter().map(|c| format!(" {c:>width$}")).collect::<String>();
    let mut picture = format!("{BOLD}{title}{BOLD:#}\n{:>side$}{}\n", "node", line(&ids));
    for (id, row) in ids.iter().zip(&rows) {
        picture += &format!("{id:>side$}{}\n", line(row));
    }
    picture
}

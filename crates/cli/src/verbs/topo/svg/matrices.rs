//! Matrices beside the nodes: row = the CPUs of a node, column = the memory of a node.

use numapilot_cli_kit::svg::{Area, Svg, text_width};
use numapilot_topology::Machine;

use super::LINE;

const CELL: f64 = 24.0;

/// Draws latency (or distance if latency is unknown) and bandwidth at `(x, y)`; returns width and
/// height.
pub fn draw(svg: &mut Svg, machine: &Machine, x: f64, y: f64) -> (f64, f64) {
    let figures = &machine.figures;
    if machine.nodes.len() == 1 {
        // Its only cell is in the node's box.
        return (0.0, 0.0);
    }
    let mut below = y;
    let mut width = 0.0;
    let mut add = |title: &str, cells: &[Vec<Option<f64>>], digits: usize, low_is_good: bool| {
        let size = matrix(svg, machine, Matrix { title, cells, digits, low_is_good }, x, below);
        width = f64::max(width, size.0);
        below += size.1 + 1.5 * LINE;
    };
    if !figures.latency_ns.is_empty() {
        add("latency in ns, row to column", &figures.latency_ns, 0, true);
    } else {
        let distances: Vec<Vec<Option<f64>>> = machine
            .distances
            .iter()
            .map(|row| row.iter().map(|d| Some(f64::from(*d))).collect())
            .collect();
        add("distance, 10 = local", &distances, 0, true);
    }
    if !figures.bandwidth_gb_per_s.is_empty() {
        add("bandwidth in GB/s, row to column", &figures.bandwidth_gb_per_s, 1, false);
    }
    (width, (below - y - 1.5 * LINE).max(0.0))
}

struct Matrix<'a> {
    title: &'a str,
    cells: &'a [Vec<Option<f64>>],
    digits: usize,
    low_is_good: bool,
}

fn matrix(svg: &mut Svg, machine: &Machine, matrix: Matrix, x: f64, y: f64) -> (f64, f64) {
    let text = |value: Option<f64>| {
        value.map_or_else(|| "-".to_owned(), |v| format!("{v:.*}", matrix.digits))
    };
    let values = || matrix.cells.iter().flatten().flatten().copied();
    let (low, high) =
        values().fold((f64::INFINITY, 0.0), |(l, h), v| (f64::min(l, v), f64::max(h, v)));
    let ids: Vec<String> = machine.nodes.iter().map(|n| n.id.to_string()).collect();
    let texts = matrix.cells.iter().flatten().map(|v| text(*v)).chain(ids.iter().cloned());
    let cell = texts.map(|t| text_width(&t, 13.0)).fold(0.0, f64::max) + 12.0;
    let side = ids.iter().map(|id| text_width(id, 13.0)).fold(0.0, f64::max) + 8.0;

    svg.text("strong", x, y + 12.0, matrix.title);
    let top = y + 12.0 + LINE;
    let mut column = x + side;
    for id in &ids {
        svg.text("dim middle", column + cell / 2.0, top, id);
        column += cell;
    }
    let mut row = top + 7.0;
    for (id, values) in ids.iter().zip(matrix.cells) {
        svg.text("dim end", x + side - 8.0, row + CELL - 7.0, id);
        let mut column = x + side;
        for &value in values {
            let area = Area { x: column, y: row, width: cell, height: CELL };
            if let Some(v) = value {
                let share = if high > low { (v - low) / (high - low) } else { 0.0 };
                svg.heat(
                    area,
                    0.0,
                    if matrix.low_is_good || high <= low { share } else { 1.0 - share },
                );
            }
            svg.rectangle("grid", area, 0.0);
            svg.text("text middle", column + cell / 2.0, row + CELL - 7.0, &text(value));
            column += cell;
        }
        row += CELL;
    }
    (f64::max(column - x, text_width(matrix.title, 13.0)), row - y)
}

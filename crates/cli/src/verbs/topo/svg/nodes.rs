//! Draws nodes, the links between them, and the legend.

use numapilot_cli_kit::svg::{Area, Svg, text_width};
use numapilot_cli_kit::terminal::{bytes, plural};
use numapilot_topology::{Machine, Node};

use super::LINE;
use numapilot_cli_kit::node_layout::{curve, places, pull};

/// Longest list of CPUs that goes into a box; a longer one is counted.
const LIST: usize = 16;
const PADDING: f64 = 12.0;

/// Draws at `(x, y)`; returns width and height.
pub fn draw(svg: &mut Svg, machine: &Machine, x: f64, y: f64) -> (f64, f64) {
    let texts: Vec<Vec<String>> =
        machine.nodes.iter().map(|node| lines_of(machine, node)).collect();
    let width = texts.iter().flatten().map(|t| text_width(t, 13.0)).fold(90.0, f64::max);
    let width = width + 2.0 * PADDING;
    let rows = texts.iter().map(Vec::len).max().unwrap_or(1);
    // A box has a handful of lines.
    #[allow(clippy::cast_precision_loss)]
    let height = rows as f64 * LINE + PADDING;

    let places = places(machine.nodes.len(), width, height, &pull(machine));
    let left = places.iter().map(|p| p.x).fold(f64::INFINITY, f64::min);
    let top = places.iter().map(|p| p.y).fold(f64::INFINITY, f64::min);
    let places: Vec<Area> =
        places.iter().map(|p| Area { x: p.x - left + x, y: p.y - top + y, ..*p }).collect();
    let right = places.iter().map(|p| p.x + width).fold(x, f64::max);
    let bottom = places.iter().map(|p| p.y + height).fold(y, f64::max);
    let centre = (f64::midpoint(x, right), f64::midpoint(y, bottom));

    let kinds = link_kinds(machine);
    for link in &machine.links {
        let (Some(a), Some(b)) = (machine.node_index(link.from), machine.node_index(link.to))
        else {
            continue;
        };
        let kind = kinds.iter().position(|k| same(*k, link.gb_per_s)).unwrap_or(0);
        svg.path(kind, stroke(kind), &curve(&places[a], &places[b], centre).path());
    }
    for ((node, place), lines) in machine.nodes.iter().zip(&places).zip(&texts) {
        let class = if node.cpus.is_empty() { "box hollow" } else { "box" };
        svg.rectangle(class, *place, 8.0);
        let mut baseline = place.y + PADDING + 9.0;
        for (i, line) in lines.iter().enumerate() {
            let class = if i == 0 { "strong" } else { "text" };
            svg.text(class, place.x + PADDING, baseline, line);
            baseline += LINE;
        }
    }
    let (legend_width, legend_bottom) = legend(svg, &kinds, x, bottom + 1.5 * LINE);
    ((right - x).max(legend_width), legend_bottom - y)
}

fn lines_of(machine: &Machine, node: &Node) -> Vec<String> {
    let mut lines = vec![format!("node {}", node.id)];
    let list = node.cpus.to_string();
    lines.push(match node.cpus.len() {
        0 => "no CPUs".to_owned(),
        1 => format!("CPU {list}"),
        _ if list.len() <= LIST => format!("CPUs {list}"),
        n => plural(n, "CPU"),
    });
    let package = node.cpus.first().and_then(|cpu| machine.cpu(cpu)?.package);
    let memory = match node.memory_bytes {
        0 => "no memory".to_owned(),
        n => bytes(n),
    };
    lines.push(match package {
        Some(package) => format!("{memory}, package {package}"),
        None => memory,
    });
    let local = |matrix: &[Vec<Option<f64>>]| {
        let i = machine.node_index(node.id)?;
        *matrix.get(i)?.get(i)?
    };
    let latency = local(&machine.figures.latency_ns).map(|ns| format!("{ns:.0} ns"));
    let bandwidth = local(&machine.figures.bandwidth_gb_per_s).map(|b| format!("{b:.1} GB/s"));
    let figures: Vec<String> = latency.into_iter().chain(bandwidth).collect();
    if !figures.is_empty() {
        lines.push(figures.join(", "));
    }
    lines
}

/// The different bandwidths, widest first.
fn link_kinds(machine: &Machine) -> Vec<f64> {
    let mut kinds: Vec<f64> = machine.links.iter().map(|link| link.gb_per_s).collect();
    kinds.sort_by(|a, b| b.total_cmp(a));
    kinds.dedup_by(|a, b| same(*a, *b));
    kinds
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

/// The width of a line: links with more bandwidth are thicker.
fn stroke(kind: usize) -> f64 {
    *[3.5, 2.2, 1.6].get(kind).unwrap_or(&1.2)
}

/// Draws the legend; returns its right and lower edge.
fn legend(svg: &mut Svg, kinds: &[f64], x: f64, y: f64) -> (f64, f64) {
    const SAMPLE: f64 = 34.0;
    let mut width = 0.0;
    let mut baseline = y;
    for (kind, gb_per_s) in kinds.iter().enumerate() {
        let text = format!("link of {gb_per_s:.1} GB/s in each direction");
        let middle = baseline - 4.5;
        svg.path(kind, stroke(kind), &format!("M{x} {middle}H{}", x + SAMPLE));
        svg.text("dim", x + SAMPLE + 8.0, baseline, &text);
        width = f64::max(width, SAMPLE + 8.0 + text_width(&text, 13.0));
        baseline += LINE;
    }
    (width, if kinds.is_empty() { y - LINE } else { baseline - LINE + 6.0 })
}

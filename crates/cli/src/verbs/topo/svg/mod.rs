//! The machine as a picture: nodes on an ellipse, links between them, matrices beside.
//!
//! ```text
//!  name, processor, totals
//!  +---------------------------+  latency in ns
//!  |   [node 0]----[node 1]    |   0 [..][..]
//!  |       |    \/    |        |   1 [..][..]
//!  |       |    /\    |        |  bandwidth in GB/s
//!  |   [node 2]----[node 3]    |   0 [..][..]
//!  +---------------------------+   1 [..][..]
//!  what the lines mean, where the figures are from
//! ```

mod matrices;
mod nodes;

use numapilot_cli_kit::svg::{Svg, text_width};
use numapilot_cli_kit::terminal::{bytes, plural};
use numapilot_topology::Machine;

const MARGIN: f64 = 24.0;
const LINE: f64 = 20.0;

/// The picture as an SVG document.
pub fn draw(machine: &Machine) -> String {
    let mut svg = Svg::default();
    let memory: u64 = machine.nodes.iter().map(|n| n.memory_bytes).sum();
    let online = machine.online_cpus();
    let headline = match &machine.processor {
        Some(processor) => format!("{}: {processor}", machine.name),
        None => machine.name.clone(),
    };
    let totals = format!(
        "{}, {}, {}, {} of memory",
        plural(machine.nodes.len(), "node"),
        plural(machine.cores(&online), "core"),
        plural(online.len(), "CPU"),
        bytes(memory)
    );
    svg.text("strong large", MARGIN, MARGIN + 14.0, &headline);
    svg.text("dim", MARGIN, MARGIN + 14.0 + LINE, &totals);

    let top = MARGIN + 30.0 + LINE;
    let nodes = nodes::draw(&mut svg, machine, MARGIN, top);
    let tables = matrices::draw(&mut svg, machine, MARGIN + nodes.0 + 2.0 * MARGIN, top);
    let wide = [
        text_width(&headline, 18.0) * 1.1,
        text_width(&totals, 13.0),
        nodes.0 + if tables.0 > 0.0 { 2.0 * MARGIN + tables.0 } else { 0.0 },
    ];
    let width = wide.into_iter().fold(320.0, f64::max) + 2.0 * MARGIN;
    let mut y = top + nodes.1.max(tables.1) + LINE;
    for line in wrap(&footer(machine), width - 2.0 * MARGIN) {
        svg.text("dim small", MARGIN, y, &line);
        y += 15.0;
    }
    svg.finish(width.ceil(), (y + MARGIN - 15.0).ceil(), &format!("{headline}; {totals}"))
}

fn footer(machine: &Machine) -> String {
    let figures = &machine.figures;
    if figures.latency_ns.is_empty() && figures.bandwidth_gb_per_s.is_empty() {
        return "Latency and bandwidth are not known here; numapilot topo --measure finds them."
            .to_owned();
    }
    format!("Figures: {}", figures.source.as_deref().unwrap_or("source not stated"))
}

/// Words in lines of at most `width` pixels of small text.
fn wrap(text: &str, width: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let longer = if lines[last].is_empty() {
            word.to_owned()
        } else {
            format!("{} {word}", lines[last])
        };
        if lines[last].is_empty() || text_width(&longer, 11.0) <= width {
            lines[last] = longer;
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use numapilot_topology::description::{SHIPPED, machine_named};

    use super::*;

    /// The box of every text, from the document itself.
    fn texts(document: &str) -> Vec<(String, numapilot_cli_kit::svg::Area)> {
        let attribute = |tag: &str, key: &str| {
            let start = tag.find(&format!(" {key}=\"")).unwrap() + key.len() + 3;
            tag[start..].split('"').next().unwrap().to_owned()
        };
        document
            .lines()
            .filter(|line| line.starts_with("<text"))
            .map(|line| {
                let class = attribute(line, "class");
                let size = match class.as_str() {
                    c if c.contains("large") => 18.0,
                    c if c.contains("small") => 11.0,
                    _ => 13.0,
                };
                let text = line.split('>').nth(1).unwrap().split('<').next().unwrap();
                // The real width of fonts; the layout's own estimate is wider.
                let width = text_width(text, size) * 0.8;
                let x: f64 = attribute(line, "x").parse().unwrap();
                let y: f64 = attribute(line, "y").parse().unwrap();
                let left = match class.as_str() {
                    c if c.contains("middle") => x - width / 2.0,
                    c if c.contains("end") => x - width,
                    _ => x,
                };
                let area = numapilot_cli_kit::svg::Area {
                    x: left,
                    y: y - size * 0.75,
                    width,
                    height: size * 0.8,
                };
                (text.to_owned(), area)
            })
            .collect()
    }

    fn check(machine: &Machine) {
        let document = draw(machine);
        let texts = texts(&document);
        let view = document.split("viewBox=\"0 0 ").nth(1).unwrap().split('"').next().unwrap();
        let (width, height) = view.split_once(' ').unwrap();
        let (width, height): (f64, f64) = (width.parse().unwrap(), height.parse().unwrap());
        for (i, (text, area)) in texts.iter().enumerate() {
            assert!(
                area.x >= 0.0 && area.x + area.width <= width,
                "{text} leaves {}",
                machine.name
            );
            assert!(
                area.y >= 0.0 && area.y + area.height <= height,
                "{text} leaves {}",
                machine.name
            );
            for (other, place) in &texts[i + 1..] {
                assert!(!area.is_near(place, 0.0), "{text} over {other} in {}", machine.name);
            }
        }
        for node in &machine.nodes {
            assert!(texts.iter().any(|(text, _)| *text == format!("node {}", node.id)));
        }
    }

    #[test]
    fn no_text_covers_another_on_any_shipped_machine() {
        for (name, _) in SHIPPED {
            check(&machine_named(name).unwrap());
        }
    }

    #[test]
    fn one_to_sixteen_nodes_fit_without_figures_too() {
        for nodes in [1, 2, 3, 4, 8, 16] {
            check(&Machine::uniform(nodes, 64));
        }
    }

    #[test]
    fn hostile_names_stay_text() {
        let mut machine = Machine::uniform(1, 1);
        machine.name = "<script>&".to_owned();
        assert!(!draw(&machine).contains("<script>"));
    }
}

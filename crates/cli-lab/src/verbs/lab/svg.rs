//! Draws traffic: the size and colour of nodes and links show their load, with percentages (Gaud et
//! al. 2015, figure 3).

use numapilot_cli_kit::node_layout::{Curve, curve, places, pull};
use numapilot_cli_kit::svg::{Area, Svg, text_width};
use numapilot_lab_model::Region;
use numapilot_topology::Machine;

const MARGIN: f64 = 24.0;
const LINE: f64 = 20.0;
/// Width of the node with the most traffic.
const WIDTH: f64 = 128.0;
const HEIGHT: f64 = 76.0;
/// Width of a node without traffic, relative to `WIDTH`.
const SMALLEST: f64 = 0.7;
/// Corner radius of a node.
const RADIUS: f64 = 8.0;
/// Width of a line without load; the next one is for the largest load.
const THIN: f64 = 1.0;
const THICK: f64 = 11.0;
/// Positions on a line at which its label may be, as shares of its length. The first of the best is
/// used.
const PLACES: [f64; 9] = [0.5, 0.45, 0.55, 0.4, 0.6, 0.35, 0.65, 0.3, 0.7];
/// Number of points of a line that are tested for overlap with a label.
const POINTS: usize = 40;

/// Draws the traffic of a region on a machine.
pub fn draw(machine: &Machine, title: &str, region: &Region) -> String {
    let mut svg = Svg::default();
    let headline = format!("{}: {title}", machine.name);
    let figures = figures(region);
    svg.text("strong large", MARGIN, MARGIN + 14.0, &headline);
    svg.text("dim", MARGIN, MARGIN + 14.0 + LINE, &figures);
    let legend = "Nodes: share of DRAM accesses, load of the controller. Links: share of link \
                  traffic, load of the link.";
    let texts =
        [text_width(&headline, 18.0) * 1.1, text_width(&figures, 13.0), text_width(legend, 11.0)];
    let slots = places(machine.nodes.len(), WIDTH, HEIGHT, &pull(machine));
    let least = |of: fn(&Area) -> f64| slots.iter().map(of).fold(f64::INFINITY, f64::min);
    let most = |of: fn(&Area) -> f64| slots.iter().map(of).fold(0.0, f64::max);
    let (first, upper) = (least(|s| s.x), least(|s| s.y));
    let drawn = most(|s| s.x + s.width) - first;
    let width = texts.into_iter().fold(drawn, f64::max);
    let (left, top) = (MARGIN + (width - drawn) / 2.0, 2.0 * MARGIN + 2.0 * LINE);
    let slots: Vec<Area> =
        slots.iter().map(|s| Area { x: s.x - first + left, y: s.y - upper + top, ..*s }).collect();
    let right = left + drawn;
    let bottom = slots.iter().map(|s| s.y + s.height).fold(0.0, f64::max);
    let centre = (f64::midpoint(left, right), f64::midpoint(top, bottom));
    let shares = links(&mut svg, region, &slots, centre);
    nodes(&mut svg, region, &slots);
    labels(&mut svg, &slots, &shares);
    svg.text("dim small", MARGIN, bottom + MARGIN + LINE, legend);
    svg.finish((width + 2.0 * MARGIN).ceil(), (bottom + 2.0 * MARGIN + LINE).ceil(), &headline)
}

fn figures(region: &Region) -> String {
    let percent = |value: Option<f64>| value.map_or("none".to_owned(), share);
    format!(
        "local access ratio {}, controller imbalance {}, mean DRAM latency {}",
        percent(region.all.local_access_ratio),
        percent(region.controller_imbalance),
        region.all.mean_latency_ns.map_or("none".to_owned(), |ns| format!("{ns:.0} ns")),
    )
}

/// The text at a line.
type Label = (Curve, String);

fn links(svg: &mut Svg, region: &Region, slots: &[Area], centre: (f64, f64)) -> Vec<Label> {
    let carried = |link: &numapilot_lab_model::LinkTraffic| (link.bytes + link.bytes_back) as f64;
    let total: f64 = region.links.iter().map(carried).sum();
    let most = region.links.iter().map(carried).fold(1.0, f64::max);
    let mut labels = Vec::new();
    for link in &region.links {
        let (Some(from), Some(to)) = (slots.get(link.from), slots.get(link.to)) else { continue };
        let relative = carried(link) / most;
        // Blue for little, green for half, red for the most.
        let class = if relative > 0.66 {
            2
        } else if relative > 0.33 {
            1
        } else {
            0
        };
        let width = ((THIN + (THICK - THIN) * relative) * 10.0).round() / 10.0;
        let line = curve(from, to, centre);
        svg.path(class, width, &line.path());
        let part = if total > 0.0 { carried(link) / total } else { 0.0 };
        labels.push((
            line,
            format!("{} ({})", share(part), link.usage.map_or("-".to_owned(), share)),
        ));
    }
    labels
}

/// Draws the labels over all lines. No label covers a node.
fn labels(svg: &mut Svg, slots: &[Area], labels: &[Label]) {
    for (area, (_, text)) in label_areas(slots, labels).into_iter().zip(labels) {
        svg.rectangle("ground", area, 4.0);
        svg.text("text small middle", area.x + area.width / 2.0, area.y + 12.0, text);
    }
}

/// The areas of labels: as close to the middle of their lines as nodes, other labels and other
/// lines permit.
fn label_areas(slots: &[Area], labels: &[Label]) -> Vec<Area> {
    let mut areas: Vec<Area> = Vec::new();
    for (i, (line, text)) in labels.iter().enumerate() {
        let width = text_width(text, 11.0) * 0.85;
        let around = |share: f64| {
            let (x, y) = line.at(share);
            Area { x: x - width / 2.0, y: y - 8.0, width, height: 15.0 }
        };
        let others = labels.iter().enumerate().filter(|(other, _)| *other != i);
        let points: Vec<(f64, f64)> = others
            .flat_map(|(_, (line, _))| (1..POINTS).map(|n| line.at(n as f64 / POINTS as f64)))
            .collect();
        let covered = |area: &Area| {
            let solid = slots.iter().chain(&areas).filter(|other| area.is_near(other, 1.0)).count();
            solid * POINTS + points.iter().filter(|point| area.contains(**point)).count()
        };
        areas.extend(PLACES.map(around).into_iter().min_by_key(covered));
    }
    areas
}

fn nodes(svg: &mut Svg, region: &Region, slots: &[Area]) {
    let most = region.nodes.iter().filter_map(|n| n.share).fold(0.0, f64::max);
    for (i, (node, slot)) in region.nodes.iter().zip(slots).enumerate() {
        let part = node.share.unwrap_or(0.0);
        let relative = if most > 0.0 { part / most } else { 0.0 };
        let scale = SMALLEST + (1.0 - SMALLEST) * relative;
        let (width, height) = ((slot.width * scale).round(), (slot.height * scale).round());
        let (x, y) = (slot.x + (slot.width - width) / 2.0, slot.y + (slot.height - height) / 2.0);
        let area = Area { x, y, width, height };
        svg.rectangle("box", area, RADIUS);
        svg.heat(area, RADIUS, relative);
        let middle = (x + width / 2.0, y + height / 2.0);
        svg.text("strong middle", middle.0, middle.1 - 9.0, &format!("node {i}"));
        svg.text("text middle", middle.0, middle.1 + 7.0, &share(part));
        let load = node.usage.map_or("load -".to_owned(), |usage| format!("load {}", share(usage)));
        svg.text("dim small middle", middle.0, middle.1 + 21.0, &load);
    }
}

fn share(ratio: f64) -> String {
    format!("{:.0} %", ratio * 100.0)
}

#[cfg(test)]
mod tests {
    use numapilot_lab_model::{Counts, LinkTraffic, NodeTraffic};
    use numapilot_topology::description::machine_named;

    use super::*;

    #[test]
    fn no_label_covers_a_node_or_another_label() {
        for name in ["machine-a", "machine-b", "opteron-8387", "xeon-8153", "epyc-9004-nps4"] {
            let machine = machine_named(name).unwrap();
            let slots = places(machine.nodes.len(), WIDTH, HEIGHT, &pull(&machine));
            let middle =
                |of: fn(&Area) -> f64| slots.iter().map(of).sum::<f64>() / slots.len() as f64;
            let centre = (middle(|s| s.x + s.width / 2.0), middle(|s| s.y + s.height / 2.0));
            let at = |node| &slots[machine.node_index(node).unwrap()];
            let labels: Vec<Label> = machine
                .links
                .iter()
                .map(|l| (curve(at(l.from), at(l.to), centre), "17 % (7 %)".to_owned()))
                .collect();
            let areas = label_areas(&slots, &labels);
            assert_eq!(areas.len(), labels.len());
            for (i, area) in areas.iter().enumerate() {
                let below = slots.iter().chain(&areas[..i]).find(|other| area.is_near(other, 0.0));
                assert_eq!(below, None, "{name}: {area:?}");
            }
        }
    }

    #[test]
    fn what_carries_more_is_drawn_larger() {
        let machine = machine_named("machine-b").unwrap();
        let node =
            |share| NodeTraffic { share: Some(share), usage: Some(share), ..Default::default() };
        let link = |from, to, bytes| LinkTraffic {
            from,
            to,
            bytes,
            usage: Some(0.5),
            ..Default::default()
        };
        let region = Region {
            nodes: vec![node(0.7), node(0.3), node(0.0), node(0.0)],
            links: vec![link(0, 1, 900), link(0, 2, 100)],
            all: Counts { local_access_ratio: Some(0.25), ..Counts::default() },
            ..Region::default()
        };
        let document = draw(&machine, "w1", &region);
        for text in
            ["node 0", ">70 %<", ">90 % (50 %)<", ">10 % (50 %)<", "local access ratio 25 %"]
        {
            assert!(document.contains(text), "{text} is missing in {document}");
        }
        assert!(
            document.contains("stroke-width=\"11\"") && document.contains("stroke-width=\"2.1\"")
        );
        assert!(document.contains("width=\"128\"") && document.contains("width=\"90\""));
    }
}

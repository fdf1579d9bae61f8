//! Places nodes on an ellipse, in the order that keeps links short.
//!
//! Points of an ellipse are in convex position, so a straight line between two of them
//! never runs through a third; links bow towards the centre to keep clear of the boxes.

use numapilot_topology::Machine;

use crate::svg::Area;

/// Least gap between two boxes, so that lines between them are visible.
const GAP: f64 = 46.0;
/// How far a link bows towards the centre.
const BOW: f64 = 0.3;

/// Boxes of `width` by `height` for `n` nodes around the origin. `pull[a][b]` is how strongly a and
/// b attract each other.
pub fn places(n: usize, width: f64, height: f64, pull: &[Vec<f64>]) -> Vec<Area> {
    let order = order(n, pull);
    let mut ry = if n > 2 { height } else { 0.0 };
    loop {
        // Wider than high, as boxes and screens are.
        let rx = if n > 2 { ry * 1.25 + width / 2.0 } else { (width + 3.0 * GAP) / 2.0 };
        let slots: Vec<Area> = (0..n)
            .map(|slot| {
                let (cos, sin) = if n == 1 { (0.0, 0.0) } else { direction(slot, n) };
                Area {
                    x: (rx * cos - width / 2.0).round(),
                    y: (ry * sin - height / 2.0).round(),
                    width,
                    height,
                }
            })
            .collect();
        let crowded = (0..n).any(|i| (i + 1..n).any(|j| slots[i].is_near(&slots[j], GAP)));
        if !crowded || n <= 2 {
            let mut places = slots.clone();
            for (slot, node) in order.into_iter().enumerate() {
                places[node] = slots[slot];
            }
            return places;
        }
        ry += 8.0;
    }
}

/// The attraction between nodes: linked nodes and nodes of one package attract each other. If no
/// links are known, nodes with smaller distances attract each other more.
pub fn pull(machine: &Machine) -> Vec<Vec<f64>> {
    let n = machine.nodes.len();
    let package =
        |i: usize| machine.nodes[i].cpus.first().and_then(|cpu| machine.cpu(cpu)?.package);
    let mut pull = vec![vec![0.0; n]; n];
    for (a, row) in pull.iter_mut().enumerate() {
        for (b, cell) in row.iter_mut().enumerate().filter(|(b, _)| *b != a) {
            let linked = machine.links.iter().any(|link| {
                let ends = (machine.node_index(link.from), machine.node_index(link.to));
                ends == (Some(a), Some(b)) || ends == (Some(b), Some(a))
            });
            if linked {
                *cell += 1.0;
            } else if machine.links.is_empty() {
                let distance = machine.distances.get(a).and_then(|row| row.get(b));
                *cell += distance.map_or(0.0, |d| 10.0 / f64::from((*d).max(1)));
            }
            if package(a).is_some() && package(a) == package(b) {
                *cell += 2.0;
            }
        }
    }
    pull
}

/// A quadratic Bézier curve.
pub struct Curve {
    from: (f64, f64),
    control: (f64, f64),
    to: (f64, f64),
}

impl Curve {
    /// The curve as the data of an SVG path.
    pub fn path(&self) -> String {
        let ((x0, y0), (cx, cy), (x1, y1)) = (self.from, self.control, self.to);
        format!("M{x0} {y0}Q{cx} {cy} {x1} {y1}")
    }

    /// The point at this parameter, 0 to 1.
    pub fn at(&self, share: f64) -> (f64, f64) {
        let rest = 1.0 - share;
        let of = |from: f64, control: f64, to: f64| {
            (rest * rest * from + 2.0 * rest * share * control + share * share * to).round()
        };
        (of(self.from.0, self.control.0, self.to.0), of(self.from.1, self.control.1, self.to.1))
    }
}

/// A curve from centre to centre; boxes are drawn over its ends.
pub fn curve(from: &Area, to: &Area, centre: (f64, f64)) -> Curve {
    let middle = |a: &Area| (a.x + a.width / 2.0, a.y + a.height / 2.0);
    let (from, to) = (middle(from), middle(to));
    let towards = |a: f64, b: f64, c: f64| (f64::midpoint(a, b) * (1.0 - BOW) + c * BOW).round();
    let control = (towards(from.0, to.0, centre.0), towards(from.1, to.1, centre.1));
    Curve { from, control, to }
}

/// The direction of a slot. Slot 0 is on the upper left, and the others follow clockwise. No slot
/// is at the very top, so even numbers split into a left and a right half.
fn direction(slot: usize, n: usize) -> (f64, f64) {
    let turn = (index(slot) + 0.5) / index(n);
    let angle = std::f64::consts::TAU * turn + std::f64::consts::PI * offset(n);
    (angle.cos(), angle.sin())
}

/// Start angle in half turns: two nodes are side by side, four form a rectangle.
fn offset(n: usize) -> f64 {
    if n == 2 { 0.5 } else { 1.0 }
}

fn index(i: usize) -> f64 {
    // Node counts are small.
    #[allow(clippy::cast_precision_loss)]
    let value = i as f64;
    value
}

/// `order[slot]` = node. Begins with IDs in order, and swaps nodes while that shortens the links.
/// Every swap that is kept lowers the cost, so the loop ends.
fn order(n: usize, pull: &[Vec<f64>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    let cost = |order: &[usize]| -> f64 {
        let mut sum = 0.0;
        for a in 0..n {
            for b in a + 1..n {
                let (ca, sa) = direction(a, n);
                let (cb, sb) = direction(b, n);
                sum += ((ca - cb).powi(2) + (sa - sb).powi(2)).sqrt() * pull[order[a]][order[b]];
            }
        }
        // Among orders of equal length, the most readable one wins.
        sum - 1e-6 * reading(order)
    };
    let mut best = cost(&order);
    // Each round is n^4: above this size the order of IDs is used.
    if n > 24 {
        return order;
    }
    loop {
        let before = best;
        for a in 0..n {
            for b in a + 1..n {
                order.swap(a, b);
                let now = cost(&order);
                if now < best - 1e-9 {
                    best = now;
                } else {
                    order.swap(a, b);
                }
            }
        }
        if best >= before - 1e-9 {
            return upright(&order);
        }
    }
}

/// Rotates and mirrors the order, which keeps all lengths, so that IDs rise in reading order:
/// downwards first, then to the right.
fn upright(order: &[usize]) -> Vec<usize> {
    let n = order.len();
    let turned = |turn: usize, mirror: bool| -> Vec<usize> {
        (0..n)
            .map(|slot| if mirror { n - 1 - slot } else { slot })
            .map(|slot| order[(slot + turn) % n])
            .collect()
    };
    (0..n)
        .flat_map(|turn| [turned(turn, false), turned(turn, true)])
        .max_by(|a, b| reading(a).total_cmp(&reading(b)))
        .unwrap_or_default()
}

/// How much IDs rise downwards and, with less weight, to the right.
fn reading(order: &[usize]) -> f64 {
    let place = |slot| {
        let (cos, sin) = direction(slot, order.len());
        2.0 * sin + cos
    };
    order.iter().enumerate().map(|(slot, node)| place(slot) * index(*node)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_never_touch() {
        for n in [1, 2, 3, 4, 8, 16, 32] {
            let places = places(n, 150.0, 80.0, &vec![vec![1.0; n]; n]);
            for i in 0..n {
                for j in i + 1..n {
                    assert!(!places[i].is_near(&places[j], GAP - 2.0), "{n} nodes: {i} and {j}");
                }
            }
        }
    }

    #[test]
    fn linked_nodes_become_neighbours() {
        // A ring numbered across: 0-2-1-3-0.
        let mut pull = vec![vec![0.0; 4]; 4];
        for (a, b) in [(0, 2), (2, 1), (1, 3), (3, 0)] {
            pull[a][b] = 1.0;
            pull[b][a] = 1.0;
        }
        let order = order(4, &pull);
        let next = |node| (order.iter().position(|n| *n == node).unwrap() + 1) % 4;
        assert_ne!(order[next(0)], 1, "{order:?}");
    }
}

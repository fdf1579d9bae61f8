//! The lines that controllers and links have to carry, what that takes them, and how long a
//! line waits there.

use numapilot_lab_model::{Model, queue};
use numapilot_topology::routes::Routes;

use super::prediction::{Access, Bound, Load, Prediction, cached_share};

/// Bytes of a line.
const LINE_BYTES: u64 = 64;

/// What a controller or link is busy with.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    /// All its lines, in seconds.
    seconds: f64,
    /// One line.
    line_ns: f64,
}

/// What all controllers and links are busy with.
pub struct Traffic {
    controllers: Vec<Busy>,
    /// From a node to the next.
    links: Vec<Vec<Busy>>,
    routes: Routes,
}

impl Traffic {
    /// All accesses of loads.
    pub fn of(model: &Model, loads: &[Load]) -> Self {
        Self::of_those(model, loads, |_| true)
    }

    /// Those that count.
    pub fn of_those(model: &Model, loads: &[Load], counts: impl Fn(&Access) -> bool) -> Self {
        let nodes = model.nodes();
        let ends: Vec<_> = model.links.iter().map(|l| (l.from, l.to, l.gb_per_s)).collect();
        let controller = |rate: &f64| Busy { seconds: 0.0, line_ns: seconds_of(1.0, *rate) * 1e9 };
        let mut traffic = Self {
            controllers: model.controllers_gb_per_s.iter().map(controller).collect(),
            links: vec![vec![Busy::default(); nodes]; nodes],
            routes: Routes::new(nodes, &ends),
        };
        for (a, b, rate) in ends {
            traffic.links[a][b].line_ns = seconds_of(1.0, rate) * 1e9;
            traffic.links[b][a].line_ns = seconds_of(1.0, rate) * 1e9;
        }
        for load in loads {
            for access in load.accesses.iter().filter(|access| counts(access)) {
                let missing = 1.0 - cached_share(model, access);
                for (home, lines) in access.lines.iter().enumerate() {
                    traffic.carry(home, (home, load.node), lines * missing);
                    if access.written {
                        traffic.carry(home, (load.node, home), lines * missing);
                    }
                }
            }
        }
        traffic
    }

    /// Lines of the memory of `home`, on their way from a node to another.
    fn carry(&mut self, home: usize, (from, to): (usize, usize), lines: f64) {
        let add = |busy: &mut Busy| busy.seconds += lines * busy.line_ns * 1e-9;
        add(&mut self.controllers[home]);
        for hop in self.routes.path(from, to).unwrap_or_default().windows(2) {
            add(&mut self.links[hop[0]][hop[1]]);
        }
    }

    /// What a node's controller takes for its lines.
    pub fn controller_seconds(&self, node: usize) -> Option<f64> {
        self.controllers.get(node).map(|busy| busy.seconds)
    }

    /// What each controller and link takes.
    pub fn bounds(&self) -> impl Iterator<Item = Prediction> + '_ {
        let controllers = self.controllers.iter().enumerate();
        let controllers = controllers.map(|(home, busy)| Prediction {
            seconds: busy.seconds,
            bound: Bound::Controller(home),
        });
        let links = self.links.iter().enumerate().flat_map(|(from, row)| {
            row.iter().enumerate().map(move |(to, busy)| Prediction {
                seconds: busy.seconds,
                bound: Bound::Link(from, to),
            })
        });
        controllers.chain(links)
    }

    /// What a line waits in queues on its way, by node of the CPU and home node, when all
    /// lines come within this time and somebody else takes a share of a node's controller.
    pub fn waits_ns(&self, within_seconds: f64, taken: Option<(usize, f64)>) -> Vec<Vec<f64>> {
        let utilisation = |busy: &Busy| match busy.seconds {
            0.0 => 0.0,
            seconds => seconds / within_seconds,
        };
        let at = |home: usize| {
            let busy = &self.controllers[home];
            let others = taken.filter(|(node, _)| *node == home).map_or(0.0, |(_, share)| share);
            queue::wait(busy.line_ns, utilisation(busy) + others)
        };
        let on_the_way = |home: usize, cpu: usize| -> f64 {
            let path = self.routes.path(home, cpu).unwrap_or_default();
            let links = path.windows(2).map(|hop| &self.links[hop[0]][hop[1]]);
            links.map(|busy| queue::wait(busy.line_ns, utilisation(busy))).sum()
        };
        let nodes = self.controllers.len();
        let to = |cpu: usize| (0..nodes).map(|home| at(home) + on_the_way(home, cpu)).collect();
        (0..nodes).map(to).collect()
    }
}

/// What so many lines take at this bandwidth.
pub fn seconds_of(lines: f64, gb_per_s: f64) -> f64 {
    lines * LINE_BYTES as f64 / (gb_per_s * 1e9)
}

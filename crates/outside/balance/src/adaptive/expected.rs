//! The expected cost of an access to a shared page.
//!
//! An interval shows too little of one page to predict its users. The lasting counts of a page are
//! therefore shrunk towards those of its region, the more the fewer they are.

use super::simd_sums::{sum, weighted};
use crate::nodes::Nodes;

/// Weight of a region's counts, in samples of one of its pages.
const REGION_WEIGHT: f64 = 2.0;

/// Lasting counts, by node.
#[derive(Clone, Copy, Debug)]
pub struct Lasting<'a> {
    pub page: &'a [f32],
    /// The slot of the region's counts.
    pub slot: u32,
    pub region: &'a [f32],
}

/// Computes expected costs; caches those of the region that was last asked for.
#[derive(Debug)]
pub struct Expected {
    /// For each home, the latency from each node.
    latencies_ns: Vec<Vec<f32>>,
    slot: Option<u32>,
    /// By home; NaN until computed.
    region_ns: Vec<f64>,
}

impl Expected {
    pub fn new(nodes: &Nodes) -> Self {
        let all = 0..nodes.len();
        let to = |home| all.clone().map(|from| nodes.latency_ns(from, home) as f32).collect();
        Self {
            latencies_ns: all.clone().map(to).collect(),
            slot: None,
            region_ns: vec![f64::NAN; nodes.len()],
        }
    }

    /// Expected nanoseconds of an access to a page on each of these nodes.
    pub fn ns<const N: usize>(&mut self, lasting: Lasting<'_>, homes: [usize; N]) -> [f64; N] {
        if self.slot != Some(lasting.slot) {
            self.slot = Some(lasting.slot);
            self.region_ns.fill(f64::NAN);
        }
        let all = f64::from(sum(lasting.page));
        homes.map(|home| {
            let latencies_ns = &self.latencies_ns[home];
            if self.region_ns[home].is_nan() {
                let all = sum(lasting.region).max(f32::MIN_POSITIVE);
                self.region_ns[home] = (weighted(lasting.region, latencies_ns) / all).into();
            }
            let own_ns = f64::from(weighted(lasting.page, latencies_ns));
            (own_ns + REGION_WEIGHT * self.region_ns[home]) / (all + REGION_WEIGHT)
        })
    }
}

#[cfg(test)]
mod tests {
    use numapilot_topology::Machine;

    use super::*;

    #[test]
    fn few_counts_of_a_page_are_drawn_to_those_of_its_region() {
        let nodes = Nodes::of(&Machine::uniform(2, 1));
        let (local, remote) = (nodes.latency_ns(0, 0), nodes.latency_ns(1, 0));
        let mut expected = Expected::new(&nodes);
        let mut share = |page: &[f32], slot, region: &[f32]| {
            let [ns] = expected.ns(Lasting { page, slot, region }, [0]);
            (remote - ns) / (remote - local)
        };
        assert!((share(&[0.0, 0.0], 0, &[1.0, 3.0]) - 0.25).abs() < 1e-9);
        // 2 counts of its own and 2 of the region.
        assert!((share(&[2.0, 0.0], 0, &[1.0, 3.0]) - 0.625).abs() < 1e-9);
        assert!((share(&[2.0, 0.0], 1, &[0.0, 8.0]) - 0.5).abs() < 1e-9);
    }
}

//! Memory controllers and links: the waiting time of a line.
//!
//! Simulated time is divided into windows. A line books a slot in its window, or in the next window
//! with a free slot, so a resource never exceeds its bandwidth, regardless of the order in which
//! CPUs with different clocks book. Below the limit, the waiting time is that of an M/D/1 queue at
//! the utilisation of windows that all CPUs have left ([`queue::wait`]).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use numapilot_topology::routes::Routes;

use crate::model::LINE_BYTES;
use crate::{Model, queue};

/// Length of a window: long enough for some hundred lines, and short compared with the phases of a
/// program.
const WINDOW_PS: u64 = 4_000_000;
/// Number of windows that are remembered: more than those in which a line looks for a slot, plus
/// the quantum by which the CPUs' clocks differ.
const WINDOWS: u64 = 2048;
/// Number of windows in which a line looks for a slot; beyond them, the waiting time has its
/// maximum.
const AHEAD: u64 = 128;
/// The utilisation is averaged over this many windows ...
const AVERAGED: u64 = 4;
/// ... the first of which began this many windows ago. With a quantum of the usual length, no CPU
/// is still in them.
const SETTLED: u64 = AVERAGED + super::QUANTUM_PS / WINDOW_PS + 1;
const COUNT_BITS: u32 = 24;
/// Number of windows whose waiting times are remembered, which exceeds the usual distance between
/// CPUs.
const WAITS: u64 = 64;
const WAIT_BITS: u32 = 32;

/// A resource that carries one line at a time.
#[derive(Debug)]
struct Resource {
    /// The service time of a line.
    line_ps: f64,
    /// Lines per window.
    capacity: u64,
    /// `window << COUNT_BITS | lines booked`.
    windows: Box<[AtomicU64]>,
    /// `window << WAIT_BITS | wait`: the waiting time is the same for all lines of a window.
    waits: [AtomicU64; WAITS as usize],
}

impl Resource {
    fn new(gb_per_s: f64) -> Self {
        let line_ps = LINE_BYTES as f64 * 1000.0 / gb_per_s;
        let capacity = ((WINDOW_PS as f64 / line_ps) as u64).clamp(1, (1 << COUNT_BITS) - 2);
        Self {
            line_ps,
            capacity,
            windows: (0..WINDOWS).map(|_| AtomicU64::new(0)).collect(),
            waits: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// The lines booked in a window.
    fn booked(&self, window: u64) -> u64 {
        let word = self.windows[(window % WINDOWS) as usize].load(Relaxed);
        if word >> COUNT_BITS == window { word & ((1 << COUNT_BITS) - 1) } else { 0 }
    }

    /// Books a slot in a window. Returns the number of earlier lines, or `None` if the window is
    /// full.
    fn book(&self, window: u64) -> Option<u64> {
        let slot = &self.windows[(window % WINDOWS) as usize];
        let word = slot.load(Relaxed);
        let (of, count) = (word >> COUNT_BITS, word & ((1 << COUNT_BITS) - 1));
        let (next, before) = match of.cmp(&window) {
            std::cmp::Ordering::Equal if count >= self.capacity => return None,
            std::cmp::Ordering::Equal => (word + 1, count),
            std::cmp::Ordering::Less => (window << COUNT_BITS | 1, 0),
            // The slot belongs to a much later window: all other CPUs have long left this one, so
            // there is no waiting time.
            std::cmp::Ordering::Greater => return Some(0),
        };
        slot.store(next, Relaxed);
        Some(before)
    }

    /// The queueing time of a line in this window, if the window has a free slot.
    fn queue_ps(&self, window: u64) -> u64 {
        let slot = &self.waits[(window % WAITS) as usize];
        let known = slot.load(Relaxed);
        if known >> WAIT_BITS == window {
            return known & ((1 << WAIT_BITS) - 1);
        }
        let recent: u64 =
            (0..AVERAGED).map(|i| self.booked((window + i).saturating_sub(SETTLED))).sum();
        let utilisation = recent as f64 / (self.capacity * AVERAGED) as f64;
        let queue = u64::from(queue::wait(self.line_ps, utilisation) as u32);
        slot.store(window << WAIT_BITS | queue, Relaxed);
        queue
    }

    /// Carries a line that arrives at this time, and returns its waiting time.
    fn carry(&self, time_ps: u64) -> u64 {
        let window = time_ps / WINDOW_PS;
        // The maximum queueing time; beyond it, full windows limit the rate.
        let queue = self.queue_ps(window);
        if self.book(window).is_some() {
            return queue;
        }
        for later in window + 1..window + AHEAD {
            if let Some(before) = self.book(later) {
                let place_ps = later * WINDOW_PS + (before as f64 * self.line_ps) as u64;
                return queue + place_ps.saturating_sub(time_ps);
            }
        }
        queue + AHEAD * WINDOW_PS
    }
}

/// All controllers and links.
#[derive(Debug)]
pub(crate) struct Network {
    controllers: Vec<Resource>,
    /// Both directions of each link; the one towards its second end first.
    links: Vec<Resource>,
    /// `routes[from][to]`: indices into `links`, in the order of the route.
    routes: Vec<Vec<Vec<usize>>>,
}

impl Network {
    pub(crate) fn new(model: &Model) -> Self {
        let nodes = model.nodes();
        let ends: Vec<(usize, usize, f64)> =
            model.links.iter().map(|l| (l.from, l.to, l.gb_per_s)).collect();
        let routes = Routes::new(nodes, &ends);
        let direction = |from: usize, to: usize| {
            model.links.iter().enumerate().find_map(|(i, l)| {
                if (l.from, l.to) == (from, to) {
                    Some(2 * i)
                } else {
                    ((l.to, l.from) == (from, to)).then_some(2 * i + 1)
                }
            })
        };
        let passed = |from: usize, to: usize| {
            let path = routes.path(from, to).unwrap_or_default();
            path.windows(2).filter_map(|hop| direction(hop[0], hop[1])).collect()
        };
        Self {
            controllers: model.controllers_gb_per_s.iter().map(|b| Resource::new(*b)).collect(),
            links: model
                .links
                .iter()
                .flat_map(|l| [Resource::new(l.gb_per_s), Resource::new(l.gb_per_s)])
                .collect(),
            routes: (0..nodes).map(|f| (0..nodes).map(|t| passed(f, t)).collect()).collect(),
        }
    }

    /// The links on the route from one node to another.
    #[inline]
    pub(crate) fn route(&self, from: usize, to: usize) -> &[usize] {
        if from == to { &[] } else { &self.routes[from][to] }
    }

    /// Sends a line between nodes, without memory, and returns its waiting time.
    #[inline]
    pub(crate) fn send(&self, from: usize, to: usize, time_ps: u64) -> u64 {
        let mut waited = 0;
        for &link in self.route(from, to) {
            waited += self.links[link].carry(time_ps + waited);
        }
        waited
    }

    /// Sends a line from the memory of one node to another node, and returns its waiting time.
    pub(crate) fn fetch(&self, home: usize, to: usize, time_ps: u64) -> u64 {
        let waited = self.controllers[home].carry(time_ps);
        waited + self.send(home, to, time_ps + waited)
    }

    /// Writes a modified line back to the memory of a node. No CPU waits for it.
    pub(crate) fn write_back(&self, from: usize, home: usize, time_ps: u64) {
        let waited = self.send(from, home, time_ps);
        self.controllers[home].carry(time_ps + waited);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The mean waiting time when lines arrive evenly at this share of the bandwidth.
    fn wait_at(share: f64) -> f64 {
        let resource = Resource::new(12.8);
        let step = (resource.line_ps / share) as u64;
        let lines = 40 * WINDOW_PS / step;
        let waits = (0..lines).map(|i| resource.carry(i * step)).skip(lines as usize / 2);
        let waits: Vec<u64> = waits.collect();
        waits.iter().sum::<u64>() as f64 / waits.len() as f64
    }

    #[test]
    fn waiting_grows_with_load_and_without_bound_beyond_the_bandwidth() {
        let curve: Vec<f64> = (1..=12).map(|i| wait_at(f64::from(i) / 10.0)).collect();
        assert!(curve.windows(2).all(|w| w[0] <= w[1]), "{curve:?}");
        assert!(curve[4] < 5_000.0, "{curve:?}");
        assert!(curve[11] > 1_000_000.0, "{curve:?}");
    }

    #[test]
    fn a_full_window_takes_no_more() {
        let resource = Resource::new(12.8);
        assert_eq!(resource.capacity, 800);
        for _ in 0..3000 {
            resource.carry(7);
        }
        assert_eq!((0..5).map(|w| resource.booked(w)).collect::<Vec<_>>(), [800, 800, 800, 600, 0]);
    }

    proptest! {
        #[test]
        fn the_order_of_booking_does_not_matter_for_what_fits(
            mut times in proptest::collection::vec(0u64..20 * WINDOW_PS, 1..500),
        ) {
            let booked = |times: &[u64]| {
                let resource = Resource::new(12.8);
                times.iter().for_each(|t| { resource.carry(*t); });
                (0..20).map(|w| resource.booked(w)).collect::<Vec<_>>()
            };
            let one = booked(&times);
            prop_assert_eq!(one.iter().sum::<u64>(), times.len() as u64);
            times.sort_unstable();
            prop_assert_eq!(one, booked(&times));
        }
    }
}

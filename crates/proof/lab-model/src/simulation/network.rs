//! Memory controllers and links: how long a line waits for them.
//!
//! Simulated time is cut into windows. A line books a place in the window it wants; a full
//! window sends it to the next with room, so no resource ever carries more than its
//! bandwidth, whatever the order in which CPUs whose clocks differ come to book. Below
//! that, waiting is what an M/D/1 queue has at the utilisation of the windows that
//! everybody has left ([`queue::wait`]).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use numapilot_topology::routes::Routes;

use crate::model::LINE_BYTES;
use crate::{Model, queue};

/// Length of a window. Long enough for some hundred lines, short against what a program
/// does in one way.
const WINDOW_PS: u64 = 4_000_000;
/// Windows that are remembered: on a busy host clocks differ by more than a quantum, and
/// who comes late must find what others have booked.
const WINDOWS: u64 = 2048;
/// Windows that a line looks ahead for a place; beyond, waiting is as long as it gets.
const AHEAD: u64 = 128;
/// Utilisation is that of so many windows ...
const AVERAGED: u64 = 4;
/// ... that began so many windows ago: no CPU is still in them.
const SETTLED: u64 = AVERAGED + super::clocks::QUANTUM_PS / WINDOW_PS + 1;
const COUNT_BITS: u32 = 24;
/// Windows whose waits are remembered: more than CPUs are usually apart.
const WAITS: u64 = 64;
const WAIT_BITS: u32 = 32;

/// Something that carries one line at a time.
#[derive(Debug)]
struct Resource {
    /// What a line takes.
    line_ps: f64,
    /// Lines of a window.
    capacity: u64,
    /// `window << COUNT_BITS | lines booked`.
    windows: Box<[AtomicU64]>,
    /// `window << WAIT_BITS | wait in it`: the same for all its lines.
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

    /// Lines booked in a window.
    fn booked(&self, window: u64) -> u64 {
        let word = self.windows[(window % WINDOWS) as usize].load(Relaxed);
        if word >> COUNT_BITS == window { word & ((1 << COUNT_BITS) - 1) } else { 0 }
    }

    /// Books a place in a window. The lines booked before, or `None` when it is full.
    fn book(&self, window: u64) -> Option<u64> {
        let slot = &self.windows[(window % WINDOWS) as usize];
        let mut word = slot.load(Relaxed);
        loop {
            let (of, count) = (word >> COUNT_BITS, word & ((1 << COUNT_BITS) - 1));
            let (next, before) = match of.cmp(&window) {
                std::cmp::Ordering::Equal if count >= self.capacity => return None,
                std::cmp::Ordering::Equal => (word + 1, count),
                std::cmp::Ordering::Less => (window << COUNT_BITS | 1, 0),
                // Long past for everybody else: nothing is left to wait for.
                std::cmp::Ordering::Greater => return Some(0),
            };
            match slot.compare_exchange_weak(word, next, Relaxed, Relaxed) {
                Ok(_) => return Some(before),
                Err(now) => word = now,
            }
        }
    }

    /// What a line of this window waits, where the window has room.
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

    /// Carries a line that arrives at this time. What it waits.
    fn carry(&self, time_ps: u64) -> u64 {
        let window = time_ps / WINDOW_PS;
        // As long as a queue gets: then full windows take over.
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
    /// Both directions of each link, that towards its second end first.
    links: Vec<Resource>,
    /// `routes[from][to]`: positions in `links`, in the order they are passed.
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

    /// Links a line passes from one node to another.
    #[inline]
    pub(crate) fn route(&self, from: usize, to: usize) -> &[usize] {
        if from == to { &[] } else { &self.routes[from][to] }
    }

    /// A line from one node to another, without memory. What it waits.
    #[inline]
    pub(crate) fn send(&self, from: usize, to: usize, time_ps: u64) -> u64 {
        let mut waited = 0;
        for &link in self.route(from, to) {
            waited += self.links[link].carry(time_ps + waited);
        }
        waited
    }

    /// A line from the memory of one node to another. What it waits.
    pub(crate) fn fetch(&self, home: usize, to: usize, time_ps: u64) -> u64 {
        let waited = self.controllers[home].carry(time_ps);
        waited + self.send(home, to, time_ps + waited)
    }

    /// A modified line back to the memory of a node. Nobody waits for it.
    pub(crate) fn write_back(&self, from: usize, home: usize, time_ps: u64) {
        let waited = self.send(from, home, time_ps);
        self.controllers[home].carry(time_ps + waited);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Mean wait when lines come at this share of the bandwidth, evenly.
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

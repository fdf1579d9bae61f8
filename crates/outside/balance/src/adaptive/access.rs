//! A compact form of an access: an interval can have a million.

use crate::evidence::Page;

/// Stands for an unknown latency.
const UNKNOWN: u32 = u32::MAX;

/// Flag in a home's position: the access is a store. Linux has at most 1024 nodes.
pub(super) const WRITE: u16 = 1 << 15;

/// Weight of a load relative to a store when almost no accesses are stores. A program waits for its
/// loads, while its stores wait in the store buffer.
const STORES_FOR_A_LOAD: f32 = 4.0;

/// One access; nodes are positions.
#[derive(Clone, Copy, Debug)]
pub struct One {
    pub page: Page,
    latency_ns: u32,
    from: u16,
    /// Position of the home node, combined with [`WRITE`].
    home: u16,
}

impl One {
    pub fn new(page: Page, from: u16, home: u16, latency_ns: Option<u32>) -> Self {
        debug_assert!(home < WRITE);
        let latency_ns = latency_ns.map_or(UNKNOWN, |known| known.min(UNKNOWN - 1));
        Self { page, latency_ns, from, home }
    }

    pub fn from(&self) -> usize {
        self.from.into()
    }

    pub fn home(&self) -> usize {
        (self.home & !WRITE).into()
    }

    pub fn write(&self) -> bool {
        self.home & WRITE != 0
    }

    pub(super) fn writing(self, write: bool) -> Self {
        Self { home: if write { self.home | WRITE } else { self.home }, ..self }
    }

    pub fn latency_ns(&self) -> Option<u32> {
        (self.latency_ns != UNKNOWN).then_some(self.latency_ns)
    }
}

/// The weights of loads and stores when the users of a page are compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting {
    store: f32,
}

impl Waiting {
    /// The weights in an interval in which `stores` of `all` accesses are stores. If almost all
    /// accesses are stores, they fill the store buffer and the program waits for them.
    pub(super) fn among(stores: usize, all: usize) -> Self {
        let share = stores as f32 / all.max(1) as f32;
        Self { store: 1.0 / (share + STORES_FOR_A_LOAD * (1.0 - share)) }
    }

    pub fn of(self, one: &One) -> f32 {
        if one.write() { self.store } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_weigh_less_where_there_are_loads() {
        let load = One::new(Page(0), 0, 0, None);
        let store = load.writing(true);
        for (stores, expected) in [(0, 0.25), (50, 0.4), (100, 1.0)] {
            let waiting = Waiting::among(stores, 100);
            assert_eq!((waiting.of(&load), waiting.of(&store)), (1.0, expected));
        }
        assert!(Waiting::among(0, 0).of(&store).is_finite());
    }
}

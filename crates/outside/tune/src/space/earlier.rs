//! Carries what was found in one space over to another, level by level.

use super::{Factor, Space};

impl Space {
    /// The costs of the cells of this space, or their deviations, from those of the cells of another. A level that the
    /// other space does not have is taken as the one that changes nothing, so nothing is said about
    /// it; what the other space varies alone is left at the level that changes nothing.
    #[must_use]
    pub fn carried_over(&self, other: &Self, costs: &[f64]) -> Vec<f64> {
        let shape = other.shape();
        let here = |factor: &Factor| self.factors.iter().position(|f| f.name == factor.name);
        let cost = |point: Vec<usize>| {
            let level_there = |factor: &Factor| {
                let index = here(factor)?;
                let level = self.factors[index].levels.get(point[index])?;
                factor.levels.iter().position(|known| known == level)
            };
            let there: Vec<usize> = other
                .factors
                .iter()
                .map(|factor| level_there(factor).unwrap_or_default())
                .collect();
            costs.get(shape.cell(&there).0 as usize).copied().unwrap_or_default()
        };
        self.shape().cell_points().map(cost).collect()
    }
}

#[cfg(test)]
mod tests {
    use numapilot_place::{AllocatorChoice, Thp};

    use super::super::{FactorName, Level};
    use super::*;

    fn allocators(names: &[&str]) -> Factor {
        let named = |name: &&str| Level::Allocator(AllocatorChoice::Named((*name).to_owned()));
        let levels = [Level::neutral(FactorName::Allocator)];
        let levels = levels.into_iter().chain(names.iter().map(named)).collect();
        Factor { name: FactorName::Allocator, levels }
    }

    #[test]
    fn levels_are_found_by_what_they_set() {
        let thp = Factor {
            name: FactorName::Thp,
            levels: vec![Level::Thp(Thp::Inherit), Level::Thp(Thp::Never)],
        };
        let here = Space { factors: vec![allocators(&["a", "b", "c"])], ..Space::default() };
        let there = Space { factors: vec![allocators(&["c", "a"]), thp], ..Space::default() };
        // Cells: default, never; c, c with never; a, a with never.
        let costs = [0.0, 0.9, 0.3, 0.9, 0.1, 0.9];
        assert_eq!(here.carried_over(&there, &costs), [0.0, 0.1, 0.0, 0.3]);
        let back = there.carried_over(&here, &[0.0, 0.1, 0.2, 0.3]);
        assert_eq!(back, [0.0, 0.0, 0.3, 0.3, 0.1, 0.1]);
    }
}

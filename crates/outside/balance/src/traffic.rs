//! DRAM traffic between nodes, and the figures that follow from it.
//!
//! Source: the metrics of the Carrefour papers. A_ij are accesses from node i to the memory of node
//! j; LAR = sum A_ii / sum A_ij; load_j = sum_i A_ij; imbalance = standard deviation of the loads
//! over their mean, with n - 1 in the denominator as in the published source.

use serde::{Deserialize, Serialize};

/// Accesses from a node (row) to the memory of another (column), by position.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Traffic(Vec<Vec<f64>>);

impl Traffic {
    /// No traffic between this many nodes.
    #[must_use]
    pub fn none(nodes: usize) -> Self {
        Self(vec![vec![0.0; nodes]; nodes])
    }

    /// The traffic that counters report; `None` if the matrix is not square.
    #[must_use]
    pub fn counted(matrix: Vec<Vec<f64>>) -> Option<Self> {
        matrix.iter().all(|row| row.len() == matrix.len()).then_some(Self(matrix))
    }

    /// Counts an access.
    pub(crate) fn add(&mut self, from: usize, home: usize) {
        self.0[from][home] += 1.0;
    }

    /// The matrix.
    #[must_use]
    pub fn matrix(&self) -> &[Vec<f64>] {
        &self.0
    }

    /// All accesses.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.0.iter().flatten().sum()
    }

    /// Accesses to the memory of each node.
    #[must_use]
    pub fn loads(&self) -> Vec<f64> {
        (0..self.0.len()).map(|j| self.0.iter().map(|row| row[j]).sum()).collect()
    }

    /// Local access ratio; `None` without accesses.
    #[must_use]
    pub fn local_access_ratio(&self) -> Option<f64> {
        let local: f64 = self.0.iter().enumerate().map(|(i, row)| row[i]).sum();
        let total = self.total();
        (total > 0.0).then(|| local / total)
    }

    /// Imbalance of the memory controllers; `None` without accesses, or with one node.
    #[must_use]
    pub fn imbalance(&self) -> Option<f64> {
        let (loads, total) = (self.loads(), self.total());
        if loads.len() < 2 || total <= 0.0 {
            return None;
        }
        let mean = total / loads.len() as f64;
        let squares: f64 = loads.iter().map(|load| (load - mean).powi(2)).sum();
        Some((squares / (loads.len() - 1) as f64).sqrt() / mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: Option<f64>, expected: f64) {
        assert!((value.unwrap() - expected).abs() < 1e-12, "{value:?}, not {expected}");
    }

    #[test]
    fn figures_by_hand() {
        // Loads 40 and 80: mean 60, deviations -20 and 20, variance 800 / 1.
        let traffic = Traffic::counted(vec![vec![30.0, 20.0], vec![10.0, 60.0]]).unwrap();
        assert_eq!(traffic.loads(), [40.0, 80.0]);
        close(traffic.local_access_ratio(), 0.75);
        close(traffic.imbalance(), 800f64.sqrt() / 60.0);
        // All load on one of four: the published source reports 200 %.
        let mut one = Traffic::none(4);
        one.0[1][0] = 7.0;
        close(one.imbalance(), 2.0);
        assert_eq!(Traffic::none(2).imbalance(), None);
        assert_eq!(Traffic::none(2).local_access_ratio(), None);
        assert_eq!(Traffic::counted(vec![vec![1.0]; 2]), None);
        assert_eq!(Traffic::counted(vec![vec![5.0]]).unwrap().imbalance(), None);
    }
}

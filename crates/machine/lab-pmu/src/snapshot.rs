//! All counters at one moment, and the figures derived from them.
//!
//! Source of the figures: Gaud et al. 2015, "Challenges of Memory Management on Modern NUMA
//! Systems" (carrefour), the metrics of section "NUMA performance characteristics".

use std::sync::atomic::AtomicU64;

use crate::kinds::{Mode, Scalar, Vector};
use crate::latency::LatencyBuckets;
use crate::pmu::{Link, Pmu};

/// Bytes that an access transfers.
const LINE_BYTES: f64 = 64.0;

/// The counters of all CPUs, in both modes or in one ([`Snapshot::in_mode`]), at one moment or over
/// the time between two.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The node of each entry of `cpus`.
    node_of_cpu: Vec<usize>,
    controllers_bytes_per_second: Vec<u64>,
    links: Vec<Link>,
    ps_per_cycle: f64,
    /// The counters of each CPU in user mode, then of each CPU in the kernel.
    cpus: Vec<CpuValues>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct CpuValues {
    scalars: Vec<u64>,
    vectors: Vec<Vec<u64>>,
    latencies: LatencyBuckets,
}

impl Snapshot {
    /// The counters as published now.
    #[must_use]
    pub fn take<M: AsRef<[AtomicU64]>>(pmu: &Pmu<M>) -> Self {
        let shape = pmu.shape();
        let values = |cpu: usize, mode: Mode| {
            let counters = pmu.counters(cpu, mode)?;
            Some(CpuValues {
                scalars: Scalar::ALL.iter().map(|s| counters.get(*s)).collect(),
                vectors: Vector::ALL.iter().map(|v| counters.vector(*v)).collect(),
                latencies: counters.latencies(),
            })
        };
        let node = |cpu: usize| pmu.node_of_cpu(cpu).map_or(0, |n| n as usize).min(shape.nodes - 1);
        Self {
            node_of_cpu: Mode::ALL.iter().flat_map(|_| (0..shape.cpus).map(node)).collect(),
            controllers_bytes_per_second: (0..shape.nodes)
                .filter_map(|n| pmu.controller_bytes_per_second(n))
                .collect(),
            links: (0..shape.links).filter_map(|l| pmu.link(l)).collect(),
            ps_per_cycle: pmu.ps_per_cycle(),
            cpus: Mode::ALL
                .into_iter()
                .flat_map(|mode| (0..shape.cpus).filter_map(move |cpu| values(cpu, mode)))
                .collect(),
        }
    }

    /// The counts of one mode. The snapshot must have both modes.
    #[must_use]
    pub fn in_mode(&self, mode: Mode) -> Self {
        let cpus = self.cpus.len() / Mode::ALL.len();
        let part = mode as usize * cpus..(mode as usize + 1) * cpus;
        Self {
            node_of_cpu: self.node_of_cpu.get(part.clone()).unwrap_or_default().to_vec(),
            cpus: self.cpus.get(part).unwrap_or_default().to_vec(),
            controllers_bytes_per_second: self.controllers_bytes_per_second.clone(),
            links: self.links.clone(),
            ps_per_cycle: self.ps_per_cycle,
        }
    }

    /// The counts since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut difference = self.clone();
        for (cpu, before) in difference.cpus.iter_mut().zip(&earlier.cpus) {
            let pairs = cpu.scalars.iter_mut().zip(&before.scalars);
            let vectors = cpu.vectors.iter_mut().flatten().zip(before.vectors.iter().flatten());
            pairs.chain(vectors).for_each(|(now, then)| *now = now.saturating_sub(*then));
            cpu.latencies = cpu.latencies.since(&before.latencies);
        }
        difference
    }

    /// Adds the counts of another period.
    pub fn merge(&mut self, other: &Self) {
        for (cpu, more) in self.cpus.iter_mut().zip(&other.cpus) {
            let pairs = cpu.scalars.iter_mut().zip(&more.scalars);
            let vectors = cpu.vectors.iter_mut().flatten().zip(more.vectors.iter().flatten());
            pairs.chain(vectors).for_each(|(sum, more)| *sum += more);
            cpu.latencies.merge(&more.latencies);
        }
    }

    /// Sum of a counter over all CPUs.
    #[must_use]
    pub fn sum(&self, scalar: Scalar) -> u64 {
        self.cpus.iter().filter_map(|c| c.scalars.get(scalar as usize)).sum()
    }

    /// A vector by node: row = node of the CPU, column = entry.
    #[must_use]
    pub fn by_node(&self, vector: Vector) -> Vec<Vec<u64>> {
        let columns = match vector {
            Vector::LinkLines => 2 * self.links.len(),
            _ => self.nodes(),
        };
        let mut matrix = vec![vec![0; columns]; self.nodes()];
        for (cpu, node) in self.cpus.iter().zip(&self.node_of_cpu) {
            let values = cpu.vectors.get(vector as usize).into_iter().flatten();
            matrix[*node].iter_mut().zip(values).for_each(|(sum, v)| *sum += v);
        }
        matrix
    }

    /// A vector over all CPUs.
    #[must_use]
    pub fn total(&self, vector: Vector) -> Vec<u64> {
        columns(&self.by_node(vector))
    }

    /// Nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.controllers_bytes_per_second.len()
    }

    /// Links, with their bandwidth.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Simulated seconds in which the CPUs were busy, summed over all CPUs.
    #[must_use]
    pub fn cpu_seconds(&self) -> f64 {
        self.sum(Scalar::BusyPs) as f64 * 1e-12
    }

    /// Cycles in which the CPUs were busy.
    #[must_use]
    pub fn cycles(&self) -> f64 {
        self.sum(Scalar::BusyPs) as f64 / self.ps_per_cycle
    }

    /// DRAM accesses, by loads and stores; row = node of the CPU, column = home node.
    #[must_use]
    pub fn dram_accesses(&self) -> Vec<Vec<u64>> {
        let mut sum = self.by_node(Vector::DramReads);
        let writes = self.by_node(Vector::DramWrites);
        let pairs = sum.iter_mut().flatten().zip(writes.iter().flatten());
        pairs.for_each(|(sum, more)| *sum += more);
        sum
    }

    /// DRAM accesses to the CPU's own node, and to other nodes.
    #[must_use]
    pub fn local_remote(&self) -> (u64, u64) {
        let accesses = self.dram_accesses();
        let local = accesses.iter().enumerate().map(|(i, row)| row[i]).sum();
        (local, accesses.iter().flatten().sum::<u64>() - local)
    }

    /// Lines transferred by each node's controller: DRAM accesses and write-backs.
    #[must_use]
    pub fn controller_lines(&self) -> Vec<u64> {
        let accesses = columns(&self.dram_accesses());
        accesses.iter().zip(self.total(Vector::Writebacks)).map(|(a, w)| a + w).collect()
    }

    /// Standard deviation of the controllers' loads, divided by their mean. The load is the number
    /// of DRAM accesses. `None` without an access.
    #[must_use]
    pub fn controller_imbalance(&self) -> Option<f64> {
        deviation(columns(&self.dram_accesses()).into_iter().map(|n| n as f64))
    }

    /// Share of each controller's bandwidth that was used in this time.
    #[must_use]
    pub fn controller_usage(&self, seconds: f64) -> Vec<f64> {
        let lines = self.controller_lines().into_iter();
        let rates = self.controllers_bytes_per_second.iter();
        lines.zip(rates).map(|(n, rate)| usage(n, *rate, seconds)).collect()
    }

    /// Share of each link's bandwidth that was used in this time, the mean of both directions.
    #[must_use]
    pub fn link_usage(&self, seconds: f64) -> Vec<f64> {
        let lines = self.total(Vector::LinkLines);
        let both = lines.as_chunks::<2>().0.iter().map(|[there, back]| there + back);
        both.zip(&self.links)
            .map(|(n, link)| usage(n, link.bytes_per_second, seconds) / 2.0)
            .collect()
    }

    /// Mean of [`Self::link_usage`] over all links. `None` without a link.
    #[must_use]
    pub fn mean_link_usage(&self, seconds: f64) -> Option<f64> {
        let usage = self.link_usage(seconds);
        (!usage.is_empty()).then(|| usage.iter().sum::<f64>() / usage.len() as f64)
    }

    /// Standard deviation of the links' loads, divided by their mean.
    #[must_use]
    pub fn link_imbalance(&self) -> Option<f64> {
        deviation(self.link_usage(1.0).into_iter())
    }

    /// Mean latency of DRAM accesses. `None` without an access.
    #[must_use]
    pub fn mean_latency_ns(&self) -> Option<f64> {
        self.per_access(Scalar::DramLatencyPs)
    }

    /// The part of the mean latency that was spent in queues.
    #[must_use]
    pub fn mean_queue_ns(&self) -> Option<f64> {
        self.per_access(Scalar::QueuePs)
    }

    fn per_access(&self, scalar: Scalar) -> Option<f64> {
        let (local, remote) = self.local_remote();
        ratio(self.sum(scalar) as f64 / 1000.0, (local + remote) as f64)
    }

    /// The latency that this share of the DRAM accesses did not exceed.
    #[must_use]
    pub fn latency_quantile_ns(&self, share: f64) -> Option<f64> {
        let mut all = LatencyBuckets::default();
        self.cpus.iter().for_each(|c| all.merge(&c.latencies));
        all.quantile_ns(share)
    }
}

/// The quotient; `None` when the divisor is 0.
pub(crate) fn ratio(above: f64, below: f64) -> Option<f64> {
    (below > 0.0).then(|| above / below)
}

fn usage(lines: u64, bytes_per_second: u64, seconds: f64) -> f64 {
    ratio(lines as f64 * LINE_BYTES, bytes_per_second as f64 * seconds).unwrap_or(0.0)
}

fn columns(matrix: &[Vec<u64>]) -> Vec<u64> {
    let width = matrix.first().map_or(0, Vec::len);
    (0..width).map(|i| matrix.iter().map(|row| row[i]).sum()).collect()
}

/// Standard deviation, divided by the mean.
fn deviation(values: impl ExactSizeIterator<Item = f64> + Clone) -> Option<f64> {
    let n = values.len() as f64;
    let mean = ratio(values.clone().sum(), n)?;
    let variance = values.map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    ratio(variance.sqrt(), mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    fn pmu() -> Pmu<Vec<AtomicU64>> {
        let shape = Shape::new(4, 2, 1).unwrap();
        let memory = (0..shape.words()).map(|_| AtomicU64::new(0)).collect();
        let link = Link { from: 0, to: 1, bytes_per_second: 640 };
        Pmu::create(memory, shape, &[0, 0, 1, 1], &[6400, 6400], &[link], 500.0).unwrap()
    }

    fn close(value: Option<f64>, expected: f64) -> bool {
        value.is_some_and(|v| (v - expected).abs() < 1e-9)
    }

    #[test]
    fn figures_follow_from_counts() {
        let pmu = pmu();
        let before = Snapshot::take(&pmu);
        assert_eq!(before.controller_imbalance(), None);
        assert_eq!(before.mean_latency_ns(), None);
        for cpu in 0..4 {
            let counters = pmu.counters(cpu, Mode::User).unwrap();
            counters.add_at(Vector::DramReads, 0, 20);
            counters.add_at(Vector::DramWrites, 0, 10);
            counters.add_at(Vector::LinkLines, 1, 4);
            counters.add(Scalar::DramLatencyPs, 30 * 150_000);
            counters.add(Scalar::BusyPs, 2_000_000_000_000);
            (0..30).for_each(|_| counters.add_latency(150.0));
        }
        let seen = Snapshot::take(&pmu).since(&before);
        assert_eq!(seen.dram_accesses(), [[60, 0], [60, 0]]);
        assert_eq!(seen.local_remote(), (60, 60));
        assert!(close(seen.controller_imbalance(), 1.0));
        assert!(close(seen.mean_latency_ns(), 150.0));
        // 16 lines of 64 bytes over 2 s and both directions of 640 bytes/s.
        assert!(close(seen.mean_link_usage(2.0), 0.4));
        assert!(close(seen.controller_usage(1.2).first().copied(), 1.0));
        assert!(close(Some(seen.cpu_seconds()), 8.0));
        assert!(close(Some(seen.cycles()), 16e9));
        assert!(seen.latency_quantile_ns(0.99).is_some_and(|ns| (ns / 150.0 - 1.0).abs() < 0.045));
        pmu.counters(3, Mode::Kernel).unwrap().add_at(Vector::DramReads, 1, 7);
        let both = Snapshot::take(&pmu).since(&before);
        assert_eq!(both.local_remote(), (67, 60));
        assert_eq!(both.in_mode(Mode::Kernel).dram_accesses(), [[0, 0], [0, 7]]);
        assert_eq!(both.in_mode(Mode::User).dram_accesses(), seen.dram_accesses());
        let mut twice = seen.clone();
        twice.merge(&seen);
        assert_eq!(twice.local_remote(), (120, 120));
        assert_eq!(Snapshot::take(&pmu).since(&Snapshot::take(&pmu)).local_remote(), (0, 0));
    }
}

//! The model without an emulator: the cost of known programs.

use std::cell::Cell;

use numapilot_lab_pmu::Vector;
use proptest::prelude::*;

use super::*;
use crate::model::{Cache, Tlb};
use crate::{Link as ModelLink, MemoryRange};

/// Two nodes of two CPUs each. A cycle takes 500 ps, an instruction one cycle.
fn model() -> Model {
    let private = |bytes, latency_cycles| Cache {
        bytes,
        ways: 4,
        latency_cycles,
        cache_of_cpu: vec![0, 1, 2, 3],
    };
    Model {
        title: "test".to_owned(),
        ps_per_cycle: 500.0,
        base_cpi: 1.0,
        memory_level_parallelism: 4.0,
        node_of_cpu: vec![0, 0, 1, 1],
        ranges: vec![
            MemoryRange { node: 0, start: 0, bytes: 1 << 30 },
            MemoryRange { node: 1, start: 1 << 30, bytes: 1 << 30 },
        ],
        caches: vec![
            private(4096, 4.0),
            private(16384, 12.0),
            Cache { cache_of_cpu: vec![0, 0, 1, 1], ..private(1 << 18, 40.0) },
        ],
        tlb: None,
        latency_ns: vec![vec![100.0, 180.0], vec![180.0, 100.0]],
        controllers_gb_per_s: vec![12.8, 12.8],
        links: vec![ModelLink { from: 0, to: 1, gb_per_s: 6.4 }],
        bandwidth_scale: 1.0,
    }
}

fn simulation(model: Model) -> Simulation<Vec<AtomicU64>> {
    let words = model.pmu_shape().unwrap().words();
    Simulation::new(model, (0..words).map(|_| AtomicU64::new(0)).collect()).unwrap()
}

/// The tests' virtual addresses are the physical ones plus this.
const OFFSET: u64 = 0x7000_0000_0000;

struct Known {
    physical: u64,
    value: u64,
    instructions: u64,
}

impl Probe for Known {
    fn physical_address(&self) -> Option<u64> {
        Some(self.physical)
    }

    fn value(&self) -> u64 {
        self.value
    }

    fn instructions(&self) -> u64 {
        self.instructions
    }
}

/// A CPU that executes accesses.
struct Runner<'a> {
    simulation: &'a Simulation<Vec<AtomicU64>>,
    core: Core,
    executed: Executed,
}

impl<'a> Runner<'a> {
    fn new(simulation: &'a Simulation<Vec<AtomicU64>>, cpu: usize) -> Self {
        Self { simulation, core: simulation.core(cpu).unwrap(), executed: Executed::default() }
    }

    fn access(&mut self, physical: u64, write: bool, value: u64, instructions: u64) {
        // Counts as an emulator does.
        let user = &mut self.executed.user;
        user.instructions += instructions;
        *(if write { &mut user.writes } else { &mut user.reads }) += 1;
        let probe = Known { physical, value, instructions: user.instructions };
        let way = if write { Way::Write } else { Way::Load };
        if !self.core.passes(physical + OFFSET, way) {
            self.simulation.access(&mut self.core, physical + OFFSET, way, &probe);
        }
        self.core.executed(self.executed);
        self.simulation.publish(&self.core);
    }

    fn read(&mut self, physical: u64) {
        self.access(physical, false, 0, 1);
    }

    fn write(&mut self, physical: u64) {
        self.access(physical, true, 0, 1);
    }

    fn now_ns(&self) -> f64 {
        self.core.now_ps() as f64 / 1000.0
    }
}

/// Addresses in an order that no prefetcher follows.
fn scattered(base: u64, lines: u64) -> impl Iterator<Item = u64> {
    (0..lines).map(move |i| base + (i * 7919 % lines) * 64)
}

/// Always runs the slowest CPU next, until each has done `steps`.
fn in_turn(runners: &mut [Runner<'_>], steps: u64, mut step: impl FnMut(&mut Runner<'_>, u64)) {
    let mut done = vec![0; runners.len()];
    while let Some(next) =
        (0..runners.len()).filter(|i| done[*i] < steps).min_by_key(|i| runners[*i].core.now_ps())
    {
        step(&mut runners[next], done[next]);
        done[next] += 1;
    }
}

#[test]
fn a_chase_takes_the_configured_latencies() {
    for (home, expected) in [(0u64, 100.0), (1, 180.0)] {
        let simulation = simulation(model());
        let mut cpu = Runner::new(&simulation, 0);
        let order: Vec<u64> = scattered(home << 30, 1 << 15).collect();
        for pair in order.windows(2) {
            cpu.access(pair[0], false, pair[1] + OFFSET, 2);
        }
        let each = cpu.now_ns() / (order.len() - 1) as f64 - 1.0;
        assert!((each / expected - 1.0).abs() < 0.03, "{each} for {expected}");
    }
}

#[test]
fn independent_misses_overlap() {
    let simulation = simulation(model());
    let mut cpu = Runner::new(&simulation, 0);
    scattered(0, 1 << 15).for_each(|address| cpu.read(address));
    let each = cpu.now_ns() / f64::from(1 << 15);
    assert!((each / (100.0 / 4.0) - 1.0).abs() < 0.1, "{each}");
}

#[test]
fn streams_get_the_bandwidth_of_the_controller_or_the_link() {
    for (home, expected) in [(0u64, 12.8), (1, 6.4)] {
        let simulation = simulation(model());
        let mut cpus: Vec<_> = (0..2).map(|cpu| Runner::new(&simulation, cpu)).collect();
        let lines = 40_000;
        in_turn(&mut cpus, lines, |runner, i| {
            let base = (home << 30) + runner.core.cpu() as u64 * (256 << 20);
            runner.access(base + i * 64, false, 0, 4);
        });
        let slowest = cpus.iter().map(Runner::now_ns).fold(0.0, f64::max);
        let rate = (2 * lines * 64) as f64 / slowest;
        assert!((rate / expected - 1.0).abs() < 0.1, "{rate} GB/s for {expected}");
    }
}

#[test]
fn latency_under_load_grows_to_the_bandwidth_and_then_steeply() {
    let mean = |instructions: u64| {
        let simulation = simulation(model());
        let mut cpus: Vec<_> = (0..2).map(|cpu| Runner::new(&simulation, cpu)).collect();
        in_turn(&mut cpus, 30_000, |runner, i| {
            let base = runner.core.cpu() as u64 * (256 << 20);
            runner.access(base + i * 64, false, 0, instructions);
        });
        let counted = numapilot_lab_pmu::Snapshot::take(simulation.pmu());
        counted.mean_latency_ns().unwrap()
    };
    // The requested rate grows from 1 to 16 GB/s.
    let curve: Vec<f64> = [256, 128, 64, 32, 24, 20, 16].into_iter().map(mean).collect();
    assert!(curve.windows(2).all(|w| w[0] <= w[1] * 1.001), "{curve:?}");
    assert!(curve[0] < 101.0 && curve[3] < 115.0 && curve[6] > 125.0, "{curve:?}");
}

#[test]
fn a_written_line_leaves_other_caches_and_is_fetched_from_its_owner() {
    let simulation = simulation(model());
    let (mut here, mut there) = (Runner::new(&simulation, 0), Runner::new(&simulation, 2));
    here.read(4096);
    there.read(4096);
    let before = there.now_ns();
    there.read(4096);
    assert!((there.now_ns() - before - 0.5).abs() < 1e-9, "a hit");
    here.write(4096);
    assert_eq!(simulation.counter(0, Mode::User, Scalar::Invalidations), 1);
    there.read(4096);
    let transfers = simulation.pmu().counters(2, Mode::User).unwrap().vector(Vector::Transfers);
    assert_eq!(transfers, [1, 0]);
    assert_eq!(simulation.counter(2, Mode::User, Scalar::LastMisses), 2);
}

/// As `model`, but each CPU has a last-level cache of eight lines.
fn model_of_own_caches() -> Model {
    let caches = model().caches;
    let last = Cache { bytes: 512, ways: 8, cache_of_cpu: vec![0, 1, 2, 3], ..caches[2].clone() };
    Model { caches: vec![Cache { bytes: 256, ..caches[0].clone() }, last], ..model() }
}

#[test]
fn who_alone_has_a_line_changes_it_without_telling_and_is_asked_for_it() {
    let simulation = simulation(model_of_own_caches());
    let (mut here, mut there) = (Runner::new(&simulation, 0), Runner::new(&simulation, 2));
    let transfers = || simulation.pmu().counters(2, Mode::User).unwrap().vector(Vector::Transfers);
    here.read(4096);
    there.read(4096);
    assert_eq!(transfers(), [0, 0], "nobody has changed it");
    here.write(4096);
    assert_eq!(simulation.counter(0, Mode::User, Scalar::Invalidations), 1, "both had it");
    here.read(8192);
    let before = here.now_ns();
    here.write(8192);
    assert!((here.now_ns() - before - 0.5).abs() < 1e-9, "an instruction's time");
    assert_eq!(simulation.counter(0, Mode::User, Scalar::Invalidations), 1, "nobody else had it");
    there.read(8192);
    assert_eq!(transfers(), [1, 0], "from who has changed it");
    here.write(8192);
    assert_eq!(simulation.counter(0, Mode::User, Scalar::Invalidations), 2);
}

#[test]
fn what_was_changed_without_telling_is_written_back() {
    let simulation = simulation(model_of_own_caches());
    let mut cpu = Runner::new(&simulation, 0);
    let writebacks =
        || simulation.pmu().counters(0, Mode::User).unwrap().vector(Vector::Writebacks);
    for line in 1..=8 {
        cpu.read(line * 64);
        if line % 2 == 0 {
            cpu.write(line * 64);
        }
    }
    assert_eq!(writebacks(), [0, 0]);
    (9..=40).for_each(|line| cpu.read(line * 64));
    assert_eq!(writebacks(), [4, 0]);
}

#[test]
fn false_sharing_costs() {
    // The result holds for any number of accesses between switches.
    for turn in [1, 100, 10_000] {
        let time = |distance: u64| {
            let simulation = simulation(model());
            let mut cpus = [Runner::new(&simulation, 0), Runner::new(&simulation, 2)];
            for _ in 0..100_000 / turn {
                for (i, cpu) in cpus.iter_mut().enumerate() {
                    (0..turn).for_each(|_| cpu.write(8192 + i as u64 * distance));
                }
            }
            cpus[0].now_ns().max(cpus[1].now_ns())
        };
        let (shared, apart) = (time(8), time(64));
        assert!(shared > apart * 1.8, "{turn}: {shared} ns, {apart} ns apart");
    }
}

#[test]
fn a_line_that_is_fought_for_is_a_miss_each_time_it_comes_only() {
    let simulation = simulation(model());
    let mut cpus = [Runner::new(&simulation, 0), Runner::new(&simulation, 2)];
    for _ in 0..100 {
        cpus.iter_mut().for_each(|cpu| (0..100).for_each(|_| cpu.write(8192)));
    }
    for cpu in [0, 2] {
        let [misses, references] = [Scalar::FirstMisses, Scalar::LastReferences]
            .map(|scalar| simulation.counter(cpu, Mode::User, scalar));
        assert_eq!(misses, references, "CPU {cpu}");
        assert!((10..1000).contains(&misses), "{misses} misses of 10,000 accesses");
    }
}

#[test]
fn a_working_set_stays_in_the_level_it_fits() {
    let simulation = simulation(model());
    let mut cpu = Runner::new(&simulation, 0);
    for _ in 0..20 {
        (1..=128).for_each(|i| cpu.read(i * 64));
    }
    assert_eq!(simulation.counter(0, Mode::User, Scalar::LastMisses), 128);
    assert_eq!(simulation.counter(0, Mode::User, Scalar::LastReferences), 128);
    assert_eq!(simulation.counter(0, Mode::User, Scalar::FirstMisses), 20 * 128);
}

#[test]
fn samples_come_at_the_period_and_say_where_from() {
    let simulation = simulation(model());
    let samplers = simulation.pmu().samplers();
    samplers.set_period(samplers.claim(1, |_| true).unwrap(), 100);
    let ring = simulation.pmu().ring(3).unwrap();
    let mut reader = ring.reader();
    let mut cpu = Runner::new(&simulation, 3);
    scattered(0, 5000).for_each(|address| cpu.read(address));
    let samples: Vec<Record> = std::iter::from_fn(|| ring.next(&mut reader)).collect();
    assert_eq!((samples.len(), reader.lost()), (50, 0));
    for sample in samples {
        assert_eq!((sample.cpu, sample.home, sample.level), (3, 0, Level::Dram));
        assert_eq!(sample.period, 100);
        assert_eq!(sample.virtual_address, sample.physical_address + OFFSET);
        assert!((180..400).contains(&sample.latency_ns), "{sample:?}");
    }
}

#[test]
fn a_tlb_miss_costs_a_walk() {
    let mut with = model();
    with.tlb = Some(Tlb { entries_4k: 8, entries_2m: 8, entries_kernel: 8, walk_cycles: 60.0 });
    let time = |model| {
        let simulation = simulation(model);
        let mut cpu = Runner::new(&simulation, 0);
        for _ in 0..100 {
            // Sixteen pages of different regions, which no huge page explains.
            (0..16u64).for_each(|page| cpu.read(page * ((2 << 20) + 4096)));
        }
        (cpu.now_ns(), simulation.counter(0, Mode::User, Scalar::Tlb4kMisses))
    };
    let ((plain, none), (walked, misses)) = (time(model()), time(with));
    assert_eq!((none, misses), (0, 1600));
    assert!((walked - plain - 1600.0 * 30.0).abs() < 1.0, "{plain} {walked}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // Line 0 belongs to the firmware, never to a program: caches take it for an empty way.
    #[test]
    fn counters_conserve(
        accesses in proptest::collection::vec((0usize..4, 1u64..2048, any::<bool>()), 1..3000),
        spread in 1u64..600,
        own in any::<bool>(),
    ) {
        let simulation = simulation(if own { model_of_own_caches() } else { model() });
        let mut cpus: Vec<_> = (0..4).map(|cpu| Runner::new(&simulation, cpu)).collect();
        let clock = Cell::new(0);
        for (cpu, line, write) in &accesses {
            let runner = &mut cpus[*cpu];
            let before = runner.core.now_ps();
            runner.access(line * spread * 64 % (2 << 30), *write, 0, 3);
            prop_assert!(runner.core.now_ps() > before);
            clock.set(clock.get().max(runner.core.now_ps()));
        }
        let seen = numapilot_lab_pmu::Snapshot::take(simulation.pmu());
        let sum = |scalar| seen.sum(scalar);
        let total = |vector| seen.total(vector).iter().sum::<u64>();
        prop_assert_eq!(sum(Scalar::Reads) + sum(Scalar::Writes), accesses.len() as u64);
        let dram = total(Vector::DramReads) + total(Vector::DramWrites);
        prop_assert_eq!(sum(Scalar::LastMisses), dram + total(Vector::Transfers));
        prop_assert!(sum(Scalar::LastMisses) <= sum(Scalar::LastReferences));
        let (local, remote) = seen.local_remote();
        prop_assert_eq!(local + remote, dram);
        // Every line on the link is a remote access, a remote write-back or a transfer.
        prop_assert!(total(Vector::LinkLines) <=
            remote + total(Vector::Writebacks) + total(Vector::Transfers));
        prop_assert_eq!(simulation.pmu().time_ns(), clock.get() / 1000);
    }
}

#[test]
fn elements_of_a_line_count_once_beside_what_the_emulator_counts() {
    let simulation = simulation(model());
    let mut runner = Runner::new(&simulation, 0);
    let probe = Known { physical: 4096, value: 0, instructions: 0 };
    for byte in 0..256 {
        simulation.access_element(&mut runner.core, OFFSET + 4096 + byte, Way::Write, &probe);
    }
    runner.core.executed(Executed {
        user: Accesses { instructions: 9, reads: 5, writes: 3 },
        kernel: Accesses { instructions: 2, reads: 1, writes: 0 },
    });
    simulation.publish(&runner.core);
    assert_eq!(simulation.counter(0, Mode::User, Scalar::Writes), 4 + 3);
    assert_eq!(simulation.counter(0, Mode::User, Scalar::Reads), 5);
    assert_eq!(simulation.counter(0, Mode::User, Scalar::FirstMisses), 4);
}

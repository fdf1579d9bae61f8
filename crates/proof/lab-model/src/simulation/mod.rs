//! The simulation of every access of every CPU, in the emulator's order.
//!
//! ```text
//!  access -> tlb -> first level -> middle -> directory (the holders) -> last level
//!                                                |                       of another node
//!                                                +-> network -> DRAM of the home node
//! ```
//!
//! One thread runs all CPUs, so no two accesses are simulated at the same time. Shared state is
//! nevertheless in atomics, with relaxed ordering: the callbacks of the CPUs access it through
//! shared references.

mod coherence;
mod contended_lines;
mod core;
pub(crate) mod directory;
mod factor;
mod filter;
mod home_map;
mod l1;
mod llc;
mod mask;
mod network;
mod overlap;
mod private;
#[cfg(test)]
mod tests;
mod tlb;

use std::sync::atomic::AtomicU64;

use numapilot_lab_pmu::{Level, Link, Mode, Pmu, PmuError, Record, Scalar};

use self::coherence::Contended;
use self::contended_lines::ContendedLines;
pub use self::core::{Accesses, Core, Executed};
use self::directory::{Directory, Entry};
use self::home_map::HomeMap;
use self::l1::L1;
use self::llc::Llc;
use self::network::Network;
pub use self::overlap::PREFETCH_FACTOR;
use self::private::{Found, PrivateCache};
use self::tlb::{Miss, Place};
use crate::Model;
use crate::model::LINE_BYTES;

/// The usual length of a quantum, in picoseconds. CPUs run one after another, each for a quantum,
/// so their clocks differ by about this much at most. A shorter one changes no figure beyond the
/// spread of its seeds; one of 5 µs makes a tenth fewer transfers of contended lines.
pub const QUANTUM_PS: u64 = 1_000_000;

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Reads a value that is not an address.
    Read,
    /// Reads a value that may be an address, or from which one may be computed.
    Load,
    /// Writes.
    Write,
}

/// Answers questions about the current access.
pub trait Probe {
    /// The physical address; `None` if it is not memory.
    fn physical_address(&self) -> Option<u64>;
    /// The value that [`Way::Load`] loads.
    fn value(&self) -> u64;
    /// The instructions that the CPU has executed so far, in user mode and in the kernel.
    fn instructions(&self) -> u64;
}

/// The simulation; see the module documentation. `M` is the memory of the PMU.
#[derive(Debug)]
pub struct Simulation<M> {
    model: Model,
    pmu: Pmu<M>,
    home_map: HomeMap,
    network: Network,
    directory: Directory,
    contended_lines: ContendedLines,
    l1: Vec<L1>,
    middle: Vec<PrivateCache>,
    llc: Vec<Llc>,
    /// The last-level cache of each CPU.
    groups: Vec<usize>,
    /// The CPUs of each last-level cache, as a mask.
    sharers: Vec<u64>,
    /// Latency of the private second level, beyond that of the first.
    middle_ps: u64,
    /// Latency of the last level, beyond that of the first.
    llc_ps: u64,
    /// Cost of a page walk.
    walk_ps: u64,
    /// `[node of the CPU][home node]`: latency of DRAM without queues.
    latencies_ps: Vec<Vec<u64>>,
}

/// A request that a CPU's private caches cannot serve.
#[derive(Clone, Copy, Debug)]
struct Request<'a> {
    entry: Entry<'a>,
    home: usize,
    write: bool,
    /// Whether the private caches have the line, without the right to write it.
    had: bool,
    now_ps: u64,
    /// Whether the CPU's last-level cache is known to lack the line.
    absent: bool,
}

/// The source of a line, the latency, and the part of it that was spent in queues.
#[derive(Clone, Copy, Debug)]
struct Served {
    level: Level,
    latency_ps: u64,
    queue_ps: u64,
}

impl<M: AsRef<[AtomicU64]>> Simulation<M> {
    /// A machine at rest, with its counters in the given zeroed memory.
    ///
    /// # Errors
    /// [`PmuError::Damaged`] when the memory is smaller than [`Model::pmu_shape`] requires.
    pub fn new(model: Model, memory: M) -> Result<Self, PmuError> {
        let bytes = size_of_val(memory.as_ref());
        let shape = model.pmu_shape().ok_or(PmuError::Damaged { bytes })?;
        let per_second = |gb: f64| (gb * 1e9) as u64;
        let pmu = Pmu::create(
            memory,
            shape,
            &model.node_of_cpu.iter().map(|n| *n as u32).collect::<Vec<_>>(),
            &model.controllers_gb_per_s.iter().map(|b| per_second(*b)).collect::<Vec<_>>(),
            &model
                .links
                .iter()
                .map(|l| Link {
                    from: l.from as u32,
                    to: l.to as u32,
                    bytes_per_second: per_second(l.gb_per_s),
                })
                .collect::<Vec<_>>(),
            model.ps_per_cycle,
        )?;
        let cpus = model.node_of_cpu.len();
        let (l1, llc) = (&model.caches[0], &model.caches[model.caches.len() - 1]);
        let middle = &model.caches[1..model.caches.len().max(2) - 1];
        let groups: Vec<usize> = llc.cache_of_cpu.iter().map(|g| *g as usize).collect();
        let mut sharers = vec![0u64; groups.iter().max().map_or(0, |g| g + 1)];
        for (cpu, group) in groups.iter().enumerate() {
            sharers[*group] |= 1 << cpu;
        }
        let caches: Vec<Llc> = sharers.iter().map(|_| Llc::new(llc)).collect();
        let beyond_l1 = |cache: &crate::Cache| {
            ((cache.latency_cycles - l1.latency_cycles) * model.ps_per_cycle) as u64
        };
        Ok(Self {
            home_map: HomeMap::new(&model.ranges),
            network: Network::new(&model),
            directory: Directory::new(caches.iter().map(Llc::lines).sum()),
            contended_lines: ContendedLines::new(),
            l1: (0..cpus).map(|_| L1::new(l1)).collect(),
            middle: middle
                .first()
                .map(|cache| (0..cpus).map(|_| PrivateCache::new(cache)).collect())
                .unwrap_or_default(),
            middle_ps: middle.first().map_or(0, beyond_l1),
            llc_ps: beyond_l1(llc),
            walk_ps: model.tlb.as_ref().map_or(0.0, |t| t.walk_cycles * model.ps_per_cycle) as u64,
            latencies_ps: (model.latency_ns.iter())
                .map(|from| from.iter().map(|ns| (ns * 1000.0) as u64).collect())
                .collect(),
            llc: caches,
            groups,
            sharers,
            pmu,
            model,
        })
    }

    /// The counters.
    #[must_use]
    pub fn pmu(&self) -> &Pmu<M> {
        &self.pmu
    }

    /// The initial state of a CPU; `None` beyond the model's CPUs.
    #[must_use]
    pub fn core(&self, cpu: usize) -> Option<Core> {
        let l1 = self.l1.get(cpu)?;
        let group = self.groups[cpu];
        Some(Core::new(cpu, &self.model, l1.filter(), group, self.sharers[group]))
    }

    /// Simulates an access of a CPU to this virtual address, which the filter does not let pass
    /// ([`Core::passes`]). The emulator counts the access ([`Core::executed`]).
    pub fn access(&self, core: &mut Core, address: u64, way: Way, probe: &impl Probe) {
        if way != Way::Load || !core.passes(address, Way::Read) {
            return self.look_up(core, address, way, probe);
        }
        if core.missed(address) {
            core.note_value(way, probe);
        } else {
            core.filter.suppress_reports(address);
        }
    }

    /// Simulates an access of an instruction whose number of accesses is not known in advance, such
    /// as a repeated string instruction. Consecutive accesses to a line count as one. The model
    /// counts these accesses, not the emulator.
    pub fn access_element(&self, core: &mut Core, address: u64, way: Way, probe: &impl Probe) {
        let write = way == Way::Write;
        if core.first_in_line(address, write) {
            core.counts().add(write);
            if !core.passes(address, way) {
                self.access(core, address, way, probe);
            }
        }
    }

    /// Simulates an access that the filter does not let pass.
    #[inline(never)]
    fn look_up(&self, core: &mut Core, address: u64, way: Way, probe: &impl Probe) {
        let Some(Place { physical_page, home }) =
            core.tlb.recent(address).or_else(|| self.translate(core, address, probe))
        else {
            return;
        };
        let line = physical_page << 6 | address >> 6 & 63;
        let write = way == Way::Write;
        let found = match self.l1[core.cpu].touch(line) {
            Found::Shared if write && self.changes_alone(core, line) => Found::Writable,
            found => found,
        };
        if !found.allows(write) {
            return self.beyond_l1(core, address, line, home, way, found, probe);
        }
        let missed = core.missed(address);
        core.let_through(address, line, found == Found::Writable, missed);
        if missed {
            core.note_value(way, probe);
        }
    }

    fn translate(&self, core: &mut Core, address: u64, probe: &impl Probe) -> Option<Place> {
        let physical = || probe.physical_address();
        let (place, miss) = core.tlb.translate(address, physical, &self.home_map, &core.filter)?;
        match miss {
            Miss::Hit => {}
            Miss::Page => {
                core.counts().tlb_4k_misses += 1;
                core.stall(self.walk_ps);
            }
            Miss::HugePage => {
                core.counts().tlb_2m_misses += 1;
                core.stall(self.walk_ps);
            }
        }
        Some(place)
    }

    /// Simulates an access that the first level does not serve. It is a separate function, so that
    /// its callers do not save registers for it.
    #[allow(clippy::too_many_arguments)]
    #[inline(never)]
    fn beyond_l1(
        &self,
        core: &mut Core,
        address: u64,
        line: u64,
        home: usize,
        way: Way,
        found: Found,
        probe: &impl Probe,
    ) {
        let write = way == Way::Write;
        let entry = self.directory.entry(line);
        entry.prepare();
        let llc = &self.llc[core.group];
        llc.prepare(line);
        core.instructions(probe.instructions());
        let now_ps = core.now_ps();
        let contested = match self.contested(core, line, write, now_ps) {
            Contended::No => None,
            Contended::Held => {
                if core.missed(address) {
                    core.note_value(way, probe);
                }
                return;
            }
            Contended::Lost(served) => Some(served),
        };
        let mut had = found != Found::No;
        let mut middle = Found::No;
        if !had {
            core.counts().first_misses += 1;
            middle = self.middle.get(core.cpu).map_or(Found::No, |c| c.touch(line));
            had = middle != Found::No;
        }
        let kind = core.overlap.classify(address, had, now_ps);
        let (served, kept) = if let Some(served) = contested {
            (served, None)
        } else {
            let mut writable = write || middle == Found::Writable;
            let served = if middle.allows(write) {
                Served { level: Level::Private, latency_ps: self.middle_ps, queue_ps: 0 }
            } else {
                // A CPU may use a line of its own last-level cache without asking; for a shared
                // cache, the directory decides.
                let own = core.has_own_llc().then(|| llc.access(line, write));
                match own {
                    Some(found) if found.allows(write) => {
                        core.counts().last_references += u64::from(!had);
                        writable |= found == Found::Writable;
                        let latency_ps = if had { 0 } else { self.llc_ps };
                        Served { level: Level::Last, latency_ps, queue_ps: 0 }
                    }
                    found => {
                        let absent = found == Some(Found::No);
                        let request = Request { entry, home, write, had, now_ps, absent };
                        match self.beyond_private(core, request) {
                            Some(served) => served,
                            None => return,
                        }
                    }
                }
            };
            let contended = core.contention.since_ps(line).is_some();
            if contended {
                self.remove_private(core.cpu, line);
            } else if found == Found::No {
                self.fill(core.cpu, line, writable, middle != Found::No);
            } else {
                self.allow_writing(core.cpu, line);
            }
            (served, (!contended).then_some(writable))
        };
        let stall_ps = core.overlap.stall_ps(kind, served.latency_ps, now_ps);
        core.stall(stall_ps);
        core.missed_line = address / LINE_BYTES;
        if let Some(writable) = kept {
            core.let_through(address, line, writable, true);
        }
        core.note_value(way, probe);
        // A write to a present line, which requests only the right to write, is not a miss.
        if found == Found::No {
            self.sample(core, address, line, home, write, &served);
        }
    }

    fn sample(
        &self,
        core: &mut Core,
        virtual_address: u64,
        line: u64,
        home: usize,
        write: bool,
        served: &Served,
    ) {
        let period = self.pmu.sample_period();
        if period == 0 {
            return;
        }
        // A shorter period takes effect at once.
        core.until_sample = core.until_sample.min(period);
        core.until_sample = core.until_sample.saturating_sub(1);
        if core.until_sample > 0 {
            return;
        }
        core.until_sample = period;
        let Some(ring) = self.pmu.ring(core.cpu) else { return };
        ring.push(&Record {
            time_ns: core.now_ps() / 1000,
            virtual_address,
            physical_address: line * LINE_BYTES + virtual_address % LINE_BYTES,
            cpu: core.cpu as u32,
            home: home as u32,
            write,
            level: served.level,
            latency_ns: (served.latency_ps / 1000) as u32,
            period,
        });
    }

    /// Writes a CPU's clock and counters to the PMU. To be called at least once per quantum.
    pub fn publish(&self, core: &Core) {
        for mode in Mode::ALL {
            if let Some(counters) = self.pmu.counters(core.cpu, mode) {
                core.write_counters(mode, &counters);
            }
        }
        self.pmu.advance_time(core.now_ps() / 1000);
    }

    /// A counter of a CPU, as published.
    #[must_use]
    pub fn counter(&self, cpu: usize, mode: Mode, scalar: Scalar) -> u64 {
        self.pmu.counters(cpu, mode).map_or(0, |c| c.get(scalar))
    }
}

//! The private state of one CPU: its clock, translation, recent misses and counters, which are
//! published periodically.

use std::sync::Arc;

use numapilot_lab_pmu::{CpuCounters, Scalar};

use super::contended_lines::Contention;
use super::factor::Factor;
use super::filter::Filter;
use super::overlap::Overlap;
use super::tlb::TlbState;
use super::{Probe, Way};
use crate::Model;
use crate::model::LINE_BYTES;

/// The state of a CPU, owned by the thread that runs the CPU.
#[derive(Debug)]
pub struct Core {
    pub(crate) cpu: usize,
    pub(crate) node: usize,
    /// The CPU's last-level cache.
    pub(crate) group: usize,
    /// The CPUs that share this cache, as a mask.
    pub(crate) sharers: u64,
    pub(crate) filter: Arc<Filter>,
    pub(crate) tlb: TlbState,
    pub(crate) overlap: Overlap,
    pub(crate) contention: Contention,
    ps_per_instruction: Factor,
    /// The counts when the caller last reported them.
    executed: Executed,
    /// Time in addition to that of instructions.
    pub(crate) stall_ps: u64,
    /// Time that was skipped while the CPU was idle.
    idle_ps: u64,
    pub(crate) counts: Counts,
    /// Virtual line of the last miss. Later loads from it may produce the next address.
    pub(crate) missed_line: u64,
    /// Virtual lines that string instructions last read and wrote.
    element_lines: [u64; 2],
    /// Number of misses until the next sample.
    pub(crate) until_sample: u64,
}

/// What the emulator counts for a CPU, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Instructions in user mode.
    pub user: u64,
    /// Instructions in the kernel.
    pub kernel: u64,
    /// Reads in user mode, except those that are reported individually
    /// ([`Simulation::access_element`](super::Simulation::access_element)).
    pub reads: u64,
    /// Writes in user mode, with the same exception.
    pub writes: u64,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub reads: u64,
    pub writes: u64,
    pub first_misses: u64,
    pub last_references: u64,
    pub last_misses: u64,
    pub tlb_4k_misses: u64,
    pub tlb_2m_misses: u64,
    pub invalidations: u64,
    pub dram_latency_ps: u64,
    pub queue_ps: u64,
}

impl Counts {
    /// Counts an access that the emulator does not count.
    #[inline]
    pub(crate) fn add(&mut self, write: bool) {
        if write {
            self.writes += 1;
        } else {
            self.reads += 1;
        }
    }
}

impl Core {
    pub(crate) fn new(
        cpu: usize,
        model: &Model,
        filter: Arc<Filter>,
        group: usize,
        sharers: u64,
    ) -> Self {
        Self {
            cpu,
            node: model.node_of_cpu[cpu],
            group,
            sharers,
            filter,
            tlb: TlbState::new(model.tlb.as_ref()),
            overlap: Overlap::new(model.memory_level_parallelism),
            contention: Contention::new(),
            ps_per_instruction: Factor::new(model.base_cpi * model.ps_per_cycle),
            executed: Executed::default(),
            stall_ps: 0,
            idle_ps: 0,
            counts: Counts::default(),
            missed_line: u64::MAX,
            element_lines: [u64::MAX; 2],
            until_sample: 0,
        }
    }

    /// The CPU's index.
    #[must_use]
    pub fn cpu(&self) -> usize {
        self.cpu
    }

    /// Whether an access to this virtual address changes nothing, so the model need not see it.
    #[inline]
    #[must_use]
    pub fn passes(&self, address: u64, way: Way) -> bool {
        self.filter.allows(address, way)
    }

    /// Whether no other CPU uses its last-level cache.
    #[inline]
    pub(crate) fn has_own_llc(&self) -> bool {
        self.sharers.is_power_of_two()
    }

    /// As [`Self::executed`], for instructions in user mode only.
    #[inline]
    pub(crate) fn instructions(&mut self, instructions: u64) {
        self.executed.user = instructions;
    }

    /// Records what the CPU has executed so far.
    pub fn executed(&mut self, executed: Executed) {
        self.executed = executed;
    }

    /// Records the value that an access has loaded.
    #[inline]
    pub(crate) fn note_value(&mut self, way: Way, probe: &impl Probe) {
        if way == Way::Load {
            self.overlap.loaded(probe.value());
        }
    }

    /// Lets accesses to the line of this virtual address, which is on a recent page, pass the
    /// filter from now on: see [`Filter::insert`].
    #[inline]
    pub(crate) fn let_through(&mut self, address: u64, line: u64, writable: bool, told: bool) {
        self.tlb.filtered(address);
        self.filter.insert(address, line, writable, told);
    }

    /// Whether loads from the line of this virtual address may produce the next address.
    #[inline]
    pub(crate) fn missed(&self, address: u64) -> bool {
        address / LINE_BYTES == self.missed_line
    }

    /// Whether a string instruction accesses another line than before.
    #[inline]
    pub(crate) fn first_in_line(&mut self, address: u64, write: bool) -> bool {
        let line = address / LINE_BYTES;
        std::mem::replace(&mut self.element_lines[usize::from(write)], line) != line
    }

    /// The CPU's clock.
    #[must_use]
    #[inline]
    pub fn now_ps(&self) -> u64 {
        self.busy_ps() + self.idle_ps
    }

    #[inline]
    fn busy_ps(&self) -> u64 {
        self.ps_per_instruction.times(self.executed.user) + self.stall_ps
    }

    /// Advances the clock.
    pub(crate) fn skip_to(&mut self, ps: u64) {
        self.idle_ps += ps.saturating_sub(self.now_ps());
    }

    /// The guest has flushed the CPU's TLB.
    pub fn flush_tlb(&mut self) {
        self.tlb.flush(&self.filter);
    }

    /// Publishes the counts.
    pub(crate) fn write_counters(&self, counters: &CpuCounters<'_>) {
        let c = &self.counts;
        let values = [
            (Scalar::Instructions, self.executed.user),
            (Scalar::KernelInstructions, self.executed.kernel),
            (Scalar::ClockPs, self.now_ps()),
            (Scalar::BusyPs, self.busy_ps()),
            (Scalar::Reads, c.reads + self.executed.reads),
            (Scalar::Writes, c.writes + self.executed.writes),
            (Scalar::FirstMisses, c.first_misses),
            (Scalar::LastReferences, c.last_references),
            (Scalar::LastMisses, c.last_misses),
            (Scalar::Tlb4kMisses, c.tlb_4k_misses),
            (Scalar::Tlb2mMisses, c.tlb_2m_misses),
            (Scalar::Invalidations, c.invalidations),
            (Scalar::DramLatencyPs, c.dram_latency_ps),
            (Scalar::QueuePs, c.queue_ps),
        ];
        values.into_iter().for_each(|(scalar, value)| counters.set(scalar, value));
    }
}

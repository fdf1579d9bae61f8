//! The private state of one CPU: its clock, address translation, recent misses, and counters, which
//! are written to the PMU periodically.

use std::sync::Arc;

use numapilot_lab_pmu::{CpuCounters, Mode, Scalar};

use super::contended_lines::Contention;
use super::factor::Factor;
use super::filter::Filter;
use super::overlap::Overlap;
use super::tlb::TlbState;
use super::{Probe, Way};
use crate::Model;
use crate::model::LINE_BYTES;

/// The state of a CPU.
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
    /// The mode of the current access or stall.
    pub(crate) mode: Mode,
    ps_per_instruction: Factor,
    instructions_per_ps: Factor,
    /// Instructions and accesses, as of the last call of [`Core::executed`].
    executed: Executed,
    /// Instructions of both modes, as of the last call of [`Core::executed`] or
    /// [`Core::instructions`].
    instructions: u64,
    /// Time of stalls, by mode.
    stall_ps: [u64; 2],
    /// Time that the CPU was halted.
    idle_ps: u64,
    /// Events that the model counts, by mode.
    counts: [Counts; 2],
    /// Virtual line of the last miss. Later loads from it may produce the next address.
    pub(crate) missed_line: u64,
    /// Virtual lines that string instructions last read and wrote.
    element_lines: [u64; 2],
    /// Number of misses until the next sample.
    pub(crate) until_sample: u64,
}

/// The instructions and accesses of a CPU that the emulator counts, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// In user mode.
    pub user: Accesses,
    /// In the kernel.
    pub kernel: Accesses,
}

/// The emulator's counts of one mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Instructions.
    pub instructions: u64,
    /// Reads, except those that are reported one by one
    /// ([`Simulation::access_element`](super::Simulation::access_element)).
    pub reads: u64,
    /// Writes, with the same exception.
    pub writes: u64,
}

impl Executed {
    /// Instructions of both modes.
    #[inline]
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.user.instructions + self.kernel.instructions
    }
}

/// The model's counts of one mode, since the start.
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
            instructions_per_ps: Factor::new(1.0 / (model.base_cpi * model.ps_per_cycle)),
            executed: Executed::default(),
            instructions: 0,
            mode: Mode::User,
            stall_ps: [0; 2],
            idle_ps: 0,
            counts: [Counts::default(); 2],
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

    /// Sets the number of instructions that the CPU has executed so far, in both modes.
    #[inline]
    pub fn instructions(&mut self, instructions: u64) {
        self.instructions = instructions;
    }

    /// Sets the counts of instructions and accesses that the CPU has executed so far.
    pub fn executed(&mut self, executed: Executed) {
        self.executed = executed;
        self.instructions = executed.instructions();
    }

    /// The number of instructions that take this time if none of them stalls.
    #[inline]
    #[must_use]
    pub fn instructions_in(&self, ps: u64) -> u64 {
        self.instructions_per_ps.times(ps)
    }

    /// Sum of all stalls so far.
    #[inline]
    #[must_use]
    pub fn stall_ps(&self) -> u64 {
        self.stall_ps[0] + self.stall_ps[1]
    }

    /// Sets the mode to which the following accesses and stalls belong.
    #[inline]
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// Adds a stall: the CPU waits for memory, or pauses in a spin loop.
    #[inline]
    pub fn stall(&mut self, ps: u64) {
        self.stall_ps[self.mode as usize] += ps;
    }

    /// The counts of the current mode.
    #[inline]
    pub(crate) fn counts(&mut self) -> &mut Counts {
        &mut self.counts[self.mode as usize]
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
    pub(crate) fn let_through(&mut self, address: u64, line: u64, writable: bool, reported: bool) {
        self.tlb.filtered(address);
        self.filter.insert(address, line, writable, reported);
    }

    /// Whether loads from the line of this virtual address may produce the next address.
    #[inline]
    pub(crate) fn missed(&self, address: u64) -> bool {
        address / LINE_BYTES == self.missed_line
    }

    /// Whether a string instruction accesses another line than its previous access did.
    #[inline]
    pub(crate) fn first_in_line(&mut self, address: u64, write: bool) -> bool {
        let line = address / LINE_BYTES;
        std::mem::replace(&mut self.element_lines[usize::from(write)], line) != line
    }

    /// The CPU's clock: the time that it was busy or halted.
    #[must_use]
    #[inline]
    pub fn now_ps(&self) -> u64 {
        self.busy_ps() + self.idle_ps
    }

    #[inline]
    fn busy_ps(&self) -> u64 {
        self.ps_per_instruction.times(self.instructions) + self.stall_ps()
    }

    /// The CPU's clock if it has executed this many instructions, in both modes.
    #[must_use]
    pub fn clock_ps(&self, instructions: u64) -> u64 {
        self.ps_per_instruction.times(instructions) + self.stall_ps() + self.idle_ps
    }

    /// Moves the clock forward to this time, unless it is later already. The skipped time counts as
    /// idle.
    pub fn skip_to(&mut self, ps: u64) {
        self.idle_ps += ps.saturating_sub(self.now_ps());
    }

    /// The guest has flushed the CPU's TLB.
    pub fn flush_tlb(&mut self) {
        self.tlb.flush(&self.filter);
    }

    /// Writes the counts of a mode to the PMU.
    pub(crate) fn write_counters(&self, mode: Mode, counters: &CpuCounters<'_>) {
        let c = &self.counts[mode as usize];
        let executed = match mode {
            Mode::User => self.executed.user,
            Mode::Kernel => self.executed.kernel,
        };
        let user_ps = self.ps_per_instruction.times(self.executed.user.instructions);
        let instructions_ps = match mode {
            Mode::User => user_ps,
            Mode::Kernel => self.ps_per_instruction.times(self.executed.instructions()) - user_ps,
        };
        let values = [
            (Scalar::Instructions, executed.instructions),
            (Scalar::BusyPs, instructions_ps + self.stall_ps[mode as usize]),
            (Scalar::Reads, c.reads + executed.reads),
            (Scalar::Writes, c.writes + executed.writes),
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
        if mode == Mode::User {
            counters.set(Scalar::ClockPs, self.now_ps());
        }
    }
}

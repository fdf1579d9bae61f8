//! The kinds of counters.

/// The mode in which a CPU executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Mode {
    /// User mode: a program.
    User,
    /// The guest's kernel.
    Kernel,
}

impl Mode {
    /// All modes, in the order of their counters in memory.
    pub const ALL: [Self; 2] = [Self::User, Self::Kernel];
}

/// A counter that each CPU has for each [`Mode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Scalar {
    /// Instructions.
    Instructions,
    /// The CPU's simulated clock, in picoseconds. It is among the counters of user mode only.
    ClockPs,
    /// Simulated time in which the CPU was busy in this mode, in picoseconds.
    BusyPs,
    /// Memory reads.
    Reads,
    /// Memory writes.
    Writes,
    /// Accesses that missed the first level of cache.
    FirstMisses,
    /// Accesses that missed the private caches and looked up the last level.
    LastReferences,
    /// Accesses that missed the last level: DRAM accesses and transfers from other caches.
    LastMisses,
    /// Misses of the TLB on 4 KiB pages.
    Tlb4kMisses,
    /// Misses of the TLB on 2 MiB pages.
    Tlb2mMisses,
    /// Writes that had to invalidate copies in other caches.
    Invalidations,
    /// Sum of the latencies of DRAM accesses, in picoseconds, queues included.
    DramLatencyPs,
    /// The part of [`Scalar::DramLatencyPs`] spent in queues.
    QueuePs,
}

impl Scalar {
    /// In the order of the words.
    pub const ALL: [Self; 13] = [
        Self::Instructions,
        Self::ClockPs,
        Self::BusyPs,
        Self::Reads,
        Self::Writes,
        Self::FirstMisses,
        Self::LastReferences,
        Self::LastMisses,
        Self::Tlb4kMisses,
        Self::Tlb2mMisses,
        Self::Invalidations,
        Self::DramLatencyPs,
        Self::QueuePs,
    ];
}

/// Counters that each CPU has for each [`Mode`] once per node, or per direction of each link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Vector {
    /// DRAM accesses by loads, by home node.
    DramReads,
    /// DRAM accesses by stores, by home node.
    DramWrites,
    /// Modified lines written back when they left the last cache, by home node.
    Writebacks,
    /// Lines that came from a cache of another CPU, by that CPU's node.
    Transfers,
    /// Lines carried by each link: `2 * link` towards its second end, `2 * link + 1` back.
    LinkLines,
}

impl Vector {
    /// In the order of the words.
    pub const ALL: [Self; 5] =
        [Self::DramReads, Self::DramWrites, Self::Writebacks, Self::Transfers, Self::LinkLines];
}

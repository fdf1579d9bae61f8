//! The figures that can be observed: one table for JSON, for the printed table and for
//! the statistics over repeated runs.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

/// A value, or why there is none.
pub type Figure = Result<f64, String>;

/// A figure of each of some metrics.
pub type Figures = BTreeMap<Metric, Figure>;

/// How the figures of a metric behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Grows with time; an observation has the difference between two readings.
    Counter,
    /// A state; an observation has the last one.
    Gauge,
    /// Computed from others.
    Derived,
}

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Events.
    Count,
    /// Nothing: one figure divided by another.
    Ratio,
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $kind:ident, $unit:ident;)*) => {
        /// A figure that can be observed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Metric { $($(#[$doc])* $variant,)* }

        impl Metric {
            /// All metrics, in the order in which they are printed.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name in JSON.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// How its figures behave.
            #[must_use]
            pub fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind,)* }
            }

            /// What its figures are counted in.
            #[must_use]
            pub fn unit(self) -> Unit {
                match self { $(Self::$variant => Unit::$unit,)* }
            }
        }
    };
}

metrics! {
    /// Wall time of the observation.
    Seconds = "seconds", Gauge, Seconds;
    /// Simulated time of an emulated machine.
    SimulatedSeconds = "simulated_seconds", Counter, Seconds;
    /// CPU time in the program.
    UserSeconds = "user_seconds", Counter, Seconds;
    /// CPU time in the kernel on its behalf.
    SystemSeconds = "system_seconds", Counter, Seconds;
    /// CPU time by wall time.
    CpusUtilized = "cpus_utilized", Derived, Ratio;
    /// Resident memory at the end, or where it was last seen.
    RssBytes = "rss_bytes", Gauge, Bytes;
    /// Largest resident memory of any one process.
    PeakRssBytes = "peak_rss_bytes", Gauge, Bytes;
    /// Page faults that needed no I/O.
    MinorFaults = "minor_faults", Counter, Count;
    /// Page faults that needed I/O.
    MajorFaults = "major_faults", Counter, Count;
    /// Context switches of both kinds.
    ContextSwitches = "context_switches", Counter, Count;
    /// Context switches because the thread waited.
    VoluntarySwitches = "voluntary_switches", Counter, Count;
    /// Context switches because another thread was due.
    InvoluntarySwitches = "involuntary_switches", Counter, Count;
    /// Moves of a thread to another CPU.
    CpuMigrations = "cpu_migrations", Counter, Count;
    /// Core cycles.
    Cycles = "cycles", Counter, Count;
    /// Retired instructions.
    Instructions = "instructions", Counter, Count;
    /// Instructions per cycle.
    Ipc = "ipc", Derived, Ratio;
    /// References to the last cache.
    CacheReferences = "cache_references", Counter, Count;
    /// Misses of the last cache.
    CacheMisses = "cache_misses", Counter, Count;
    /// Loads that missed the data TLB.
    DtlbMisses = "dtlb_misses", Counter, Count;
    /// Accesses to DRAM of the node the CPU belongs to.
    LocalAccesses = "local_accesses", Counter, Count;
    /// Accesses to DRAM of another node.
    RemoteAccesses = "remote_accesses", Counter, Count;
    /// Local by all DRAM accesses (carrefour: local access ratio, LAR).
    LocalAccessRatio = "local_access_ratio", Derived, Ratio;
    /// DRAM accesses per microsecond (carrefour: RAM accesses per microsecond, MAPTU).
    Maptu = "maptu", Derived, Ratio;
    /// Standard deviation by mean of the loads of the memory controllers (carrefour: memory-controller imbalance).
    ControllerImbalance = "controller_imbalance", Derived, Ratio;
    /// Share of the bandwidth of the links between nodes in use, on average (carrefour: average interconnect usage).
    LinkUsage = "link_usage", Derived, Ratio;
    /// Mean latency of DRAM accesses, queues included (carrefour: memory latency).
    DramLatencySeconds = "dram_latency_seconds", Derived, Seconds;
    /// Page table entries that AutoNUMA made fault; machine-wide.
    NumaPteUpdates = "numa_pte_updates", Counter, Count;
    /// Faults taken on those; machine-wide.
    NumaHintFaults = "numa_hint_faults", Counter, Count;
    /// Those of them whose page was on the faulting CPU's node; machine-wide.
    NumaHintFaultsLocal = "numa_hint_faults_local", Counter, Count;
    /// Pages that AutoNUMA moved; machine-wide.
    NumaPagesMigrated = "numa_pages_migrated", Counter, Count;
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

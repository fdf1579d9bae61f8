//! The figures that can be observed: one table for JSON, the printed table and the statistics of
//! repeated runs.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

/// A value, or why there is none.
pub type Figure = Result<f64, String>;

/// The figures of some metrics.
pub type Figures = BTreeMap<Metric, Figure>;

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It grows with time. An observation has the difference between two readings.
    Counter,
    /// It is a state. An observation has the last one.
    Gauge,
    /// It is computed from other metrics.
    Derived,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Events.
    Count,
    /// None: one figure divided by another, which is not a part of it.
    Ratio,
    /// A part of a whole, or a deviation from a mean: 1 is 100 %.
    Share,
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

            /// The kind of its figures.
            #[must_use]
            pub fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind,)* }
            }

            /// The unit of its figures.
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
    /// CPU time in user mode.
    UserSeconds = "user_seconds", Counter, Seconds;
    /// CPU time in the kernel for the program.
    SystemSeconds = "system_seconds", Counter, Seconds;
    /// CPU time divided by wall time.
    CpusUtilized = "cpus_utilized", Derived, Ratio;
    /// Resident memory at the end, or when it was last read.
    RssBytes = "rss_bytes", Gauge, Bytes;
    /// Largest resident memory of a single process.
    PeakRssBytes = "peak_rss_bytes", Gauge, Bytes;
    /// Page faults that needed no I/O.
    MinorFaults = "minor_faults", Counter, Count;
    /// Page faults that needed I/O.
    MajorFaults = "major_faults", Counter, Count;
    /// Context switches of both kinds.
    ContextSwitches = "context_switches", Counter, Count;
    /// Context switches because the thread waited.
    VoluntarySwitches = "voluntary_switches", Counter, Count;
    /// Context switches because another thread was scheduled.
    InvoluntarySwitches = "involuntary_switches", Counter, Count;
    /// Migrations of a thread to another CPU.
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
    /// Those of them on huge pages of 2 MiB.
    HugeDtlbMisses = "huge_dtlb_misses", Counter, Count;
    /// Accesses to DRAM of the node the CPU belongs to.
    LocalAccesses = "local_accesses", Counter, Count;
    /// Accesses to DRAM of another node.
    RemoteAccesses = "remote_accesses", Counter, Count;
    /// Local accesses divided by all DRAM accesses (carrefour: local access ratio, LAR).
    LocalAccessRatio = "local_access_ratio", Derived, Share;
    /// DRAM accesses per microsecond (carrefour: RAM accesses per microsecond, MAPTU).
    Maptu = "maptu", Derived, Ratio;
    /// Standard deviation of the loads of the memory controllers, divided by their mean (carrefour:
    /// memory-controller imbalance).
    ControllerImbalance = "controller_imbalance", Derived, Share;
    /// Average share of the bandwidth of the links between nodes that is in use (carrefour: average
    /// interconnect usage).
    LinkUsage = "link_usage", Derived, Share;
    /// Mean latency of DRAM accesses, including queues (carrefour: memory latency).
    DramLatencySeconds = "dram_latency_seconds", Derived, Seconds;
    /// Page table entries that AutoNUMA unmapped to cause hint faults; machine-wide.
    NumaPteUpdates = "numa_pte_updates", Counter, Count;
    /// Hint faults of AutoNUMA; machine-wide.
    NumaHintFaults = "numa_hint_faults", Counter, Count;
    /// Hint faults on a page of the faulting CPU's node; machine-wide.
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

//! The lab's PMU: counters and sampled accesses of an emulated machine, in memory that the emulator
//! and the guest share. User mode and the kernel are counted apart ([`Mode`]).
//!
//! ```text
//!  QEMU plugin --counts, samples--> file <--ivshmem BAR 2-- guest: observe
//!
//!  header | node of each CPU | controllers | links | counters per mode and CPU | one ring per CPU
//! ```
//!
//! Every value is a 64-bit word that is read and written whole, so neither side can see half a
//! value, and the crate needs no `unsafe`. Neither side trusts what the other may have written:
//! each keeps its own [`Shape`] and masks every index.
#![forbid(unsafe_code)]

mod counters;
mod kinds;
mod latency;
mod mark;
mod pmu;
mod ring;
mod samplers;
mod shape;
mod snapshot;

pub use counters::CpuCounters;
pub use kinds::{Mode, Scalar, Vector};
pub use latency::LatencyBuckets;
pub use mark::{CALL, Mark, MarkKind, NAME_BYTES, WHOLE_NAME, is_call};
pub use pmu::{Link, Pmu, PmuError};
pub use ring::{Level, Reader, Record, Ring};
pub use samplers::Samplers;
pub use shape::Shape;
pub use snapshot::Snapshot;

/// PCI identity of the device whose BAR 2 is this memory: QEMU's `ivshmem-plain`.
pub const PCI_VENDOR: u16 = 0x1af4;
/// See [`PCI_VENDOR`].
pub const PCI_DEVICE: u16 = 0x1110;

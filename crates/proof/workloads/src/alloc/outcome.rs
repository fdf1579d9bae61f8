//! The result of a benchmark; scripts rely on its JSON form.

use serde::Serialize;
use serde_json::json;

use super::sizes::Histogram;
use super::tally::{Account, expected};
use super::{Bench, Options};
use crate::WorkloadError;
use crate::answer::hexadecimal;
use crate::outcome::Figures;
use crate::team::Phase;

/// With less requested memory than this, the rest of the process hides the ratio.
const LEAST_REQUESTED: u64 = 1 << 20;

/// Result of a benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The options of the run.
    #[serde(flatten)]
    pub figures: Figures,
    /// Wall time.
    pub seconds: f64,
    /// CPU time of all threads together.
    pub cpu_seconds: f64,
    /// Operations of all threads per second.
    pub items_per_second: f64,
    /// Checksum over the tags read from all objects.
    #[serde(serialize_with = "hexadecimal")]
    pub checksum: u64,
    /// High-water mark of this process's resident memory.
    pub peak_rss_bytes: u64,
    /// The most bytes of objects at the same time.
    pub requested_bytes: u64,
    /// Growth of resident memory over requested memory at their peaks; absent when too little was
    /// requested.
    pub rss_per_requested: Option<f64>,
    /// Objects allocated.
    pub allocations: u64,
    /// Objects by size.
    pub sizes: Histogram,
}

impl Outcome {
    /// Adds up and checks the tallies of the threads. `before` is the resident memory at their
    /// start.
    pub(super) fn new(
        bench: Bench,
        options: &Options,
        phases: &[Phase],
        accounts: &[Account],
        requested_bytes: u64,
        peak_rss_bytes: u64,
        before: u64,
    ) -> Result<Self, WorkloadError> {
        let checksum = accounts.iter().map(|a| a.checksum).fold(0, u64::wrapping_add);
        let right = expected(options.seed, accounts);
        if checksum != right {
            return Err(WorkloadError::DamagedObjects { computed: checksum, expected: right });
        }
        let mut sizes = Histogram::default();
        accounts.iter().for_each(|account| sizes.merge(&account.sizes));
        let seconds = phases.iter().map(|phase| phase.duration.as_secs_f64()).sum::<f64>();
        let threads = options.threads.get();
        let operations = options.operations as f64 * threads as f64;
        let grown = peak_rss_bytes.saturating_sub(before);
        let ratio = grown as f64 / requested_bytes as f64;
        Ok(Self {
            figures: Figures {
                workload: bench.name(),
                threads,
                parameters: json!({ "operations": options.operations, "seed": options.seed }),
            },
            seconds,
            cpu_seconds: phases.iter().map(|phase| phase.cpu.as_secs_f64()).sum(),
            items_per_second: operations / seconds,
            checksum,
            peak_rss_bytes,
            requested_bytes,
            rss_per_requested: (requested_bytes >= LEAST_REQUESTED).then_some(ratio),
            allocations: accounts.iter().map(|account| account.allocations).sum(),
            sizes,
        })
    }
}

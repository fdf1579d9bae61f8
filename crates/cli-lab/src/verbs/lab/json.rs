//! The figures of a run as JSON.

use numapilot_lab::{Outcome, Request};
use numapilot_lab_model::Region;
use serde::Serialize;

/// The output of `lab run --json`. All times but those of the host (`boot_seconds`,
/// `host_seconds`) are simulated.
#[derive(Serialize)]
pub struct Json<'a> {
    machine: &'a str,
    exit_status: u8,
    seed: u64,
    time_scale: u64,
    varied: Vec<String>,
    boot_seconds: f64,
    host_seconds: f64,
    regions: Vec<RegionJson<'a>>,
    ignored_marks: &'a [String],
}

/// A region: the field names that scripts rely on, and all counters.
#[derive(Serialize)]
struct RegionJson<'a> {
    simulated_seconds: f64,
    traffic: Vec<Vec<u64>>,
    tlb_misses: u64,
    #[serde(flatten)]
    region: &'a Region,
}

impl<'a> Json<'a> {
    /// The outcome of a request under these variations of the model, as JSON.
    pub fn new(request: &'a Request, varied: Vec<String>, outcome: &'a Outcome) -> Self {
        let regions = outcome.report.iter().flat_map(|report| &report.regions);
        Self {
            machine: &request.shape.name,
            exit_status: outcome.status,
            seed: request.seed,
            time_scale: request.time_scale,
            varied,
            boot_seconds: outcome.boot.as_secs_f64(),
            host_seconds: outcome.wall.as_secs_f64(),
            ignored_marks: outcome.report.as_ref().map_or(&[], |report| &report.ignored_marks),
            regions: regions
                .map(|region| RegionJson {
                    simulated_seconds: region.seconds,
                    traffic: traffic(region),
                    tlb_misses: region.all.tlb_4k_misses + region.all.tlb_2m_misses,
                    region,
                })
                .collect(),
        }
    }
}

/// DRAM accesses: a row for the CPU's node, a column for the home node.
pub fn traffic(region: &Region) -> Vec<Vec<u64>> {
    let rows = region.all.dram_reads.iter().zip(&region.all.dram_writes);
    rows.map(|(reads, writes)| reads.iter().zip(writes).map(|(r, w)| r + w).collect()).collect()
}

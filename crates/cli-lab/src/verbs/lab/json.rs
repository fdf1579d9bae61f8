//! The figures of a run as JSON.

use numapilot_lab::{Outcome, Shape};
use numapilot_lab_model::Region;
use serde::Serialize;

/// `lab run --json`.
#[derive(Serialize)]
pub struct Json<'a> {
    machine: &'a str,
    exit_status: u8,
    boot_seconds: f64,
    host_seconds: f64,
    regions: Vec<RegionJson<'a>>,
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
    /// Describes the outcome of a run on a machine.
    pub fn new(shape: &'a Shape, outcome: &'a Outcome) -> Self {
        let regions = outcome.report.iter().flat_map(|report| &report.regions);
        Self {
            machine: &shape.name,
            exit_status: outcome.status,
            boot_seconds: outcome.boot.as_secs_f64(),
            host_seconds: outcome.wall.as_secs_f64(),
            regions: regions
                .map(|region| RegionJson {
                    simulated_seconds: region.seconds,
                    traffic: traffic(region),
                    tlb_misses: region.tlb_4k_misses + region.tlb_2m_misses,
                    region,
                })
                .collect(),
        }
    }
}

/// DRAM accesses: a row for the CPU's node, a column for the home node.
pub fn traffic(region: &Region) -> Vec<Vec<u64>> {
    let rows = region.dram_reads.iter().zip(&region.dram_writes);
    rows.map(|(reads, writes)| reads.iter().zip(writes).map(|(r, w)| r + w).collect()).collect()
}

//! Finds memory for which a copy on every node would pay: several nodes read it, and almost none
//! writes it.
//!
//! Threads of a process share one page table, so copies cannot be made from outside. The program
//! can make them, and needs to know where.

use super::LEAST_GAIN;
use super::access::One;
use super::congestion::Controllers;
use crate::decision::Replicable;
use crate::evidence::Region;
use crate::nodes::Nodes;

/// Least samples of a region for a judgement.
const LEAST_SAMPLES: usize = 20;
/// Least share of reads for which copies pay, as in the published gates.
const LEAST_READS: f64 = 0.95;
/// Most regions that are reported; neighbours count as one.
const MOST: usize = 8;

/// The regions that would gain most, in order of addresses, with the share of `all_ns` that each
/// would save. Accesses are in order of pages.
pub fn replicable(
    nodes: &Nodes,
    controllers: &Controllers,
    accesses: &[One],
    all_ns: f64,
) -> Vec<Replicable> {
    let mut found: Vec<Replicable> = Vec::new();
    for region in accesses.chunk_by(|a, b| a.page.region() == b.page.region()) {
        let reads = region.iter().filter(|one| !one.write()).count() as f64;
        let first = region[0].from();
        let shared = region.iter().any(|one| one.from() != first);
        let judged = region.len() >= LEAST_SAMPLES && shared && all_ns > 0.0;
        if !judged || reads < LEAST_READS * region.len() as f64 {
            continue;
        }
        let saved_ns = |one: &One| {
            let (from, home) = (one.from(), one.home());
            nodes.latency_ns(from, home) * controllers.stretch(home) - nodes.latency_ns(from, from)
        };
        let gain = region.iter().map(saved_ns).sum::<f64>() / all_ns;
        let start = region[0].page.region().start();
        match found.last_mut() {
            Some(last) if last.start.0 + last.pages == start.0 => {
                last.pages += u64::from(Region::PAGES);
                last.gain += gain;
            }
            _ => found.push(Replicable { start, pages: Region::PAGES.into(), gain }),
        }
    }
    found.retain(|found| found.gain >= LEAST_GAIN);
    found.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    found.truncate(MOST);
    found.sort_by_key(|found| found.start);
    found
}

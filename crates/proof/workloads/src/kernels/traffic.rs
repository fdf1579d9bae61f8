//! The flows that a load causes at controllers and links, and the time that a thread takes alone.
//!
//! Caches count only for random accesses: a stream through more memory than the cache holds never
//! hits.

use numapilot_lab_model::{Model, PREFETCH_FACTOR};

use super::cache_hits::CacheHits;
use super::controllers_and_links::{ControllersAndLinks, Counts};
use super::flow::Flow;
use super::load::{Access, Load, Pattern, Usage};

/// Lines of a page of 4 KiB.
const PAGE_LINES: f64 = 64.0;
/// Bytes that a TLB entry covers.
const SMALL_PAGE: u64 = 4 << 10;
const HUGE_PAGE: u64 = 2 << 20;

/// Lines that a thread can have in flight.
fn overlap(model: &Model, pattern: Pattern) -> f64 {
    match pattern {
        Pattern::Stream => model.memory_level_parallelism * PREFETCH_FACTOR,
        Pattern::Independent => model.memory_level_parallelism,
        Pattern::Dependent => 1.0,
    }
}

/// The flows of a load. A stream's lines arrive while the thread computes. The thread waits for all
/// other lines, and its streams wait with it. `waits_ns` is the time that a line waits in queues,
/// by home node.
pub fn flows(
    model: &Model,
    resources: &ControllersAndLinks,
    load: &Load,
    waits_ns: &[f64],
) -> [Flow; 2] {
    let latencies_ns = &model.latency_ns[load.node];
    let (mut streamed_ns, mut waited_ns) = (0.0, 0.0);
    for access in &load.accesses {
        let hits = CacheHits::of_access(model, access);
        let total: f64 = access.lines.iter().sum();
        let lines = access.lines.iter().enumerate();
        let memory: f64 =
            lines.map(|(home, lines)| lines * (latencies_ns[home] + waits_ns[home])).sum();
        let cached_ns = hits.here * last_level_ns(model)
            + hits.elsewhere * elsewhere_ns(model, load.node, access.usage);
        let lines_ns =
            (memory * hits.nowhere() + total * cached_ns) / overlap(model, access.pattern);
        waited_ns += total * walk_ns(model, access);
        match access.pattern {
            Pattern::Stream => streamed_ns += lines_ns,
            Pattern::Independent | Pattern::Dependent => waited_ns += lines_ns,
        }
    }
    let flow = |counts: Counts, alone_ns: f64| {
        let mut seconds = vec![0.0; resources.count()];
        resources.add(&mut seconds, model, load, counts);
        let uses = seconds.into_iter().enumerate().filter(|(_, seconds)| *seconds > 0.0).collect();
        let lines = load
            .accesses
            .iter()
            .filter(|access| counts(access))
            .flat_map(|access| &access.lines)
            .sum();
        Flow { uses, lines, alone_seconds: alone_ns * 1e-9 }
    };
    [
        flow(Access::is_stream, streamed_ns.max(load.compute_ns)),
        flow(|access| !access.is_stream(), waited_ns),
    ]
}

/// The time for a line from a cache of any other node, and again to become its only owner if it was
/// only read at first.
fn elsewhere_ns(model: &Model, node: usize, usage: Usage) -> f64 {
    let others = model.latency_ns[node].iter().enumerate().filter(|(other, _)| *other != node);
    let count = model.nodes().saturating_sub(1).max(1) as f64;
    let once = others.map(|(_, ns)| ns).sum::<f64>() / count;
    if matches!(usage, Usage::SharedUpdate(_)) { 2.0 * once } else { once }
}

fn last_level_ns(model: &Model) -> f64 {
    model.caches.last().map_or(0.0, |cache| cache.latency_cycles * model.ps_per_cycle / 1000.0)
}

/// The average time that an access waits for address translation.
fn walk_ns(model: &Model, access: &Access) -> f64 {
    let Some(tlb) = &model.tlb else { return 0.0 };
    let (entries, page) =
        if access.huge { (tlb.entries_2m, HUGE_PAGE) } else { (tlb.entries_4k, SMALL_PAGE) };
    let missing = match access.pattern {
        Pattern::Stream if access.huge => 0.0,
        Pattern::Stream => 1.0 / PAGE_LINES,
        Pattern::Independent | Pattern::Dependent => {
            let reach = u64::from(entries) * page;
            (1.0 - reach as f64 / access.footprint_bytes.max(1) as f64).max(0.0)
        }
    };
    missing * tlb.walk_cycles * model.ps_per_cycle / 1000.0
}

//! `-e`: selects the figures to print, by their own names or by perf's.

use numapilot_observe::Metric;

use super::text::label;

/// Names of perf for figures that have another name here, or that are counted in two parts.
const OF_PERF: [(&str, &[Metric]); 9] = [
    ("cpu-cycles", &[Metric::Cycles]),
    ("dTLB-load-misses", &[Metric::DtlbMisses]),
    ("task-clock", &[Metric::UserSeconds, Metric::SystemSeconds]),
    ("cpu-clock", &[Metric::UserSeconds, Metric::SystemSeconds]),
    ("page-faults", &[Metric::MinorFaults, Metric::MajorFaults]),
    ("faults", &[Metric::MinorFaults, Metric::MajorFaults]),
    ("cs", &[Metric::ContextSwitches]),
    ("migrations", &[Metric::CpuMigrations]),
    ("duration_time", &[Metric::Seconds]),
];

/// One name of the list, and the figures that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event(pub Vec<Metric>);

/// Reads one name.
pub fn parse(name: &str) -> Result<Event, String> {
    if let Some((_, metrics)) = OF_PERF.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return Ok(Event(metrics.to_vec()));
    }
    let metric = Metric::ALL.iter().find(|metric| name == label(**metric) || name == metric.name());
    metric.map(|metric| Event(vec![*metric])).ok_or_else(|| {
        let own = Metric::ALL.iter().map(|metric| label(*metric));
        let of_perf = OF_PERF.iter().map(|(name, _)| (*name).to_owned());
        let names = own.chain(of_perf).collect::<Vec<_>>().join(", ");
        format!("no figure has this name; there are {names}")
    })
}

/// The figures of all names in their order, each once.
pub fn metrics(events: &[Event]) -> Vec<Metric> {
    let mut all = Vec::new();
    for metric in events.iter().flat_map(|event| &event.0) {
        if !all.contains(metric) {
            all.push(*metric);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_perf_and_own_ones() {
        let list = ["cycles", "page-faults", "minor-faults", "peak-rss", "user_seconds", "elapsed"];
        let events: Vec<Event> = list.iter().map(|name| parse(name).unwrap()).collect();
        let wanted = [
            Metric::Cycles,
            Metric::MinorFaults,
            Metric::MajorFaults,
            Metric::PeakRssBytes,
            Metric::UserSeconds,
            Metric::Seconds,
        ];
        assert_eq!(metrics(&events), wanted);
        for unknown in ["cycles:u", "", "r1a8"] {
            let error = parse(unknown).unwrap_err();
            assert!(error.contains("instructions") && error.contains("task-clock"), "{error}");
        }
    }
}

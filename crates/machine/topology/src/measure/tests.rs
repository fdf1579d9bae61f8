//! Measures this machine and tests what must hold on any machine.

use super::*;

fn small() -> Options {
    Options { bytes: Some(32 << 20), repetitions: 2, budget: Duration::from_millis(1) }
}

/// This machine with caches declared small, so that little memory is enough.
fn here() -> Machine {
    let mut machine = crate::read(std::path::Path::new("/")).unwrap();
    for cache in &mut machine.caches {
        cache.size_bytes = Some(1 << 20);
    }
    machine
}

#[test]
fn every_allowed_pair_is_measured_or_explained() {
    let machine = here();
    let mut steps = Vec::new();
    let result = measure(&machine, &small(), &mut |done, of, _| steps.push((done, of))).unwrap();
    let last = steps.last().unwrap();
    assert_eq!(last.0, last.1);
    for (i, row) in machine.nodes.iter().enumerate() {
        for (j, column) in machine.nodes.iter().enumerate() {
            let (latency, bandwidth) = (result.latency_ns[i][j], result.bandwidth_gb_per_s[i][j]);
            let explained = result.unsupported.iter().any(|u| {
                u.what.ends_with(&format!("from node {}", row.id))
                    || u.what.ends_with(&format!("node {}'s memory", column.id))
            });
            assert_eq!(latency.is_some(), !explained && column.memory_bytes > 0);
            assert_eq!(latency.is_some(), bandwidth.is_some());
            if let Some(latency) = latency {
                // Slower than any cache that is left out, and faster than any disk.
                assert!((1.0..100_000.0).contains(&latency.median), "{latency:?}");
            }
        }
    }
}

#[test]
fn a_process_without_cpus_is_reported_so() {
    let mut machine = Machine::uniform(2, 1);
    machine.allowed.cpus = CpuSet::new();
    let error = measure(&machine, &small(), &mut |_, _, _| {}).unwrap_err();
    assert!(matches!(error, MeasureError::NoCpu), "{error}");
}

#[test]
fn memory_that_fits_the_cache_is_refused() {
    let machine = Machine::uniform(1, 1);
    let options = Options { bytes: Some(1 << 20), ..small() };
    let error = measure(&machine, &options, &mut |_, _, _| {}).unwrap_err().to_string();
    assert!(error.starts_with("1 MiB is too little memory"), "{error}");
}

#[test]
fn a_forbidden_node_is_explained() {
    let mut machine = here();
    machine.allowed.nodes = crate::NodeSet::new();
    let result = measure(&machine, &small(), &mut |_, _, _| {}).unwrap();
    assert!(result.latency_ns.iter().flatten().all(Option::is_none));
    assert!(result.unsupported.iter().any(|u| u.reason.contains("cpuset mems")));
}

//! The lab's PMU as seen by a program in the guest: the figures of `stat`, and sampled accesses. A
//! reader that keeps up loses no sample, and lost samples are counted.
//!
//! The test runs itself in the guest.

use std::hint::black_box;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use numapilot_lab_pmu::{Scalar, Snapshot};
use numapilot_observe::ServedBy;
use numapilot_observe::lab::LabPmu;

use crate::guests::{NUMAPILOT, Stop, err, in_a_guest};

/// Samples per simulated second with which a reader must keep up.
const RATE: f64 = 10_000.0;
/// Exceeds every cache of the guest.
const BYTES: usize = 4 << 20;
/// Duration of the sampling.
const SIMULATED_NS: u64 = 50_000_000;
const MACHINE: &str = "threadripper-1950x";

#[test]
fn samples_reach_a_reader_and_lost_ones_are_counted() {
    let name = "samples::samples_reach_a_reader_and_lost_ones_are_counted";
    in_a_guest(name, MACHINE, &["--include", NUMAPILOT], check);
}

/// Figures of `stat` that need a lab or a machine with a PMU.
fn stat_prints_them() {
    let output = Command::new("numapilot")
        .args(["stat", "--json", "--", "sh", "-c", "numapilot topo > /dev/null"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for (field, most) in [
        ("local_access_ratio", 1.0),
        ("controller_imbalance", 2.0),
        ("link_usage", 1.0),
        ("dram_latency_seconds", 1e-5),
        ("simulated_seconds", 10.0),
    ] {
        let value = json[field].as_f64().unwrap_or_else(|| panic!("{field}: {json}"));
        assert!((0.0..=most).contains(&value), "{field}: {json}");
    }
    assert!(json["local_accesses"].as_u64() > Some(0), "{json}");
}

/// The bound of `advise` that needs the latency of accesses, and findings about several nodes.
fn advise_bounds_placement() {
    let output = Command::new("numapilot")
        .args(["advise", "--json", "--", "sh", "-c", "numapilot topo > /dev/null"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let factors = json["factors"].as_array().unwrap();
    let factor = |name: &str| factors.iter().find(|factor| factor["factor"] == name).unwrap();
    let memory = factor("memory");
    assert_ne!(memory["verdict"], "unknown", "{memory}");
    let most = memory["bound"]["cpu_share"].as_f64().unwrap_or_else(|| panic!("{memory}"));
    assert!((0.0..=1.0).contains(&most), "{memory}");
    assert!(memory["figures"]["local_access_ratio"].is_number(), "{memory}");
    // It ends before AutoNUMA scans it.
    let balancing = factor("numa-balancing");
    assert_eq!(balancing["verdict"], "cannot-matter", "{balancing}");
}

/// Metrics of the exporter that need a lab or a machine with a PMU.
fn exporter_prints_them() {
    let mut command = Command::new("numapilot");
    let output = command.args(["export-metrics", "--once", "-d", "50ms"]).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    for (metric, most) in [
        ("numapilot_local_access_ratio ", 1.0),
        ("numapilot_controller_imbalance_ratio ", 2.0),
        ("numapilot_link_usage_ratio ", 1.0),
        ("numapilot_dram_latency_seconds ", 1e-5),
    ] {
        let value = text.lines().find_map(|line| line.strip_prefix(metric)?.parse().ok());
        let value: f64 = value.unwrap_or_else(|| panic!("{metric}: {text}"));
        assert!((0.0..=most).contains(&value), "{metric}: {text}");
    }
    assert!(!text.contains("numapilot_unsupported_info"), "{text}");
}

/// Accesses that missed the first-level cache, which are the ones sampled.
fn misses(lab: &LabPmu) -> u64 {
    Snapshot::take(lab.pmu()).sum(Scalar::FirstMisses)
}

fn check(lab: &LabPmu) {
    stat_prints_them();
    advise_bounds_placement();
    let memory: Vec<AtomicUsize> = (0..BYTES / 8).map(AtomicUsize::new).collect();
    let range = memory.as_ptr_range();
    let is_ours = |address: u64| (range.start as u64..range.end as u64).contains(&address);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut at = 1usize;
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..1000 {
                    at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    black_box(memory[(at >> 20) % memory.len()].fetch_add(1, Ordering::Relaxed));
                }
            }
        });
        let stop = Stop(&stop);
        exporter_prints_them();
        // The rate of accesses that can be sampled.
        let (time, count) = (lab.time_ns(), misses(lab));
        thread::sleep(Duration::from_millis(500));
        let seconds = (lab.time_ns() - time) as f64 * 1e-9;
        let rate = (misses(lab) - count) as f64 / seconds;
        // Twice the required rate, because the rate of accesses varies.
        let period = (rate / (2.0 * RATE)).max(1.0) as u64;

        let mut sampler = LabPmu::find().unwrap().unwrap().sample(period).unwrap();
        // A second reader with a lower rate. Neither takes samples from the other.
        let mut other = LabPmu::find().unwrap().unwrap().sample(3 * period).unwrap();
        let (time, count) = (lab.time_ns(), misses(lab));
        let (mut seen, mut ours, mut others) = (0u64, 0u64, 0u64);
        let mut read = || {
            sampler.take_samples(|sample| {
                seen += 1;
                ours += u64::from(is_ours(sample.virtual_address));
                assert!(sample.latency_ns.is_some() && sample.physical_address.is_some());
                assert!(sample.home.is_some_and(|node| node.0 < 2) && sample.cpu.0 < 8);
            });
            other.take_samples(|_| others += 1);
        };
        while lab.time_ns() - time < SIMULATED_NS {
            read();
            thread::sleep(Duration::from_millis(1));
        }
        let (seconds, count) = ((lab.time_ns() - time) as f64 * 1e-9, misses(lab) - count);
        read();
        // A reader that has stopped gets nothing while others sample.
        other.set_period(0);
        let lost = sampler.lost();
        println!("{:.0} samples per simulated second, {lost} lost", seen as f64 / seconds);
        assert_eq!(lost, 0);
        assert!(seen as f64 / seconds >= RATE, "{seen} in {seconds} s, period {period}");
        let expected = count / period;
        assert!(seen.abs_diff(expected) <= expected / 50 + 8, "{seen} instead of {expected}");
        assert!(ours > seen / 2, "{ours} of {seen}");
        let third = seen / 3;
        assert!(others.abs_diff(third) <= third / 20 + 8, "{others} instead of {third}");

        // A reader that sleeps while every access is sampled: the ring is soon full.
        sampler.set_period(1);
        let count = misses(lab);
        thread::sleep(Duration::from_millis(500));
        drop(stop);
        let count = misses(lab) - count;
        let (mut seen, mut dram) = (0u64, 0u64);
        sampler.take_samples(|sample| {
            seen += 1;
            dram += u64::from(sample.served_by == Some(ServedBy::Dram));
        });
        other.take_samples(|sample| panic!("it has stopped: {sample:?}"));
        let lost = sampler.lost();
        println!("{seen} samples read late, {dram} of them of DRAM, {lost} lost");
        assert!(lost > 0 && seen >= 4095 && dram > 0);
        assert!((seen + lost).abs_diff(count) <= count / 50, "{seen} + {lost} of {count}");
    });
}

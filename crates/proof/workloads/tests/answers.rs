//! W1 and W2 over every data set. Answers are checked by sorting. They must be the same for any
//! number of threads and any way of running, and the same as when the workloads were first
//! verified.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::num::NonZeroUsize;

use numapilot_workloads::aggregation::{Load, Options};
use numapilot_workloads::answer::Answer;
use numapilot_workloads::data::{DataSet, Distribution};
use numapilot_workloads::w1::{self, AllocationPattern, Insertion};
use numapilot_workloads::{WorkloadError, w2};

/// Checksums in the order of [`Distribution::ALL`].
const MEDIANS: [&str; 4] =
    ["d96633517e055eb5", "a4cc4108a9f191e6", "a5a6e6c221c176be", "d15d98966c8207c1"];
const COUNTS: [&str; 4] =
    ["094411c4ea23b683", "c0981cd753a6af85", "ce8496fc4fbc9719", "0f92d0466c50ba0a"];

fn options(distribution: Distribution, threads: usize) -> Options {
    Options {
        set: DataSet { distribution, records: 200_000, groups: 3_000, seed: 42 },
        threads: NonZeroUsize::new(threads).unwrap(),
        load: Load::Threads,
        estimate: 3_000,
        check: true,
    }
}

fn median(options: &Options, pattern: AllocationPattern) -> Answer {
    w1::run(options, pattern, Insertion::Gathered).unwrap().answer
}

fn checksums(answer: impl Fn(Distribution) -> Answer) -> [String; 4] {
    Distribution::ALL.map(|distribution| format!("{:016x}", answer(distribution).checksum))
}

#[test]
fn golden_medians() {
    for pattern in [AllocationPattern::Raw, AllocationPattern::Chunked] {
        for threads in [1, 2, 5] {
            let computed = checksums(|set| median(&options(set, threads), pattern));
            assert_eq!(computed, MEDIANS, "{pattern:?}, {threads} threads");
        }
    }
}

#[test]
fn single_insertion_gives_the_same_medians() {
    let single = |options: &Options| w1::run(options, AllocationPattern::Raw, Insertion::Single);
    let computed = checksums(|set| single(&options(set, 5)).unwrap().answer);
    assert_eq!(computed, MEDIANS);
}

#[test]
fn golden_counts() {
    for threads in [1, 2, 5] {
        let computed = checksums(|set| w2::run(&options(set, threads)).unwrap().answer);
        assert_eq!(computed, COUNTS, "{threads} threads");
    }
}

#[test]
fn neither_the_loader_nor_the_estimate_changes_the_answer() {
    let usual = options(Distribution::Zipf, 3);
    // 60,000 groups in a table made for one group: it has to grow.
    let set = DataSet { groups: 60_000, ..usual.set };
    let usual = Options { set, estimate: 60_000, ..usual };
    let other = Options { load: Load::Main, estimate: 1, ..usual };
    assert_eq!(w2::run(&usual).unwrap().answer, w2::run(&other).unwrap().answer);
    assert_eq!(median(&usual, AllocationPattern::Raw), median(&other, AllocationPattern::Raw));
}

#[test]
fn the_smallest_inputs_are_answered() {
    for distribution in Distribution::ALL {
        for (records, groups) in [(1, 1), (2, 2), (3, 1)] {
            let options = options(distribution, 4);
            let options = Options { set: DataSet { records, groups, ..options.set }, ..options };
            let counts = w2::run(&options).unwrap().answer;
            assert_eq!(counts.sum, records);
            assert_eq!(median(&options, AllocationPattern::Chunked).groups, counts.groups);
        }
    }
}

#[test]
fn sizes_without_meaning_are_refused() {
    let refused = |records, groups| {
        let options = options(Distribution::Sequential, 1);
        let set = DataSet { records, groups, ..options.set };
        w2::run(&Options { set, ..options }).unwrap_err()
    };
    assert!(matches!(refused(0, 1), WorkloadError::NoRecords));
    assert!(matches!(refused(1, 0), WorkloadError::NoGroups));
    assert!(matches!(refused(5, 6), WorkloadError::MoreGroupsThanRecords { .. }));
    let error = refused(1 << 50, 1).to_string();
    assert!(error.contains("are available") && error.contains("or leave --check out"), "{error}");
    assert!(matches!(refused(u64::MAX, u64::MAX), WorkloadError::TooLittleMemory { .. }));
}

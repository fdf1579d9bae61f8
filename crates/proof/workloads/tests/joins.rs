//! W3 and W4 over both data sets. Answers are checked with an array in place of the table. They
//! must be the same for any way of running, and the same as when the workloads were first verified.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::num::NonZeroUsize;

use numapilot_workloads::aggregation::Load;
use numapilot_workloads::join::Options;
use numapilot_workloads::join::answer::Answer;
use numapilot_workloads::join::data::{JoinSet, Keys};
use numapilot_workloads::w1::AllocationPattern;
use numapilot_workloads::w3::Build;
use numapilot_workloads::w4::Index;
use numapilot_workloads::{WorkloadError, w3, w4};

fn options(keys: Keys, threads: usize) -> Options {
    Options {
        set: JoinSet { small: 5_000, large: 83_000, keys, seed: 42 },
        threads: NonZeroUsize::new(threads).unwrap(),
        load: Load::Threads,
        materialize: false,
        allocation_pattern: AllocationPattern::Raw,
        check: true,
    }
}

/// The checksum is the same however a join is run.
fn assert_golden(run: impl Fn(&Options) -> Answer) {
    for (keys, checksum) in [(Keys::Shuffle, "8e0af9fcafa51803"), (Keys::Zipf, "96947bf4c071b145")]
    {
        let usual = options(keys, 2);
        let variants = [
            usual,
            options(keys, 1),
            options(keys, 5),
            Options { load: Load::Main, ..usual },
            Options { materialize: true, ..usual },
            Options {
                materialize: true,
                allocation_pattern: AllocationPattern::Chunked,
                ..options(keys, 3)
            },
        ];
        for variant in variants {
            let answer = run(&variant);
            assert_eq!(answer.rows, 83_000, "{variant:?}");
            assert_eq!(format!("{:016x}", answer.checksum), checksum, "{variant:?}");
        }
    }
}

#[test]
fn golden_hash_joins() {
    assert_golden(|options| w3::run(options, Build::Hash).unwrap().answer);
}

#[test]
fn golden_array_joins() {
    assert_golden(|options| w3::run(options, Build::Array).unwrap().answer);
}

#[test]
fn golden_index_joins() {
    for index in Index::ALL {
        assert_golden(|options| w4::run(options, index).unwrap().answer);
    }
}

#[test]
fn the_smallest_tables_are_joined() {
    for (small, large) in [(1, 1), (1, 7), (2, 1), (3, 4), (100, 5)] {
        let options = options(Keys::Shuffle, 4);
        let options = Options { set: JoinSet { small, large, ..options.set }, ..options };
        for build in [Build::Hash, Build::Array] {
            assert_eq!(w3::run(&options, build).unwrap().answer.rows, large);
        }
        assert_eq!(w4::run(&options, Index::Art).unwrap().answer.rows, large);
    }
}

#[test]
fn sizes_without_meaning_are_refused() {
    let refused = |small, large| {
        let options = options(Keys::Shuffle, 1);
        let options =
            Options { set: JoinSet { small, large, ..options.set }, materialize: true, ..options };
        w3::run(&options, Build::Hash).unwrap_err()
    };
    assert!(matches!(refused(0, 1), WorkloadError::NoTuples));
    assert!(matches!(refused(1, 0), WorkloadError::NoTuples));
    let error = refused(1 << 50, 1).to_string();
    assert!(error.contains("are available; lower --small or --large, or leave"), "{error}");
    assert!(matches!(refused(u64::MAX, u64::MAX), WorkloadError::TooLittleMemory { .. }));
}

//! The heap profile, decoded and compared with what the program is known to hold.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use crate::harness::Subject;
use crate::pprof::Profile;

const MB: f64 = 1e6;

/// Runs a case; returns its output, and its directory with the profiles, `heap-PROCESS`.
fn run(case: &str, variables: &[(&str, &str)]) -> (Output, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let subject = Subject::preloaded();
    let mut command = subject.command(&subject.compile("profile.c"));
    command.env("NUMAPILOT_ALLOC_PROFILE", directory.path().join("heap-%p"));
    command.env("NUMAPILOT_ALLOC_PROFILE_PERIOD", "65536");
    let output = command.envs(variables.iter().copied()).arg(case).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    (output, directory)
}

fn profiles(directory: &Path) -> Vec<Profile> {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|file| {
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
            Profile::read(&fs::read(file).unwrap())
        })
        .collect()
}

/// Functions of the program by address, as it printed them.
fn functions(output: &Output) -> BTreeMap<u64, String> {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |line: &str| {
        let (name, address) = line.split_once(" 0x")?;
        Some((u64::from_str_radix(address, 16).ok()?, name.to_owned()))
    };
    stdout.lines().filter_map(line).collect()
}

/// Megabytes allocated and in use by the function that called malloc, realloc or calloc.
fn megabytes(profile: &Profile, output: &Output) -> BTreeMap<String, (f64, f64)> {
    let functions = functions(output);
    let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for sample in &profile.samples {
        // The stack does not contain the allocator's own calls.
        let caller = functions.range(..=sample.stack[0]).next_back();
        let Some((_, name)) = caller.filter(|(start, _)| sample.stack[0] - *start < 512) else {
            continue;
        };
        let sum = sums.entry(name.clone()).or_default();
        sum.0 += sample.values[1] as f64 / MB;
        sum.1 += sample.values[3] as f64 / MB;
    }
    sums
}

fn near(found: f64, expected: f64) {
    // The smallest of the sums has about 400 samples, so its standard deviation is 5 %.
    assert!((found / expected - 1.0).abs() < 0.3, "{found} MB, not {expected} MB");
}

#[test]
fn every_function_holds_what_it_holds() {
    let (output, directory) = run("all", &[]);
    let profiles = profiles(directory.path());
    assert_eq!(profiles.len(), 1);
    let profile = &profiles[0];
    let types = ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"];
    assert!(profile.types.iter().map(|(name, _)| name).eq(types), "{:?}", profile.types);
    assert_eq!((profile.period, profile.default_type.as_str()), (65536, "inuse_space"));
    let sums = megabytes(profile, &output);
    for (function, allocated, held) in [
        ("keeps_small", 25.6, 25.6),
        ("keeps_large", 60.0, 60.0),
        ("frees_at_once", 128.0, 0.0),
        ("is_replaced", 38.4, 0.0),
        ("replaces", 38.4, 38.4),
        ("grows", 528.0 * 1.048_576, 32.0 * 1.048_576),
    ] {
        let found = sums.get(function).unwrap_or_else(|| panic!("{function}: {sums:?}"));
        near(found.0, allocated);
        match held {
            0.0 => assert!(found.1 < 1.0, "{function}: {found:?}"),
            held => near(found.1, held),
        }
    }
    let program = profile.mappings.values().find(|mapping| mapping.file.ends_with("profile.c"));
    assert!(program.is_some(), "{:?}", profile.mappings);
    // Counted at the size of their size class.
    let sizes: Vec<u64> = profile.samples.iter().map(|sample| sample.size).collect();
    assert!([64, 128, 256, 200_000].iter().all(|size| sizes.contains(size)), "{sizes:?}");
}

#[test]
fn what_another_thread_frees_is_freed() {
    let (output, directory) = run("another_thread_frees", &[]);
    let profiles = profiles(directory.path());
    let sums = megabytes(&profiles[0], &output);
    near(sums["keeps_large"].0, 60.0);
    assert!(sums["keeps_large"].1 == 0.0, "{sums:?}");
}

#[test]
fn parent_and_child_write_their_own() {
    let (output, directory) = run("a_child_writes_its_own", &[]);
    let profiles = profiles(directory.path());
    assert_eq!(profiles.len(), 2);
    let held = profiles.iter().map(|profile| megabytes(profile, &output));
    let held: Vec<f64> = held.filter_map(|sums| sums.get("keeps_small").map(|sum| sum.1)).collect();
    assert_eq!(held.len(), 1);
    near(held[0], 25.6);
}

#[test]
fn it_works_in_hardened_mode() {
    let (output, directory) = run("all", &[("NUMAPILOT_ALLOC_HARDEN", "1")]);
    let profiles = profiles(directory.path());
    near(megabytes(&profiles[0], &output)["replaces"].1, 38.4);
}

#[test]
fn a_signal_has_it_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("heap");
    let subject = Subject::preloaded();
    let mut command = subject.command(&subject.compile("statistics.c"));
    command.arg("on_a_signal");
    command.env("NUMAPILOT_ALLOC_STATS", "text");
    command.env("NUMAPILOT_ALLOC_STATS_SIGNAL", libc::SIGUSR2.to_string());
    command.env("NUMAPILOT_ALLOC_STATS_FILE", directory.path().join("stats"));
    command.env("NUMAPILOT_ALLOC_PROFILE", &path);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(Profile::read(&fs::read(path).unwrap()).period, 512 << 10);
}

#[test]
fn values_that_cannot_be_used_are_reported() {
    for (variable, value, cause) in [
        ("NUMAPILOT_ALLOC_PROFILE", "", "must be a path"),
        ("NUMAPILOT_ALLOC_PROFILE_PERIOD", "0", "must be a number of bytes"),
        ("NUMAPILOT_ALLOC_PROFILE_PERIOD", "512K", "must be a number of bytes"),
        ("NUMAPILOT_ALLOC_PROFILE", "/nowhere/x", "cannot be written (error 2)"),
    ] {
        let (output, _directory) = run("another_thread_frees", &[(variable, value)]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.starts_with(&format!("numapilot: {variable}={value}")), "{message}");
        assert!(message.contains(cause), "{message}");
    }
}

//! The participants of a comparison: runnable tests and allocators.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::{fs, io, thread};

use anyhow::{Context, bail};
use numapilot_study::candidates::{self, Candidate};
use numapilot_study::files::{Missing, Places, Ready};
use numapilot_study::suite::{self, Test};
use tempfile::TempDir;

use super::args::{Allocators, Compare, Tests};
use crate::programs;

/// The default of --reference.
const USUAL_REFERENCE: &str = "mimalloc";
/// The test of `compare`: systematic-numa-study 3.1.8.
const MIX: &str = "mix";

/// The participants of a comparison.
pub struct Field {
    pub tests: Vec<Ready>,
    pub missing: Vec<Missing>,
    pub candidates: Vec<Candidate>,
    pub reference: usize,
    /// The thread counts of `compare`, or the single one of `suite`.
    pub threads: Vec<NonZeroUsize>,
    /// The current directory of the programs. Some write files there, none of which is needed.
    /// With `--installed`, it has their input files.
    pub directory: TempDir,
}

impl Field {
    /// The tests of a suite, and the allocators.
    pub fn of_suite(tests: &Tests, allocators: &Allocators) -> anyhow::Result<Self> {
        let threads = tests.threads.unwrap_or_else(usable_cpus);
        let candidates = candidates(allocators)?;
        let reference = reference(&candidates, tests.reference.as_deref())?;
        let directory = directory(if tests.installed { &suite::INPUTS } else { &[] })?;
        let (tests, missing) = chosen(tests, threads, directory.path())?;
        Ok(Self { tests, missing, candidates, reference, threads: vec![threads], directory })
    }

    /// One test for each thread count, and the allocators.
    pub fn of_threads(args: &Compare) -> anyhow::Result<Self> {
        let threads = thread_counts(&args.threads);
        let candidates = candidates(&args.allocators)?;
        let reference = reference(&candidates, None)?;
        let (tests, missing) = mixes(&threads, args.operations)?;
        Ok(Self { tests, missing, candidates, reference, threads, directory: directory(&[])? })
    }
}

/// Makes a directory for the programs, with these files.
fn directory(files: &[(&str, &str)]) -> anyhow::Result<TempDir> {
    let make = || {
        let directory = numapilot_place::scratch_directory("suite")?;
        for (name, text) in files {
            fs::write(directory.path().join(name), text)?;
        }
        Ok::<_, io::Error>(directory)
    };
    make().context("cannot make a directory for the programs")
}

fn candidates(args: &Allocators) -> anyhow::Result<Vec<Candidate>> {
    Ok(match args.allocators.as_slice() {
        [] => candidates::all(&args.peers)?,
        names => candidates::chosen(names, &args.peers)?,
    })
}

fn usable_cpus() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// The requested thread counts, or powers of two up to the usable CPUs; never empty.
fn thread_counts(asked: &[NonZeroUsize]) -> Vec<NonZeroUsize> {
    if !asked.is_empty() {
        return asked.to_vec();
    }
    let all = usable_cpus();
    let powers = (0..usize::BITS).map(|bit| 1 << bit).take_while(|&n| n < all.get());
    powers.filter_map(NonZeroUsize::new).chain([all]).collect()
}

fn places(programs: &[PathBuf], threads: NonZeroUsize) -> anyhow::Result<Places> {
    let directories = programs.iter().map(|directory| {
        let absolute = directory.canonicalize();
        absolute.with_context(|| format!("--programs {}", directory.display()))
    });
    Ok(Places {
        directories: directories.collect::<anyhow::Result<_>>()?,
        inputs: None,
        numapilot: programs::numapilot_lab()?,
        threads,
    })
}

/// The micro-benchmark `mix`, once for each thread count.
fn mixes(
    threads: &[NonZeroUsize],
    operations: Option<u64>,
) -> anyhow::Result<(Vec<Ready>, Vec<Missing>)> {
    let suite = suite::Suite::standard()?;
    let mix = suite.own.into_iter().find(|test| test.name == MIX);
    let mut mix = mix.with_context(|| format!("no test '{MIX}' in the list of programs"))?;
    if let Some(operations) = operations {
        mix.arguments.extend(["--operations".to_owned(), operations.to_string()]);
    }
    let (mut ready, mut missing) = (Vec::new(), Vec::new());
    for &threads in threads {
        let plural = if threads.get() == 1 { "" } else { "s" };
        match places(&[], threads)?.ready(&mix) {
            Ok(test) => {
                let name = format!("{MIX}, {threads} thread{plural}");
                ready.push(Ready { name, ..test });
            }
            Err(test) => missing.push(test),
        }
    }
    Ok((ready, missing))
}

fn chosen(
    args: &Tests,
    threads: NonZeroUsize,
    directory: &Path,
) -> anyhow::Result<(Vec<Ready>, Vec<Missing>)> {
    let mut places = places(&args.programs, threads)?;
    let suite = suite::Suite::standard()?;
    let all = if args.installed {
        places.inputs = Some(directory.to_owned());
        suite.installed
    } else if args.programs.is_empty() {
        suite.own
    } else {
        suite.foreign
    };
    let wanted = |test: &&Test| args.filter.as_ref().is_none_or(|f| f.is_match(&test.name));
    let chosen: Vec<&Test> = all.iter().filter(wanted).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = all.iter().map(|test| test.name.as_str()).collect();
        bail!("--filter matches no test; there are {}", names.join(", "));
    }
    let (mut ready, mut missing) = (Vec::new(), Vec::new());
    for test in chosen {
        match places.ready(test) {
            Ok(test) => ready.push(test),
            Err(test) => missing.push(test),
        }
    }
    Ok((ready, missing))
}

/// The index of the candidate to which ratios refer.
fn reference(candidates: &[Candidate], wanted: Option<&str>) -> anyhow::Result<usize> {
    let called = |name: &str| candidates.iter().position(|c| c.name.eq_ignore_ascii_case(name));
    if let Some(name) = wanted {
        let names: Vec<&str> = candidates.iter().map(|c| c.name.as_str()).collect();
        return called(name).with_context(|| {
            format!("--reference {name} is not compared; there are {}", names.join(", "))
        });
    }
    // A mimalloc3 from a directory of peers counts as mimalloc too.
    let similar = || candidates.iter().position(|c| c.name.starts_with(USUAL_REFERENCE));
    Ok(called(USUAL_REFERENCE).or_else(similar).or_else(|| called("glibc")).unwrap_or(0))
}

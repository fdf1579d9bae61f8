//! `numapilot bench alloc`: allocators against each other over a suite of programs.

mod compare;
mod lines;
mod list;
mod picture;
mod print;
mod progress;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use numapilot_study::benchmark_run::BenchmarkRun;
use numapilot_study::candidates::{self, Candidate};
use numapilot_study::files::{Missing, Places, Ready};
use numapilot_study::results::Results;
use numapilot_study::suite::{Suite, Test};
use numapilot_workloads::size::parse_count;
use regex::Regex;
use serde::Serialize;

use crate::file::{self, Existing};
use crate::interruption;
use crate::settle::Measured;
use crate::terminal::Terminal;
use crate::units;

/// The allocator others are compared with, unless --reference says otherwise.
const USUAL_REFERENCE: &str = "mimalloc";
/// The test of --compare: systematic-numa-study 3.1.8.
const MIX: &str = "mix";

/// Arguments of `bench alloc`.
#[derive(clap::Args)]
#[command(after_help = "\
Without --suite or --compare it lists the tests and the allocators that would be compared. Every round runs \
each test under all allocators, in random order; ratios are taken within a round. What crashes, \
hangs or is not there is listed. Ctrl-C prints what was measured so far and exits with 130 (SIGTERM: \
143, SIGHUP: 129).\n\n\
Examples:\n  numapilot bench alloc --suite\n  \
numapilot bench alloc --suite --allocators glibc,jemalloc,mine=./libmine.so --filter larson\n  \
numapilot bench alloc --suite --programs ~/mimalloc-bench --peers ~/peers --svg suite.svg\n  \
numapilot bench alloc --compare --threads 1,2,4,8 --svg threads.svg")]
#[command(group = clap::ArgGroup::new("contest").args(["suite", "compare"]))]
pub struct Args {
    /// Run the suite.
    #[arg(long)]
    suite: bool,

    /// Run alloc-mix with several numbers of threads: time, and resident over requested
    /// memory.
    #[arg(long, conflicts_with_all = ["programs", "filter", "reference"])]
    compare: bool,

    /// Run the programs of mimalloc-bench (a built checkout) or of Hoard's benchmarks found
    /// here, instead of numapilot's own; may be repeated.
    #[arg(long, value_name = "DIR")]
    programs: Vec<PathBuf>,

    /// Compare the allocator libraries of this directory too; may be repeated.
    #[arg(long, value_name = "DIR")]
    peers: Vec<PathBuf>,

    /// Compare only these: names, or NAME=PATH of a library [default: glibc and all that are
    /// found].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    allocators: Vec<String>,

    /// The allocator that ratios refer to [default: a mimalloc if there is one, else glibc].
    #[arg(long, value_name = "NAME")]
    reference: Option<String>,

    /// Only tests whose name this matches.
    #[arg(long, value_name = "REGEX")]
    filter: Option<Regex>,

    /// Runs of each test under each allocator.
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = crate::units::whole::<u32>(1..=10_000))]
    rounds: u32,

    /// Threads of each test; with --compare a list [default: the CPUs that may be used; with
    /// --compare also 1, 2, 4 and so on below].
    #[arg(short = 't', long, value_name = "N", value_delimiter = ',')]
    threads: Vec<NonZeroUsize>,

    /// Operations per thread of --compare, as in 10M [default: alloc-mix's own].
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_count, requires = "compare",
          conflicts_with = "suite")]
    operations: Option<u64>,

    /// End a run after this time, and leave this test out for this allocator.
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "2m")]
    timeout: Duration,

    /// Source of the random order.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Print the results as JSON.
    #[arg(long)]
    json: bool,

    /// Draw the results into FILE.
    #[arg(long, value_name = "FILE", requires = "contest")]
    svg: Option<PathBuf>,
}

/// What takes part.
struct Field {
    tests: Vec<Ready>,
    missing: Vec<Missing>,
    candidates: Vec<Candidate>,
    reference: usize,
    /// Of --compare, or one for all tests.
    threads: Vec<NonZeroUsize>,
}

/// The JSON form; `threads` is a number, and a list after --compare.
#[derive(Serialize)]
struct Document<'a, T> {
    workload: &'static str,
    threads: T,
    rounds: u32,
    seed: u64,
    #[serde(flatten)]
    results: &'a Results,
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let field = self.field()?;
        if !self.suite && !self.compare {
            list::print(terminal, &field, self.json)?;
            return Ok(ExitCode::SUCCESS);
        }
        if field.tests.is_empty() {
            let reasons: Vec<&str> = field.missing.iter().map(|m| m.reason.as_str()).collect();
            bail!("no test can be run: {}", reasons.join("; "));
        }
        if let Some(path) = &self.svg {
            file::check(path, Existing::Replace)?;
        }
        let machine = numapilot_topology::read(Path::new("/"))?;
        let interrupted = interruption::flag()?;
        // Some programs write files where they are; none of them is wanted.
        let directory = numapilot_place::scratch_directory("suite")
            .context("cannot make a directory for the programs")?;
        let benchmark = BenchmarkRun {
            machine: &machine,
            tests: &field.tests,
            candidates: &field.candidates,
            rounds: self.rounds,
            timeout: self.timeout,
            directory: directory.path(),
            seed: self.seed,
            interrupted: &interrupted,
        };
        let mut progress = progress::Progress::new(terminal, &field, self.rounds);
        let made = benchmark.run(&mut progress);
        progress.finish();
        let made = made?;
        let results = Results::new(
            &field.tests,
            &field.candidates,
            field.reference,
            &made.runs,
            field.missing,
            made.is_interrupted,
        );
        let (rounds, seed) = (self.rounds, self.seed);
        if let Some(path) = &self.svg {
            let picture = if self.compare {
                lines::draw(&results, rounds)
            } else {
                picture::draw(&results, rounds)
            };
            file::put(path, &picture, Existing::Replace)?;
        }
        let (threads, results) = (&field.threads, &results);
        match (self.json, self.compare) {
            (true, false) => {
                let workload = "alloc-suite";
                let threads = threads[0];
                let document = Document { workload, threads, rounds, seed, results };
                terminal.json(&Measured::new(terminal, document))?;
            }
            (true, true) => {
                let workload = "alloc-compare";
                let document = Document { workload, threads, rounds, seed, results };
                terminal.json(&Measured::new(terminal, document))?;
            }
            (false, false) => print::results(terminal, results, threads[0], rounds)?,
            (false, true) => compare::print(terminal, results, rounds)?,
        }
        Ok(if results.is_interrupted { interruption::status() } else { ExitCode::SUCCESS })
    }

    fn field(&self) -> anyhow::Result<Field> {
        let threads = self.thread_counts()?;
        let candidates = if self.allocators.is_empty() {
            candidates::all(&self.peers)?
        } else {
            candidates::chosen(&self.allocators, &self.peers)?
        };
        let reference = reference(&candidates, self.reference.as_deref())?;
        let (tests, missing) =
            if self.compare { self.mixes(&threads)? } else { self.tests(threads[0])? };
        Ok(Field { tests, missing, candidates, reference, threads })
    }

    /// Never empty.
    fn thread_counts(&self) -> anyhow::Result<Vec<NonZeroUsize>> {
        if self.threads.len() > 1 && !self.compare {
            bail!("--threads takes a list with --compare only; give one number");
        }
        if !self.threads.is_empty() {
            return Ok(self.threads.clone());
        }
        let all = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        if !self.compare {
            return Ok(vec![all]);
        }
        let powers = (0..usize::BITS).map(|bit| 1 << bit).take_while(|&n| n < all.get());
        Ok(powers.filter_map(NonZeroUsize::new).chain([all]).collect())
    }

    fn places(&self, threads: NonZeroUsize) -> anyhow::Result<Places> {
        let directories = self.programs.iter().map(|directory| {
            let absolute = directory.canonicalize();
            absolute.with_context(|| format!("--programs {}", directory.display()))
        });
        Ok(Places {
            directories: directories.collect::<anyhow::Result<_>>()?,
            numapilot: std::env::current_exe().context("cannot find numapilot's own file")?,
            threads,
        })
    }

    /// alloc-mix, once for each number of threads.
    fn mixes(&self, threads: &[NonZeroUsize]) -> anyhow::Result<(Vec<Ready>, Vec<Missing>)> {
        let suite = Suite::standard()?;
        let mix = suite.own.into_iter().find(|test| test.name == MIX);
        let mut mix = mix.with_context(|| format!("no test '{MIX}' in the list of programs"))?;
        if let Some(operations) = self.operations {
            mix.arguments.extend(["--operations".to_owned(), operations.to_string()]);
        }
        let (mut ready, mut missing) = (Vec::new(), Vec::new());
        for &threads in threads {
            let plural = if threads.get() == 1 { "" } else { "s" };
            match self.places(threads)?.ready(&mix) {
                Ok(test) => {
                    let name = format!("{MIX}, {threads} thread{plural}");
                    ready.push(Ready { name, ..test });
                }
                Err(test) => missing.push(test),
            }
        }
        Ok((ready, missing))
    }

    fn tests(&self, threads: NonZeroUsize) -> anyhow::Result<(Vec<Ready>, Vec<Missing>)> {
        let places = self.places(threads)?;
        let suite = Suite::standard()?;
        let all = if self.programs.is_empty() { suite.own } else { suite.foreign };
        let wanted = |test: &&Test| self.filter.as_ref().is_none_or(|f| f.is_match(&test.name));
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
}

/// The index of the candidate that ratios refer to.
fn reference(candidates: &[Candidate], wanted: Option<&str>) -> anyhow::Result<usize> {
    let called = |name: &str| candidates.iter().position(|c| c.name.eq_ignore_ascii_case(name));
    if let Some(name) = wanted {
        let names: Vec<&str> = candidates.iter().map(|c| c.name.as_str()).collect();
        return called(name).with_context(|| {
            format!("--reference {name} is not compared; there are {}", names.join(", "))
        });
    }
    // mimalloc3 of a directory of peers is one too.
    let similar = || candidates.iter().position(|c| c.name.starts_with(USUAL_REFERENCE));
    Ok(called(USUAL_REFERENCE).or_else(similar).or_else(|| called("glibc")).unwrap_or(0))
}

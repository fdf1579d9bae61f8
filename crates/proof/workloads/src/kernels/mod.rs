//! NUMA pathology kernels: each program has one pathology of memory placement, and supports its
//! known mitigations.
//!
//! Source: "Challenges of Memory Management on Modern NUMA Systems" (Gaud et al. 2015, Carrefour).
//! The programs of that paper suffer from contention where one thread fills what all read
//! (Streamcluster, k1), remote accesses where memory stays behind (k2, k5), bursts that end before
//! anything can be moved (IS, k7), or pages that threads share falsely (k9).
//!
//! ```text
//!  PinnedThreads --> fill --> mitigate --> work, timed --> checksum
//!   Area (pages)       |          |            |              ^
//!                first touch  move_pages       |     arithmetic, one thread
//!                or a policy                 steps --> prediction
//! ```
//!
//! Each kernel uses real memory and real threads. A computation that uses none of its memory
//! confirms its answer.

pub mod area;
mod cache_hits;
pub mod clock;
mod controllers_and_links;
mod error;
mod figures;
mod flow;
mod kernel;
mod load;
mod loops;
mod outcome;
pub mod pinned_threads;
mod place;
pub mod prediction;
mod registry;
mod stage;

mod burst;
mod copies;
mod cycle;
mod good_local;
mod gups;
mod huge_false_sharing;
mod init_readall;
mod init_slices;
mod parts;
mod pipe;
mod probe;
mod read_mostly;
mod rotate;
mod skew;
mod swapped;
mod traffic;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use numapilot_lab_model::Model;
use numapilot_observe::hint_faults::auto_numa;
use serde::Serialize;

use self::area::Area;
use self::clock::Clock;
use self::copies::Copies;
use self::load::Load;
use self::outcome::{over_time, settled};
use self::pinned_threads::PinnedThreads;
use self::prediction::{Neighbour, Prediction, predict};
use self::stage::{Run, Stage};
use crate::memory::{available_bytes, peak_rss_bytes};
use crate::outcome::Figures;
use crate::team;

pub use self::clock::Time;
pub use self::error::KernelError;
pub use self::figures::{Known, model};
pub use self::kernel::Kernel;
pub use self::outcome::{NodePages, Outcome, Rate};
pub use self::place::Place;

/// How to run a kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Where memory goes.
    pub place: Place,
    /// Number of threads, including the main thread.
    #[serde(skip)]
    pub threads: NonZeroUsize,
    /// Size of the data of all threads together.
    pub bytes: u64,
    /// Seed of the data.
    pub seed: u64,
    /// k6: how long the threads stay on a node; by default, as long as four passes take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<Duration>,
    /// How long the work is repeated; by default, it runs once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Duration>,
    /// k11: one access in this many is a write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes_every: Option<u64>,
    /// The machine whose description predicts the time, by name or file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
}

/// A part of the work that all threads begin and end together.
struct Step {
    /// How often it is repeated.
    times: f64,
    /// The loads of each thread, one after the other.
    threads: Vec<Vec<Load>>,
    /// Threads that run at the same time.
    neighbour: Option<Neighbour>,
}

impl Step {
    /// A step with one load for each thread.
    fn once(loads: impl IntoIterator<Item = Load>) -> Self {
        Self::of(loads.into_iter().map(|load| vec![load]).collect())
    }

    /// A step with several loads for each thread, one after the other.
    fn of(threads: Vec<Vec<Load>>) -> Self {
        Self { times: 1.0, threads, neighbour: None }
    }

    /// The step, repeated `times` times.
    fn times(self, times: f64) -> Self {
        Self { times: self.times * times, ..self }
    }
}

/// One kernel, ready to run.
trait Pathology: Sync {
    /// Its memory.
    fn areas(&self) -> Vec<&Area>;
    /// A thread's part. All threads fill, mitigate and work together, for as many rounds as the
    /// stage requests. Returns the thread's contribution to the checksum.
    fn run(&self, stage: &Stage<'_>) -> u64;
    /// The data that is copied to every node, which is not in the areas.
    fn copies(&self) -> Option<&Copies> {
        None
    }
    /// The checksum of this many rounds, computed by other means.
    fn expected(&self, rounds: usize) -> u64;
    /// Items of work in a round.
    fn items(&self) -> u64;
    /// The steps of a round for the prediction, based on where the pages are.
    fn steps(&self, pinned: &PinnedThreads, clock: &Clock) -> Result<Vec<Step>, KernelError>;
    /// The placement that it settled on, if it decides by measuring.
    fn settled(&self) -> Option<Place> {
        None
    }
    /// Notes for the reader of the figures.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The kind of time that kernels measure here.
///
/// # Errors
/// [`KernelError::Lab`] in a lab whose PMU cannot be used.
pub fn time() -> Result<Time, KernelError> {
    Ok(Clock::here()?.time())
}

/// Restores the affinity of the main thread. It was one of the team, and stays on its CPU until the
/// result is checked. The check reads the memory once more, and would take a different time from
/// another CPU.
struct WhereBefore(Option<Vec<u64>>);

impl Drop for WhereBefore {
    fn drop(&mut self) {
        if let Some(cpus) = &self.0 {
            let _ = numapilot_sys::affinity::set(0, cpus);
        }
    }
}

/// Runs a kernel.
///
/// # Errors
/// [`KernelError`]: bad options, what the system refuses, a wrong result.
pub fn run(kernel: Kernel, options: &Options) -> Result<Outcome, KernelError> {
    let machine = numapilot_topology::read(Path::new("/"))?;
    let pinned = PinnedThreads::on(&machine, options.threads.get())?;
    let clock = Clock::here()?;
    let known = figures::known(&machine, options.machine.as_deref(), clock.time())?;
    let place = kernel.resolve(options.place, options, known.as_ref().ok(), &pinned)?;
    refuse(kernel, options, &pinned)?;
    let pathology = kernel.build(options, place, &pinned)?;
    let region = format!("{} {}", kernel.name(), options.place);
    let run = Run::new(&pinned, &clock, region, options.lasts);
    let _anywhere = WhereBefore(numapilot_sys::affinity::get(0).ok());
    let results = team::run(vec![(); pinned.threads()], |worker, ()| {
        let stage = Stage::new(worker, &run);
        stage.pin_to(stage.slot());
        pathology.run(&stage)
    });
    let (sums, _) = results?;
    let rounds = run.finish()?;
    let seconds: f64 = rounds.iter().map(|round| round.worked.as_secs_f64()).sum();
    let peak_rss_bytes = peak_rss_bytes()?;
    let computed = sums.into_iter().fold(0, u64::wrapping_add);
    let expected = pathology.expected(rounds.len());
    if computed != expected {
        return Err(KernelError::WrongResult { computed, expected });
    }
    let (predicted, unsupported) = match known {
        Ok(model) => (predicted(&model, &pathology.steps(&pinned, &clock)?), BTreeMap::new()),
        Err(why) => (None, BTreeMap::from([("predicted_seconds", why)])),
    };
    let items = pathology.items() as f64;
    let mut notes = pathology.notes();
    let (threads, cpus) = (pinned.threads(), pinned.cpus());
    if cpus < threads {
        let plural = if cpus == 1 { "" } else { "s" };
        notes.push(format!(
            "{threads} threads take turns on the {cpus} CPU{plural} that this process may use; kernels \
             place their threads themselves, so none need be placed from outside"
        ));
    }
    if pinned.memory().len() == 1 {
        notes.push("one node: all placements are equal, so mitigations have no effect".to_owned());
    } else if auto_numa() == Some(true) {
        notes.push(
            "AutoNUMA is on and moves pages, too; kernel.numa_balancing=0 turns it off".to_owned(),
        );
    }
    Ok(Outcome {
        figures: Figures {
            workload: kernel.name(),
            threads: pinned.threads(),
            parameters: serde_json::to_value(options).unwrap_or_default(),
        },
        mitigation: pathology.settled().unwrap_or(place),
        time: clock.time(),
        seconds,
        items_per_second: items * rounds.len() as f64 / seconds,
        settled_items_per_second: settled(items, &rounds),
        rounds: if options.lasts.is_some() { over_time(items, &rounds) } else { Vec::new() },
        checksum: computed,
        peak_rss_bytes,
        nodes: pinned.thread_nodes().len(),
        pages: pages(pathology.as_ref(), &pinned)?,
        predicted_seconds: predicted.map(|p| p.seconds * rounds.len() as f64),
        predicted_bound: predicted.map(|p| p.bound.to_string()),
        unsupported,
        notes,
    })
}

fn refuse(kernel: Kernel, options: &Options, pinned: &PinnedThreads) -> Result<(), KernelError> {
    let least = kernel.least_bytes(pinned.threads());
    if options.bytes < least {
        let (bytes, threads) = (options.bytes, pinned.threads());
        return Err(KernelError::TooSmall { bytes, threads, least });
    }
    let needed_bytes = options.bytes.saturating_mul(kernel.areas(options.place, pinned));
    let available_bytes = available_bytes()?;
    if needed_bytes > available_bytes {
        return Err(KernelError::TooLittleMemory { kernel, needed_bytes, available_bytes });
    }
    Ok(())
}

/// The time of all steps, and what limits the longest.
fn predicted(model: &Model, steps: &[Step]) -> Option<Prediction> {
    let one = |step: &Step| {
        let prediction = predict(model, &step.threads, step.neighbour)?;
        Some(Prediction { seconds: prediction.seconds * step.times, ..prediction })
    };
    let steps = steps.iter().map(one).collect::<Option<Vec<Prediction>>>()?;
    let seconds = steps.iter().map(|step| step.seconds).sum();
    let longest = steps.into_iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
    Some(Prediction { seconds, ..longest })
}

fn pages(pathology: &dyn Pathology, pinned: &PinnedThreads) -> Result<Vec<NodePages>, KernelError> {
    let mut counts = vec![0; pinned.nodes()];
    let areas = pathology.areas().into_iter().map(|area| area.homes(pinned));
    let copies = pathology.copies().map(|copies| copies.replica_homes(pinned));
    for homes in areas.chain(copies) {
        homes?.into_iter().flatten().for_each(|node| counts[node] += 1);
    }
    let nodes = counts.into_iter().enumerate();
    Ok(nodes.map(|(node, pages)| NodePages { node: pinned.id(node).0, pages }).collect())
}

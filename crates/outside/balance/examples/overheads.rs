//! Measures the cost of balancing: time and memory of decisions on a large process, and CPU time
//! while there is nothing to do.
//!
//! ```sh
//! cargo run --release -p numapilot-balance --example overheads
//! ```

use std::error::Error;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use numapilot_balance::adaptive::Settings;
use numapilot_balance::paper::Spread;
use numapilot_balance::{
    Access, Balance, Evidence, Moved, Nodes, Order, Page, Process, Setup, Target,
};
use numapilot_observe::Tree;
use numapilot_observe::pmu::Attach;
use numapilot_observe::source::Source;
use numapilot_topology::{Machine, NodeId};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const NODES: u32 = 8;
/// The address space: 100 GB.
const PAGES: u64 = 100_000_000_000 / Page::BYTES;
/// Pages that are sampled in an interval.
const SAMPLED: usize = 1_000_000;
const INTERVALS: u64 = 15;
const SECOND_NS: u64 = 1_000_000_000;
/// How long the idle process is observed.
const REST: Duration = Duration::from_secs(20);

fn main() -> Result<(), Box<dyn Error>> {
    let nodes = Nodes::of(&Machine::uniform(NODES, 8));
    let paper = Setup::Paper { spread: Spread::Complement, seed: 1 };
    for (name, setup) in [("default", Setup::Default(Settings::default())), ("paper", paper)] {
        let (mut times, mut cpu_times): (Vec<f64>, Vec<f64>) =
            decisions(&nodes, &mut setup.begin(&nodes)).into_iter().unzip();
        println!(
            "{name} mode: {SAMPLED} samples of {:.0} GB decided on in {}, by {} of CPU time",
            (PAGES * Page::BYTES) as f64 / 1e9,
            median(&mut times),
            median(&mut cpu_times),
        );
    }
    println!("memory at most: {:.0} MB", peak_bytes()? as f64 / 1e6);
    match at_rest(&nodes) {
        Ok(share) => println!("at rest: {:.3} % of a CPU", share * 100.0),
        Err(error) => println!("at rest: <not supported> ({error})"),
    }
    Ok(())
}

fn median(times: &mut [f64]) -> String {
    times.sort_by(f64::total_cmp);
    let [median, longest] = [times.len() / 2, times.len() - 1].map(|at| times[at] * 1e3);
    format!("{median:.0} ms (longest {longest:.0} ms)")
}

/// Decides on intervals in which every page is sampled equally often and half of all pages have an
/// owner on another node. Returns the seconds that each decision took, and its seconds of CPU time.
fn decisions(nodes: &Nodes, balance: &mut Balance) -> Vec<(f64, f64)> {
    let mut random = StdRng::seed_from_u64(7);
    let mut access = || {
        let page = random.random_range(0..PAGES);
        let owner = (page / 512 % u64::from(NODES)) as u32;
        let from = if page % 2 == 0 { owner } else { random.random_range(0..NODES) };
        Access {
            page: Page(page),
            from: NodeId(from),
            home: NodeId(0),
            write: page % 3 == 0,
            huge: false,
            latency_ns: Some(if from == 0 { 100 } else { 180 }),
        }
    };
    let mut times = Vec::new();
    for interval in 1..=INTERVALS {
        let evidence = Evidence {
            duration_ns: SECOND_NS,
            accesses: (0..SAMPLED).map(|_| access()).collect(),
            accesses_per_sample: Some(1000.0),
            usable: nodes.ids().iter().copied().collect(),
            ..Evidence::default()
        };
        let (begun, cpu_before) = (Instant::now(), cpu_time());
        let now_ns = interval * SECOND_NS;
        let decision = balance.decide(nodes, &evidence, now_ns);
        // All orders are carried out, which affects the next decisions.
        let moved = |order: &Order| {
            let (from, to) = (NodeId(0), order.to);
            order.each().map(move |page| Moved { page, from, to })
        };
        let moved: Vec<Moved> = decision.orders.iter().flat_map(moved).collect();
        balance.done(&moved, 1000 * moved.len() as u64, now_ns);
        times.push((begun.elapsed().as_secs_f64(), cpu_time() - cpu_before));
    }
    times
}

/// Share of a CPU that the loop of `numapilot balance` takes for a process that does nothing.
fn at_rest(nodes: &Nodes) -> Result<f64, Box<dyn Error>> {
    let cpus = numapilot_topology::read("/".as_ref())?.online_cpus();
    let mut child = Command::new("sleep").arg("600").stdout(Stdio::null()).spawn()?;
    let pid = child.id().cast_signed();
    let mut tree = Tree::of(&[pid])?;
    let mut source = Source::hint_faults(&Attach::Threads(tree.threads().collect()), &cpus)?;
    let mut target =
        Target::new(Process::open(pid)?, Setup::Default(Settings::default()).begin(nodes));
    let before = cpu_time();
    let begun = Instant::now();
    let mut samples = Vec::new();
    while begun.elapsed() < REST {
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(250));
            source.take_samples(&mut samples);
        }
        tree.refresh();
        let accesses = target.accesses(&samples, &std::collections::BTreeMap::new())?;
        let evidence = Evidence { duration_ns: SECOND_NS, accesses, ..Evidence::default() };
        target.interval(nodes, &evidence, source.now_ns(), false, || false);
        samples.clear();
    }
    let share = (cpu_time() - before) / begun.elapsed().as_secs_f64();
    child.kill()?;
    child.wait()?;
    Ok(share)
}

/// Seconds of CPU time that all threads of this process have used so far.
fn cpu_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Peak memory of this process so far.
fn peak_bytes() -> Result<u64, Box<dyn Error>> {
    let status = procfs::process::Process::myself()?.status()?;
    Ok(status.vmhwm.ok_or("no VmHWM")? * 1024)
}

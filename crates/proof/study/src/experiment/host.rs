//! The machine that runs a study, and its noise.

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime};

use numapilot_topology::Machine;
use numapilot_tune::statistics::{median, robust_sigma};
use serde::{Deserialize, Serialize};

/// The machine that ran trials, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Seconds since 1970.
    pub time: u64,
    /// numapilot's version.
    pub version: String,
    /// The kernel's version.
    pub kernel: String,
    /// The processor's name, if the kernel reports it.
    pub processor: Option<String>,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of usable CPUs.
    pub cpus: usize,
    /// Size of the memory.
    pub memory_bytes: u64,
    /// Runnable tasks over the last minute; `None` if the kernel does not report it.
    pub load: Option<f64>,
    /// Settings that other runs of numapilot held at the start. Their values were not the machine's
    /// own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_settings: Vec<String>,
    /// Spread of the time of a fixed computation, relative to its median.
    pub noise: f64,
}

/// Number of timings.
const TIMES: usize = 41;
/// Approximate duration of a timing.
const TARGET: Duration = Duration::from_millis(10);

/// Describes this machine and measures its noise; takes about half a second.
#[must_use]
pub fn measure(machine: &Machine, version: &str) -> Host {
    let text = |path: &str| fs::read_to_string(path).ok();
    let load = text("/proc/loadavg").and_then(|t| t.split_whitespace().next()?.parse().ok());
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Host {
        time: since.map_or(0, |since| since.as_secs()),
        version: version.to_owned(),
        kernel: text("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        processor: machine.processor.clone(),
        nodes: machine.nodes.len(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: machine.nodes.iter().map(|node| node.memory_bytes).sum(),
        load,
        held_settings: Vec::new(),
        noise: noise(),
    }
}

fn noise() -> f64 {
    let mut turns = 1 << 16;
    while time(turns) < TARGET && turns < 1 << 40 {
        turns *= 2;
    }
    let seconds: Vec<f64> = (0..TIMES).map(|_| time(turns).as_secs_f64()).collect();
    robust_sigma(&seconds) / median(&seconds)
}

/// Times a chain of dependent multiplications, which the compiler cannot shorten.
fn time(turns: u64) -> Duration {
    let start = Instant::now();
    let mut x = 1u64;
    for i in 0..turns {
        x = (x ^ i).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    black_box(x);
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_figures() {
        let host = measure(&Machine::uniform(2, 1), "1.0");
        assert!(host.noise.is_finite() && host.noise >= 0.0, "{}", host.noise);
        assert!(host.cpus > 0 && !host.kernel.is_empty() && host.nodes == 2);
    }
}

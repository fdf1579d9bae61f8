//! Time that memory accesses cost, as far as it was measured.
//!
//! Source: carrefour, "RAM accesses per microsecond" (MAPTU): below 50, better placement of memory is
//! unlikely to help. With a latency of DRAM accesses there is a stronger bound: accesses times the
//! part of their latency that is above an idle local access. Accesses of one CPU overlap, so their
//! latencies add up to at least the time that the CPU waits.

use numapilot_observe::Metric;

use crate::run::Run;

/// Below this rate, memory placement is unlikely to help (carrefour).
pub const LEAST_MAPTU: f64 = 50.0;
/// The rate was stated for a machine with this number of CPUs (carrefour, four Opteron 8385).
const MAPTU_CPUS: f64 = 16.0;

/// Mean number of busy CPUs from which threads can use the controllers of several nodes at once.
pub const PARALLEL: f64 = 2.0;

/// How far a better placement can help.
#[derive(Clone, Debug, PartialEq)]
pub enum Stalls {
    /// At most this share of CPU time.
    Bound(f64),
    /// DRAM accesses are rarer than Carrefour's threshold, for as many CPUs as were busy.
    Rare {
        /// DRAM accesses per microsecond.
        maptu: f64,
        /// The threshold.
        least: f64,
    },
    /// DRAM accesses are frequent, and their latency is not known.
    Frequent {
        /// DRAM accesses per microsecond.
        maptu: f64,
    },
    /// They were not counted.
    Unknown(String),
}

/// How far a better placement of memory or threads can help.
pub fn stalls(run: &Run) -> Stalls {
    let accesses = run
        .figure(Metric::LocalAccesses)
        .and_then(|local| Ok(local + run.figure(Metric::RemoteAccesses)?));
    let (accesses, cpu) = match (accesses, run.cpu_seconds()) {
        (Ok(accesses), Ok(cpu)) if cpu > 0.0 => (accesses, cpu),
        (Err(reason), _) | (_, Err(reason)) => return Stalls::Unknown(reason),
        _ => return Stalls::Unknown("the program has used no CPU time".to_owned()),
    };
    if let Ok(latency) = run.figure(Metric::DramLatencySeconds) {
        let least = run.local_latency_seconds.unwrap_or(0.0);
        return Stalls::Bound((accesses * (latency - least).max(0.0) / cpu).min(1.0));
    }
    let seconds = run.figure(Metric::Seconds).unwrap_or(0.0);
    if seconds <= 0.0 {
        return Stalls::Unknown("no time has passed".to_owned());
    }
    let maptu = accesses / (seconds * 1e6);
    let least = LEAST_MAPTU * (run.concurrency() / MAPTU_CPUS).min(1.0);
    if maptu < least { Stalls::Rare { maptu, least } } else { Stalls::Frequent { maptu } }
}

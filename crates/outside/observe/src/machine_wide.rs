//! CPU time, faults and switches of the whole machine.
//!
//! Source: proc_stat(5), `/proc/vmstat`.

use std::fs;

use crate::metric::{Figures, Metric};
use crate::node_counters::pairs;

/// All figures that need no PMU.
#[must_use]
pub fn figures() -> Figures {
    let read = |path: &str| fs::read_to_string(path).map_err(|e| format!("{path}: {e}"));
    let stat = read("/proc/stat");
    let vmstat = read("/proc/vmstat");
    let cpu = |fields: &[usize]| match &stat {
        Ok(text) => cpu_ticks(text, fields)
            .map(|n| n as f64 / procfs::ticks_per_second() as f64)
            .ok_or_else(|| "/proc/stat has no CPU line".to_owned()),
        Err(reason) => Err(reason.clone()),
    };
    let fault = |name: &str| match &vmstat {
        Ok(text) => pairs(text)
            .find(|(n, _)| *n == name)
            .map(|(_, count)| count as f64)
            .ok_or_else(|| format!("/proc/vmstat has no {name}")),
        Err(reason) => Err(reason.clone()),
    };
    let minor = fault("pgfault").and_then(|all| Ok(all - fault("pgmajfault")?));
    let of_one = || Err("a figure of a program, not of a machine".to_owned());
    Figures::from([
        // user and nice; system, irq and softirq.
        (Metric::UserSeconds, cpu(&[0, 1])),
        (Metric::SystemSeconds, cpu(&[2, 5, 6])),
        (Metric::MinorFaults, minor),
        (Metric::MajorFaults, fault("pgmajfault")),
        (Metric::VoluntarySwitches, of_one()),
        (Metric::InvoluntarySwitches, of_one()),
        (Metric::RssBytes, of_one()),
        (Metric::PeakRssBytes, of_one()),
    ])
}

/// Adds up some columns of the `cpu` line.
fn cpu_ticks(stat: &str, columns: &[usize]) -> Option<u64> {
    let line = stat.lines().find_map(|l| l.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|t| t.parse().ok()).collect();
    columns.iter().map(|i| ticks.get(*i).copied()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_the_cpu_line() {
        let stat = "cpu  10 1 5 900 3 2 1 0 0 0\ncpu0 10 1 5 900 3 2 1 0 0 0\n";
        assert_eq!(cpu_ticks(stat, &[0, 1]), Some(11));
        assert_eq!(cpu_ticks(stat, &[2, 5, 6]), Some(8));
        assert_eq!(cpu_ticks("cpu  1 2\n", &[6]), None);
        assert_eq!(cpu_ticks("", &[0]), None);
    }

    #[test]
    fn this_machine_has_used_time_and_taken_faults() {
        let figures = figures();
        for metric in [Metric::UserSeconds, Metric::SystemSeconds, Metric::MinorFaults] {
            assert!(figures[&metric].as_ref().is_ok_and(|v| *v > 0.0), "{metric}");
        }
        assert!(figures[&Metric::PeakRssBytes].is_err());
    }
}

//! Context switches and CPU migrations from the scheduler's files, for users who may not call
//! `perf_event_open`.
//!
//! Source: `/proc/PID/task/TID/sched` (kernel/sched/debug.c). The figures of a thread vanish when
//! it ends, so the sum uses the last reading of each thread. It is a lower bound.

use std::collections::BTreeMap;

use crate::metric::{Figure, Metric};
use crate::tree::Tree;

/// Figures of one thread, or a sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    switches: u64,
    migrations: u64,
}

impl Counts {
    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
            pairs.find(|(key, _)| key.trim() == name)?.1.trim().parse().ok()
        };
        Some(Self { switches: field("nr_switches")?, migrations: field("se.nr_migrations")? })
    }

    fn plus(self, other: Self) -> Self {
        Self {
            switches: self.switches + other.switches,
            migrations: self.migrations + other.migrations,
        }
    }
}

/// The last reading of every thread.
#[derive(Debug, Default)]
pub struct Threads {
    seen: BTreeMap<i32, Counts>,
    /// Whether the file of a thread could not be read.
    hidden: bool,
    /// Sum of the ended threads whose id now belongs to another thread.
    replaced: Counts,
}

impl Threads {
    /// Reads all threads of the tree.
    pub fn refresh(&mut self, tree: &Tree) {
        let mut found = false;
        for (tid, text) in tree.thread_files("sched") {
            if let Some(counts) = Counts::parse(&text) {
                found = true;
                self.note(tid, counts);
            }
        }
        self.hidden |= !found && tree.threads().next().is_some();
    }

    fn note(&mut self, tid: i32, counts: Counts) {
        // Counts never fall, so a smaller one belongs to another thread.
        if let Some(old) = self.seen.insert(tid, counts)
            && old.switches > counts.switches
        {
            self.replaced = self.replaced.plus(old);
        }
    }

    /// The sums, or why there are none.
    pub fn read(&self) -> [(Metric, Figure); 2] {
        let sum = self.seen.values().fold(self.replaced, |sum, c| sum.plus(*c));
        let figure = |count: u64| {
            if self.hidden && self.seen.is_empty() {
                Err("perf_event_open is not permitted and /proc/PID/sched cannot be read \
                     (CONFIG_SCHED_DEBUG)"
                    .to_owned())
            } else {
                Ok(count as f64)
            }
        };
        [
            (Metric::ContextSwitches, figure(sum.switches)),
            (Metric::CpuMigrations, figure(sum.migrations)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use numapilot_test_kit::damaged;
    use proptest::prelude::*;

    use super::*;

    const SCHED: &str = "head (17719, #threads: 1)\n---------\n\
                         se.nr_migrations                             :                    3\n\
                         nr_switches                                  :                   12\n";

    #[test]
    fn a_recorded_file() {
        assert_eq!(Counts::parse(SCHED), Some(Counts { switches: 12, migrations: 3 }));
        assert_eq!(Counts::parse("nr_switches : 4\n"), None);
    }

    #[test]
    fn this_process_has_switches() {
        let mut threads = Threads::default();
        assert_eq!(threads.read()[0].1, Ok(0.0));
        let me = i32::try_from(std::process::id()).unwrap();
        threads.refresh(&Tree::of(&[me]).unwrap());
        match &threads.read()[0].1 {
            Ok(switches) => assert!(*switches > 0.0),
            Err(e) => eprintln!("skipped: {e}"),
        }
    }

    proptest! {
        #[test]
        fn sums_never_fall(notes in proptest::collection::vec((0i32..4, 0u64..100, 0u64..100), 0..50)) {
            let mut threads = Threads::default();
            let mut before = 0.0;
            for (tid, switches, migrations) in notes {
                threads.note(tid, Counts { switches, migrations });
                let now = threads.read()[0].1.clone().unwrap();
                prop_assert!(now >= before);
                before = now;
            }
        }

        #[test]
        fn a_damaged_file_is_read_or_refused(text in damaged(SCHED)) {
            if let Some(counts) = Counts::parse(&text) {
                prop_assert!(text.contains(&counts.switches.to_string()));
                prop_assert!(text.contains(&counts.migrations.to_string()));
            }
        }
    }
}

//! What a prepared command does, in words, and whether it was done.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use numapilot_sys::mempolicy::Mode;
use numapilot_topology::{CpuSet, NodeId, NodeSet};

use crate::prepare::memory::mode_name;
use crate::{Note, Prepared, Running};

/// Where the kernel keeps the weights of weighted interleave (Linux 6.9 and newer;
/// Documentation/ABI/testing/sysfs-kernel-mm-mempolicy-weighted-interleave).
const WEIGHTS: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";

/// How long the dynamic loader may take to map a preloaded library.
const LOADING: Duration = Duration::from_millis(500);

impl Prepared {
    /// One line for each thing that is done.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(cpus) = &self.steps.cpus {
            lines.push(format!("CPUs: {}", CpuSet::from_words(cpus)));
        }
        if let Some((mode, flags, nodes)) = &self.steps.memory {
            let nodes = NodeSet::from_words(nodes);
            let mut line = format!("memory: {}", mode_name(*mode));
            if *mode == Mode::WeightedInterleave {
                let weights: Vec<String> = nodes
                    .iter()
                    .map(|node| format!("node {node} weight {}", weight(node)))
                    .collect();
                line.push_str(&format!(" ({})", weights.join(", ")));
            } else if !nodes.is_empty() {
                line.push_str(&format!(" node {nodes}"));
            }
            if *flags != 0 {
                line.push_str(", sampled by AutoNUMA");
            }
            lines.push(line);
        }
        if let Some(disable) = self.steps.thp_disable {
            lines.push(format!("huge pages: {}", if disable { "never" } else { "allowed again" }));
        }
        if let Some(placement) = &self.placement {
            let order: Vec<String> = placement.order().iter().map(ToString::to_string).collect();
            lines.push(format!("threads: CPUs in the order {}", order.join(",")));
        }
        for (name, value) in self.environment.changes() {
            lines.push(format!("environment: {}={}", name.display(), value.display()));
        }
        for change in &self.settings {
            lines.push(format!(
                "machine-wide until it ends: {} > {}",
                change.value,
                change.setting.path(Path::new("/")).display()
            ));
        }
        lines
    }

    /// Looks whether the program has loaded what was preloaded; waits a moment for that.
    /// Nothing is said about a program that ends before.
    #[must_use]
    pub fn verify(&self, running: &Running) -> Vec<Note> {
        let Loading::Missing(missing) = self.loading(running) else { return Vec::new() };
        let not_loaded = |library: String| {
            Note::new(
                library,
                "the program runs and has not loaded it",
                "see what its dynamic loader says with LD_DEBUG=libs",
            )
        };
        missing.into_iter().map(not_loaded).collect()
    }

    /// What a program that has just been started has loaded of what was preloaded, by its
    /// `/proc/PID/maps`; waits a moment for its dynamic loader.
    #[must_use]
    pub fn loading(&self, running: &Running) -> Loading {
        let preload = self.environment.get("LD_PRELOAD").unwrap_or_default();
        let preload = preload.to_string_lossy();
        let libraries: Vec<&str> = preload.split(':').filter(|l| !l.is_empty()).collect();
        let deadline = Instant::now() + LOADING;
        loop {
            let maps = fs::read_to_string(format!("/proc/{}/maps", running.pid()));
            let Ok(maps) = maps else { return Loading::Ended };
            let missing = libraries.iter().filter(|l| !is_mapped(&maps, l));
            let missing: Vec<String> = missing.map(|l| (*l).to_owned()).collect();
            if missing.is_empty() {
                return Loading::Loaded;
            }
            if running.ended_within(Some(Duration::from_millis(5))).unwrap_or(true) {
                return Loading::Ended;
            }
            if Instant::now() >= deadline {
                return Loading::Missing(missing);
            }
        }
    }
}

/// What a started program has loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loading {
    /// All that was preloaded.
    Loaded,
    /// It runs without these.
    Missing(Vec<String>),
    /// It ended before it was seen.
    Ended,
}

/// The maps name a file by its real path.
fn is_mapped(maps: &str, library: &str) -> bool {
    let real = fs::canonicalize(library);
    let real = real.as_deref().unwrap_or(Path::new(library)).to_string_lossy();
    maps.lines().any(|line| line.ends_with(real.as_ref()))
}

fn weight(node: NodeId) -> String {
    fs::read_to_string(format!("{WEIGHTS}/node{node}"))
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

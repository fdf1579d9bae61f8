//! The built-in experiments.

use super::definition::{DefinitionError, Experiment};

macro_rules! carried {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"), "/../../../studies/", $name, ".toml"
        )))),*]
    };
}

/// File name and text. A file name starts with the identifier of its experiment.
const CARRIED: &[(&str, &str)] = carried![
    "a1-allocators-over-threads"
    "a2-w1-thread-affinity"
    "a3-w1-without-affinity"
    "a4-w1-sparse-against-dense"
    "a5-w1-autonuma-and-policies"
    "a6-w1-interleaved-pages"
    "a7-w1-huge-pages-by-allocator"
    "a8-w1-placement-by-machine"
    "a9-allocators-on-w1-to-w3"
    "a10-w1-over-data-sets"
    "a11-w4-indexes-and-allocators"
    "a12-tpch-operating-system"
    "a13-tpch-q5-and-q18-by-allocator"
    "b1-one-thread-remote-memory"
    "b2-first-touch-against-interleave"
    "b3-streamcluster-interleaved"
    "b4-carrefour-against-static-policies"
    "b5-imbalance-and-latency-after-carrefour"
    "b6-bursts"
    "c1-w1-by-allocator-on-four-sockets"
    "c2-allocations-by-size"
    "c3-waiting-and-executing"
    "c4-remote-accesses-by-allocator"
    "c5-memory-over-time"
    "c6-without-engine-chunks"
    "c7-scalable-fast-fair-efficient"
    "c8-queries-on-one-socket"
    "d1-link-traffic-by-clients"
    "d2-cores-follow-the-load"
    "d3-one-query-on-needed-cores"
    "d4-query-mix-on-needed-cores"
    "e1-allocators-on-programs"
    "e2-remote-accesses-and-tlb-misses"
    "e3-memory"
    "e4-scalability"
    "e5-thread-binding"
    "e6-without-origin-aware-memory"
    "e7-without-huge-page-sharing"
];

/// The identifier at the start of a file name.
fn identifier(file: &'static str) -> &'static str {
    file.split_once('-').map_or(file, |(identifier, _)| identifier)
}

/// The identifiers, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    CARRIED.iter().map(|(file, _)| identifier(file))
}

/// An experiment by identifier, ignoring case. `None` if there is none.
///
/// # Errors
/// When the built-in definition is damaged.
pub fn named(name: &str) -> Result<Option<Experiment>, DefinitionError> {
    let found = CARRIED.iter().find(|(file, _)| identifier(file).eq_ignore_ascii_case(name));
    found.map(|(file, text)| Experiment::parse(identifier(file), text)).transpose()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::experiment::{ScaleName, cells};

    /// The papers, by the names that `--paper` accepts.
    const PAPERS: [&str; 5] =
        ["systematic-numa-study", "carrefour", "allocation", "prt-pro", "numalloc"];

    #[test]
    fn all_experiments_are_whole_and_every_file_is_carried() {
        for name in names() {
            let experiment = named(name).unwrap().unwrap();
            assert!(experiment.id.eq_ignore_ascii_case(name), "{name}");
            assert!(PAPERS.contains(&experiment.paper.as_str()), "{name}: {}", experiment.paper);
            assert!(!experiment.claims.is_empty(), "{name}");
            let commands: Vec<String> = [ScaleName::Smoke, ScaleName::Laptop, ScaleName::Paper]
                .into_iter()
                .flat_map(|scale| cells(&experiment, scale))
                .map(|cell| cell.command)
                .collect();
            assert!(!commands.is_empty(), "{name}");
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../studies");
        let files = fs::read_dir(folder).unwrap().filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".toml").map(str::to_owned)
        });
        // These files belong to other studies: the allocator suite and the validations of the lab.
        let others = ["allocators", "held-out", "lab"];
        let files: BTreeSet<String> = files.filter(|f| !others.contains(&f.as_str())).collect();
        assert_eq!(files, CARRIED.iter().map(|(file, _)| (*file).to_owned()).collect());
    }
}

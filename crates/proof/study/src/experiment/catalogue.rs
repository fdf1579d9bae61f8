//! The experiments that the binary carries.

use super::definition::{DefinitionError, Experiment};

macro_rules! carried {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"), "/../../../studies/", $name, ".toml"
        )))),*]
    };
}

/// File name and text.
const CARRIED: &[(&str, &str)] = carried![
    "a1" "a2" "a3" "a4" "a5" "a6" "a7" "a8" "a9" "a10" "a11" "a12" "a13"
    "b1" "b2" "b3" "b4" "b5" "b6"
    "c1" "c2" "c3" "c4" "c5" "c6" "c7"
    "d1" "d2" "d3" "d4"
    "e1" "e2" "e3" "e4" "e5" "e6" "e7"
];

/// Their names, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    CARRIED.iter().map(|(name, _)| *name)
}

/// One of them, in small or capital letters. `None` when there is none of this name.
///
/// # Errors
/// When the binary was built from a damaged one.
pub fn named(name: &str) -> Result<Option<Experiment>, DefinitionError> {
    let found = CARRIED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(name, text)| Experiment::parse(name, text)).transpose()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::experiment::{ScaleName, cells};

    /// Papers, by the names that `--paper` takes.
    const PAPERS: [&str; 5] =
        ["systematic-numa-study", "carrefour", "allocation", "prt-pro", "numalloc"];

    #[test]
    fn what_acts_by_the_host_s_time_has_it_for_itself() {
        let mut alone = Vec::new();
        for name in names() {
            let experiment = named(name).unwrap().unwrap();
            let commands = cells(&experiment, ScaleName::Paper);
            let by_the_clock = [
                "numapilot balance",
                "numapilot cores",
                "numapilot bench clients",
                "--numa-balancing on",
            ];
            let has = |word: &&str| commands.iter().any(|cell| cell.command.contains(*word));
            if by_the_clock.iter().any(has) {
                assert!(experiment.is_alone(ScaleName::Laptop), "{name}");
                alone.push(name);
            }
        }
        assert_eq!(alone, ["a5", "a8", "a12", "b4", "b5", "b6", "d1", "d2", "d3", "d4"]);
    }

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
        // Read by other studies: the suite of allocators, the validation of the lab.
        let others = ["allocators", "lab"];
        let files: BTreeSet<String> = files.filter(|f| !others.contains(&f.as_str())).collect();
        assert_eq!(files, names().map(str::to_owned).collect());
    }
}

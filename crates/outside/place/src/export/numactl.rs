//! A command line with numactl(8), taskset(1) and env(1).
//!
//! Source: numactl's releases. `--balancing` and `--preferred-many` came with 2.0.15,
//! `--weighted-interleave` with 2.0.19 (issue 229); an older numactl ends with its usage. Versions
//! up to 2.0.16 have no option for their version, but their usage names the options.

use numapilot_sys::mempolicy::{self, Mode};
use numapilot_topology::CpuSet;

use super::setting::Inside;
use super::{Answer, Format, Version, version};
use crate::Reach;
use crate::shell::{placement_words, quoted};
use crate::targets::MemoryTarget;

/// The first versions with an option.
const WEIGHTED: [u32; 3] = [2, 0, 19];
const PREFERRED_MANY: [u32; 3] = [2, 0, 15];
/// An older version than these.
const OLDER: [u32; 3] = [2, 0, 14];

/// The words before the command.
pub(super) struct Numactl {
    version: Option<Version>,
    memory: Option<MemoryTarget>,
    cpus: Option<CpuSet>,
    variables: Vec<String>,
}

/// The version of numactl on this machine.
pub(super) fn version_here() -> Option<Version> {
    let text = version::output("numactl", "--version")?;
    if text.contains("unrecognized option") {
        return Some(Version::new(version_of_usage(&text)));
    }
    version::of("numactl")
}

fn version_of_usage(usage: &str) -> &'static [u32] {
    if usage.contains("--weighted-interleave") {
        &WEIGHTED
    } else if usage.contains("--preferred-many") {
        &PREFERRED_MANY
    } else {
        &OLDER
    }
}

impl Numactl {
    pub fn new(version: Option<Version>) -> Self {
        Self { version, memory: None, cpus: None, variables: Vec::new() }
    }

    /// Takes a setting, but not a variable.
    pub fn place(&mut self, inside: &Inside) -> Answer {
        match inside {
            Inside::Memory(target) => self.memory(target),
            Inside::Cpus(cpus) => {
                self.cpus = Some(cpus.clone());
                Answer::Written
            }
            Inside::NoHugePages => Answer::Cannot("no usual command sets it for a program".into()),
            Inside::Variable(..) => Answer::Cannot("numactl sets no variable".into()),
        }
    }

    fn memory(&mut self, target: &MemoryTarget) -> Answer {
        let (option, needed) = match target.mode {
            Mode::WeightedInterleave => ("--weighted-interleave", Some(WEIGHTED)),
            Mode::PreferredMany => ("--preferred-many", Some(PREFERRED_MANY)),
            _ if target.flags & mempolicy::F_NUMA_BALANCING != 0 => {
                ("--balancing", Some(PREFERRED_MANY))
            }
            _ => ("", None),
        };
        let needed = needed.map(|numbers| Version::new(&numbers));
        match (&self.version, needed) {
            (Some(version), Some(needed)) if *version < needed => {
                return Answer::Cannot(format!("numactl {version} has no {option}; {needed} has"));
            }
            (None, Some(needed)) => {
                self.memory = Some(target.clone());
                return Answer::Doubtful(format!("{option} needs numactl {needed}"));
            }
            (Some(_), Some(_)) | (_, None) => self.memory = Some(target.clone()),
        }
        Answer::Written
    }

    /// The words that set memory and CPUs.
    pub fn words(&self) -> Vec<String> {
        let memory = self.memory.as_ref().map(|t| (t.mode, t.flags, &t.nodes));
        placement_words(self.cpus.as_ref(), memory, Reach::Allowed)
    }
}

impl Format for Numactl {
    fn program(&self) -> Option<&'static str> {
        Some("numactl")
    }

    fn add(&mut self, inside: &Inside) -> Answer {
        match inside {
            // Others may be options of env.
            Inside::Variable(name, value) if super::is_identifier(name) => {
                self.variables.push(quoted(&format!("{name}={value}")));
                Answer::Written
            }
            Inside::Variable(..) => Answer::Cannot(super::NO_IDENTIFIER.to_owned()),
            inside => self.place(inside),
        }
    }

    fn instead(&self) -> &'static str {
        "start it by {run} COMMAND"
    }

    fn finish(&self, comments: &str) -> String {
        let mut words = self.words();
        if !self.variables.is_empty() {
            words.push("env".to_owned());
            words.extend(self.variables.iter().cloned());
        }
        words.push("COMMAND".to_owned());
        format!("{comments}{}\n", words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usage_tells_the_least_version() {
        let of = |usage: &str| Version::new(version_of_usage(usage)).to_string();
        assert_eq!(of("numactl: unrecognized option '--version'\nusage: [--membind= ]"), "2.0.14");
        assert_eq!(of("usage: [--preferred-many= | -P <nodes>]"), "2.0.15");
        assert_eq!(of("[--weighted-interleave= | -w] [--preferred-many= | -P]"), "2.0.19");
    }
}

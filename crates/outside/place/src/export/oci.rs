//! A patch of the configuration of an OCI container, as a filter for jq(1): it adds to the list of
//! variables, keeps what else is there, and may hold comments, which JSON has not.
//!
//! Source: the OCI runtime specification, config-linux.md. `linux.memoryPolicy` came with version
//! 1.3.0 (pull request 1282), and runc knows it since 1.4.0 (pull request 4915); an older runc
//! ignores the field without a word. Its modes and flags are the names of set_mempolicy(2).
//! `linux.resources.cpu.cpus` is the cpuset of the container.

use numapilot_sys::mempolicy::{self, Mode};

use super::setting::Inside;
use super::{Answer, Format, Version};
use crate::targets::MemoryTarget;

/// The first runc with `linux.memoryPolicy`.
const MEMORY_POLICY: [u32; 3] = [1, 4, 0];

/// Assignments of the filter.
pub(super) struct Oci {
    version: Option<Version>,
    assignments: Vec<String>,
    variables: Vec<String>,
}

impl Oci {
    pub fn new(version: Option<Version>) -> Self {
        Self { version, assignments: Vec::new(), variables: Vec::new() }
    }

    fn memory(&mut self, target: &MemoryTarget) -> Answer {
        let needed = Version::new(&MEMORY_POLICY);
        if let Some(version) = self.version.as_ref().filter(|version| **version < needed) {
            return Answer::Cannot(format!(
                "runc {version} ignores linux.memoryPolicy, which came with {needed}"
            ));
        }
        let mode = match target.mode {
            Mode::Default => "MPOL_DEFAULT",
            Mode::Local => "MPOL_LOCAL",
            Mode::Preferred => "MPOL_PREFERRED",
            Mode::Bind => "MPOL_BIND",
            Mode::Interleave => "MPOL_INTERLEAVE",
            Mode::PreferredMany => "MPOL_PREFERRED_MANY",
            Mode::WeightedInterleave => "MPOL_WEIGHTED_INTERLEAVE",
        };
        let mut policy = format!("{{\"mode\": \"{mode}\"");
        if !target.nodes.is_empty() {
            policy += &format!(", \"nodes\": \"{}\"", target.nodes);
        }
        if target.flags & mempolicy::F_NUMA_BALANCING != 0 {
            policy += ", \"flags\": [\"MPOL_F_NUMA_BALANCING\"]";
        }
        self.assignments.push(format!(".linux.memoryPolicy = {policy}}}"));
        match self.version {
            Some(_) => Answer::Written,
            None => Answer::Doubtful(format!(
                "linux.memoryPolicy needs runc {needed}; an older one ignores it"
            )),
        }
    }
}

impl Format for Oci {
    fn program(&self) -> Option<&'static str> {
        Some("runc")
    }

    fn add(&mut self, inside: &Inside) -> Answer {
        match inside {
            Inside::Memory(target) => return self.memory(target),
            Inside::Cpus(cpus) => {
                self.assignments.push(format!(".linux.resources.cpu.cpus = \"{cpus}\""));
            }
            Inside::NoHugePages => {
                return Answer::Cannot("the OCI configuration has no word for huge pages".into());
            }
            Inside::Variable(name, value) => {
                self.variables.push(super::json_string(&format!("{name}={value}")));
            }
        }
        Answer::Written
    }

    fn instead(&self) -> &'static str {
        "put {run} in front of process.args; numapilot must be in the image, and its seccomp filter \
         must allow set_mempolicy"
    }

    fn finish(&self, comments: &str) -> String {
        let mut parts = self.assignments.clone();
        if !self.variables.is_empty() {
            let list = self.variables.join(",\n  ");
            parts.push(format!(".process.env += [\n  {list}\n]"));
        }
        if parts.is_empty() {
            parts.push(".".to_owned());
        }
        format!(
            "{comments}# Use: jq -f THIS config.json > new.json && mv new.json config.json\n{}\n",
            parts.join("\n| ")
        )
    }
}

//! A part of a Kubernetes pod.
//!
//! Source: the Kubernetes documentation, "Control CPU Management Policies on the Node" and "Utilizing
//! the NUMA-aware Memory Manager": the kubelet chooses CPUs and nodes, and a pod can name neither.
//! `env` is part of a container; the names are C identifiers in all versions, and `$(` begins a
//! reference to another variable, which `$$(` escapes.

use super::setting::Inside;
use super::{Answer, Format};

/// The variables of the container.
#[derive(Default)]
pub(super) struct Kubernetes {
    variables: Vec<(String, String)>,
}

impl Format for Kubernetes {
    fn program(&self) -> Option<&'static str> {
        None
    }

    fn add(&mut self, inside: &Inside) -> Answer {
        match inside {
            Inside::Variable(name, value) if super::is_identifier(name) => {
                self.variables.push((name.clone(), value.replace("$(", "$$(")));
                Answer::Written
            }
            Inside::Variable(..) => Answer::Cannot(super::NO_IDENTIFIER.to_owned()),
            Inside::Cpus(_) => Answer::Cannot("a pod cannot name CPUs; the kubelet chooses".into()),
            Inside::Memory(_) => Answer::Cannot("a pod has no field for a memory policy".into()),
            Inside::NoHugePages => {
                Answer::Cannot("a pod has no field for transparent huge pages".into())
            }
        }
    }

    fn instead(&self) -> &'static str {
        "put numapilot into the image, add the capability SYS_NICE, and let command begin with {run}"
    }

    fn finish(&self, comments: &str) -> String {
        let mut text = format!(
            "{comments}# Libraries must be in the image, under the same path.\n\
             spec:\n  containers:\n    - name: CONTAINER\n"
        );
        if !self.variables.is_empty() {
            text += "      env:\n";
        }
        for (name, value) in &self.variables {
            // A string of JSON is one of YAML.
            text += &format!(
                "        - name: {name}\n          value: {}\n",
                super::json_string(value)
            );
        }
        text
    }
}

//! A part of a Kubernetes pod.
//!
//! Source: the Kubernetes documentation, "Control CPU Management Policies on the Node" and "Utilizing
//! the NUMA-aware Memory Manager": the kubelet chooses CPUs and nodes, and a pod can name neither.
//! `env` is part of a container; the names are C identifiers in all versions. `$(` begins a
//! reference to another variable, and the kubelet reduces every `$$` to `$` (API reference, EnvVar).
//! What a YAML text may hold as it is: YAML 1.2.2, section 5.1.

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
                self.variables.push((name.clone(), value.replace('$', "$$")));
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
            text += &format!("        - name: {name}\n          value: {}\n", yaml_string(value));
        }
        text
    }
}

/// A string of JSON is one of YAML, but for characters that YAML takes for none or for a line break.
fn yaml_string(text: &str) -> String {
    let mut string = String::new();
    for c in super::json_string(text).chars() {
        match c {
            '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                string += &format!("\\u{:04x}", u32::from(c));
            }
            c if c.is_control() => string += &format!("\\u{:04x}", u32::from(c)),
            c => string.push(c),
        }
    }
    string
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_what_the_kubelet_makes_of_it() {
        let mut pod = Kubernetes::default();
        let value = "$$ $(x) $y $\n\u{1}\u{7f}\u{85}\u{2028}\u{e4}\"\\";
        assert_eq!(pod.add(&Inside::Variable("A".into(), value.into())), Answer::Written);
        let text = pod.finish("");
        let expected = r#"value: "$$$$ $$(x) $$y $$\n\u0001\u007f\u0085\u2028"#.to_owned()
            + "\u{e4}"
            + r#"\"\\""#;
        assert!(text.ends_with(&(expected + "\n")), "{text}");
    }
}

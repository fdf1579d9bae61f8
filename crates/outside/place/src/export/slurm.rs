//! A batch script of Slurm.
//!
//! Source: srun(1). `--mem-bind=mask_mem:MASK` binds the tasks to nodes, and `prefer` makes it a
//! preference; `--cpu-bind=mask_cpu:MASK` binds them to CPUs. They are options of srun and not of
//! the batch script, because tasks are bound by the srun that starts them. A mask is used for all
//! tasks if it is the only one. There is no type that interleaves, and `local` binds to the
//! nodes of the task's CPUs, which is not the policy local. Variables reach the tasks by env(1),
//! because `--export` splits at commas, and because srun itself should not get a malloc.

use numapilot_sys::mempolicy::Mode;
use numapilot_topology::{CpuSet, NodeSet};

use super::setting::Inside;
use super::{Answer, Format};
use crate::shell::quoted;

/// The parts of the script.
#[derive(Default)]
pub(super) struct Slurm {
    options: Vec<String>,
    variables: Vec<String>,
}

impl Format for Slurm {
    fn program(&self) -> Option<&'static str> {
        None
    }

    fn add(&mut self, inside: &Inside) -> Answer {
        match inside {
            Inside::Memory(target) => {
                let binds = match target.mode {
                    Mode::Bind if target.flags == 0 => "mask_mem",
                    Mode::Preferred => "prefer,mask_mem",
                    _ => return Answer::Cannot("slurm has no --mem-bind of this policy".into()),
                };
                let mask = node_mask(&target.nodes);
                self.options.push(format!("--mem-bind={binds}:{mask}"));
            }
            Inside::Cpus(cpus) => {
                self.options.push(format!("--cpu-bind=mask_cpu:{}", cpu_mask(cpus)));
            }
            Inside::NoHugePages => {
                return Answer::Cannot("slurm has no option for huge pages".into());
            }
            // Others may be options of env.
            Inside::Variable(name, value) if super::is_identifier(name) => {
                self.variables.push(quoted(&format!("{name}={value}")));
            }
            Inside::Variable(..) => return Answer::Cannot(super::NO_IDENTIFIER.to_owned()),
        }
        Answer::Written
    }

    fn instead(&self) -> &'static str {
        "start the tasks by srun {run} COMMAND"
    }

    fn finish(&self, comments: &str) -> String {
        let mut text = format!("#!/bin/bash\n{comments}");
        if !self.options.is_empty() {
            text += "# Binding needs TaskPlugin=task/affinity in slurm.conf; without it Slurm \
                     ignores it.\n";
        }
        text += "srun";
        for option in &self.options {
            text += &format!(" {option}");
        }
        if !self.variables.is_empty() {
            text += &format!(" env {}", self.variables.join(" "));
        }
        text + " COMMAND\n"
    }
}

fn node_mask(nodes: &NodeSet) -> String {
    hexadecimal(nodes.as_words())
}

fn cpu_mask(cpus: &CpuSet) -> String {
    hexadecimal(cpus.as_words())
}

/// A mask as Slurm reads it: the lowest bit is number 0.
fn hexadecimal(words: &[u64]) -> String {
    let digits: String = words.iter().rev().map(|word| format!("{word:016x}")).collect();
    let digits = digits.trim_start_matches('0');
    format!("0x{}", if digits.is_empty() { "0" } else { digits })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::MemoryTarget;

    #[test]
    fn the_srun_that_starts_the_tasks_binds_their_memory() {
        let mut script = Slurm::default();
        let nodes = NodeSet::parse_list("1,3").unwrap();
        let bind = Inside::Memory(MemoryTarget { mode: Mode::Bind, flags: 0, nodes });
        assert_eq!(script.add(&bind), Answer::Written);
        let text = script.finish("");
        assert!(text.ends_with("\nsrun --mem-bind=mask_mem:0xa COMMAND\n"), "{text}");
    }

    #[test]
    fn masks_begin_with_the_highest_number() {
        let mask = |text: &str| cpu_mask(&CpuSet::parse_list(text).unwrap());
        assert_eq!(mask("0"), "0x1");
        assert_eq!(mask("0-3,8"), "0x10f");
        assert_eq!(mask("64"), "0x10000000000000000");
        assert_eq!(mask("4,65"), "0x20000000000000010");
        assert_eq!(cpu_mask(&CpuSet::new()), "0x0");
    }
}

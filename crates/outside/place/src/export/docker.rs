//! A command line of Docker; Podman has the same options.
//!
//! Source: docker-container-run(1): `--cpuset-cpus`, `--cpuset-mems`, `--env`. A cpuset of nodes
//! does what the policy bind does. There is no option for other policies: Docker passes no
//! `linux.memoryPolicy` to its runtime. There is none for huge pages of one container either.

use numapilot_sys::mempolicy::Mode;

use super::setting::Inside;
use super::{Answer, Format};
use crate::shell::quoted;

/// The options of `docker run`.
#[derive(Default)]
pub(super) struct Docker {
    options: Vec<String>,
}

impl Format for Docker {
    fn program(&self) -> Option<&'static str> {
        None
    }

    fn add(&mut self, inside: &Inside) -> Answer {
        self.options.push(match inside {
            Inside::Memory(target) if target.mode == Mode::Bind && target.flags == 0 => {
                format!("--cpuset-mems={}", target.nodes)
            }
            Inside::Memory(_) => {
                return Answer::Cannot("docker has no option for this policy".into());
            }
            Inside::Cpus(cpus) => format!("--cpuset-cpus={cpus}"),
            Inside::NoHugePages => {
                return Answer::Cannot("docker has no option for huge pages".into());
            }
            Inside::Variable(name, value) => {
                let word = quoted(&format!("{name}={value}"));
                format!("--env {word}")
            }
        });
        Answer::Written
    }

    fn instead(&self) -> &'static str {
        "put numapilot into the image, give --cap-add SYS_NICE --init, and start {run} COMMAND"
    }

    fn finish(&self, comments: &str) -> String {
        let options: String = self.options.iter().map(|option| format!(" {option}")).collect();
        format!(
            "{comments}# Libraries must be in the image, under the same path.\n\
             docker run{options} IMAGE COMMAND\n"
        )
    }
}

//! A shell script that sets the variables and becomes the command in its arguments.
//!
//! Source: IEEE Std 1003.1, "Shell Command Language".

use super::numactl::Numactl;
use super::setting::Inside;
use super::{Answer, Format, Version};
use crate::shell::quoted;

/// The lines of the script.
pub(super) struct Shell {
    numactl: Numactl,
    variables: Vec<String>,
}

impl Shell {
    pub fn new(version: Option<Version>) -> Self {
        Self { numactl: Numactl::new(version), variables: Vec::new() }
    }
}

impl Format for Shell {
    fn program(&self) -> Option<&'static str> {
        self.numactl.program()
    }

    fn add(&mut self, inside: &Inside) -> Answer {
        match inside {
            Inside::Variable(name, value) if super::is_identifier(name) => {
                self.variables.push(format!("{name}={}", quoted(value)));
                Answer::Written
            }
            Inside::Variable(..) => Answer::Cannot(super::NO_IDENTIFIER.to_owned()),
            inside => self.numactl.place(inside),
        }
    }

    fn instead(&self) -> &'static str {
        self.numactl.instead()
    }

    fn finish(&self, comments: &str) -> String {
        let words = self.numactl.words();
        let mut line = String::new();
        let mut exports = String::new();
        for variable in &self.variables {
            if words.is_empty() {
                exports += &format!("export {variable}\n");
            } else {
                line += &format!("{variable} ");
            }
        }
        // The variables are the command's: numactl must not load its libraries, nor be looked for in
        // its PATH.
        let env = if line.is_empty() { "" } else { "env " };
        let words: String = words.iter().map(|word| format!("{word} ")).collect();
        format!(
            "#!/bin/bash\n{comments}# Use: bash THIS COMMAND ARGUMENT...\n{exports}\
             exec {words}{env}{line}\"$@\"\n"
        )
    }
}

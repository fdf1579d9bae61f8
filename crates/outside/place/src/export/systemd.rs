//! A drop-in of a systemd unit.
//!
//! Source: systemd.exec(5). `NUMAPolicy=` and `NUMAMask=` exist since version 243, with the types
//! default, preferred, bind, interleave and local (systemd pull request 12764); preferred-many and
//! weighted-interleave since version 262 (pull request 42688). There is no word for sampling by
//! AutoNUMA. `MemoryTHP=` exists since version 260, with the value `disable` for
//! `PR_SET_THP_DISABLE` (pull request 39085). An older systemd writes "Unknown key" to its log and
//! starts the service without the setting. Lists of CPUs and nodes are merged with those of the unit,
//! unless an empty one is before them. Quoting: systemd.syntax(7) and systemd.unit(5)
//! (specifiers).

use numapilot_sys::mempolicy::Mode;

use super::setting::Inside;
use super::{Answer, Format, Version};
use crate::targets::MemoryTarget;
use crate::visible::is_obeyed;

/// The first versions with a setting.
const NUMA_POLICY: u32 = 243;
const NEWER_POLICIES: u32 = 262;
const MEMORY_THP: u32 = 260;

/// The lines of the section `[Service]`.
pub(super) struct Systemd {
    version: Option<Version>,
    lines: Vec<String>,
}

impl Systemd {
    pub fn new(version: Option<Version>) -> Self {
        Self { version, lines: Vec::new() }
    }

    /// Writes lines that need a version.
    fn since(&mut self, needed: u32, what: &str, lines: Vec<String>) -> Answer {
        match &self.version {
            Some(version) if *version < Version::new(&[needed]) => {
                return Answer::Cannot(format!(
                    "systemd {version} does not know {what}, which came with {needed}"
                ));
            }
            Some(_) => self.lines.extend(lines),
            None => {
                self.lines.extend(lines);
                return Answer::Doubtful(format!(
                    "{what} needs systemd {needed}; an older one ignores it"
                ));
            }
        }
        Answer::Written
    }

    fn memory(&mut self, target: &MemoryTarget) -> Answer {
        if target.flags != 0 {
            return Answer::Cannot(
                "systemd cannot let AutoNUMA sample memory with a policy".into(),
            );
        }
        let (policy, needed) = match target.mode {
            Mode::Default => ("default", NUMA_POLICY),
            Mode::Local => ("local", NUMA_POLICY),
            Mode::Preferred => ("preferred", NUMA_POLICY),
            Mode::Bind => ("bind", NUMA_POLICY),
            Mode::Interleave => ("interleave", NUMA_POLICY),
            Mode::PreferredMany => ("preferred-many", NEWER_POLICIES),
            Mode::WeightedInterleave => ("weighted-interleave", NEWER_POLICIES),
        };
        let mut lines = vec![format!("NUMAPolicy={policy}")];
        if !target.nodes.is_empty() {
            lines.extend(["NUMAMask=".to_owned(), format!("NUMAMask={}", target.nodes)]);
        }
        self.since(needed, &format!("NUMAPolicy={policy}"), lines)
    }
}

impl Format for Systemd {
    fn program(&self) -> Option<&'static str> {
        Some("systemd")
    }

    fn add(&mut self, inside: &Inside) -> Answer {
        match inside {
            Inside::Memory(target) => self.memory(target),
            Inside::Cpus(cpus) => {
                self.lines.extend(["CPUAffinity=".to_owned(), format!("CPUAffinity={cpus}")]);
                Answer::Written
            }
            Inside::NoHugePages => {
                self.since(MEMORY_THP, "MemoryTHP=", vec!["MemoryTHP=disable".to_owned()])
            }
            Inside::Variable(name, value) if super::is_identifier(name) => {
                self.lines.push(format!("Environment={}", quoted(&format!("{name}={value}"))));
                Answer::Written
            }
            Inside::Variable(..) => Answer::Cannot(super::NO_IDENTIFIER.to_owned()),
        }
    }

    fn instead(&self) -> &'static str {
        "start the service by ExecStart={run} COMMAND"
    }

    fn finish(&self, comments: &str) -> String {
        let lines: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        format!("{comments}# Into a drop-in of the unit: systemctl edit UNIT\n[Service]\n{lines}")
    }
}

/// A word in double quotes. `%` begins a specifier.
fn quoted(text: &str) -> String {
    let mut word = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => word.extend(['\\', c]),
            '%' => word.push_str("%%"),
            '\n' => word.push_str("\\n"),
            '\t' => word.push_str("\\t"),
            c if c.is_ascii_control() => word.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if is_obeyed(c) => word.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => word.push(c),
        }
    }
    word.push('"');
    word
}

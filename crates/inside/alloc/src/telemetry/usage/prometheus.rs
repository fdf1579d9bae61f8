//! Prometheus' text exposition format, version 0.0.4, for the text file collector of its node
//! exporter, or for a program that serves its own metrics.
//!
//! Every sample has the process number and the command as labels, because the collector refuses all
//! files of its directory if two have a sample of the same name and labels.

use core::fmt::{self, Display, Write};

use numapilot_syscall::caller::process_id;
use numapilot_syscall::file::read_file;

use super::figures::{CLASS, NODE};
use super::{Usage, sized};
use crate::os::output::Output;

/// Writes each metric with its samples by node, and by object size.
pub fn write(usage: &Usage, to: &mut Output<'_>) -> fmt::Result {
    let mut name = [0; COMMAND];
    let of = Labels { pid: process_id(), command: command(&mut name) };
    for figure in &NODE {
        head(to, format_args!("{}", figure.name), figure.help)?;
        for node in usage.iter() {
            let (name, place, value) = (figure.name, node.place, (figure.of)(node));
            write!(to, "numapilot_alloc_{name}{{")?;
            of.write(to)?;
            writeln!(to, r#"node="{place}"}} {value}"#)?;
        }
    }
    for figure in &CLASS {
        head(to, format_args!("class_{}", figure.name), figure.help)?;
        for node in usage.iter() {
            for (size, class) in sized(&node.classes) {
                let (name, place, value) = (figure.name, node.place, (figure.of)(class));
                write!(to, "numapilot_alloc_class_{name}{{")?;
                of.write(to)?;
                writeln!(to, r#"node="{place}",object_bytes="{size}"}} {value}"#)?;
            }
        }
    }
    Ok(())
}

fn head(to: &mut Output<'_>, name: impl Display, help: &str) -> fmt::Result {
    writeln!(to, "# HELP numapilot_alloc_{name} {help}")?;
    writeln!(to, "# TYPE numapilot_alloc_{name} gauge")
}

/// Room for the longest name of a thread (proc_pid_comm(5)), with its end of line.
const COMMAND: usize = 16;

/// The name of the process's first thread, in complete characters only, because the kernel cuts it
/// anywhere. Empty if `/proc` does not show it.
fn command(buffer: &mut [u8; COMMAND]) -> &str {
    let name = read_file(c"/proc/self/comm", buffer).unwrap_or_default();
    let name = name.strip_suffix(b"\n").unwrap_or(name);
    match str::from_utf8(name) {
        Ok(name) => name,
        Err(error) => str::from_utf8(&name[..error.valid_up_to()]).unwrap_or_default(),
    }
}

/// Labels that distinguish the samples of one process from another's.
struct Labels<'a> {
    pid: i32,
    command: &'a str,
}

impl Labels<'_> {
    /// Writes both, with the comma before the next one.
    fn write(&self, to: &mut impl Write) -> fmt::Result {
        write!(to, r#"pid="{}",command=""#, self.pid)?;
        for character in self.command.chars() {
            match character {
                '\\' => to.write_str("\\\\")?,
                '"' => to.write_str("\\\"")?,
                '\n' => to.write_str("\\n")?,
                other => to.write_char(other)?,
            }
        }
        to.write_str("\",")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::String;

    use super::*;

    #[test]
    fn labels_are_escaped() {
        let of = |command| {
            let mut text = String::new();
            Labels { pid: 7, command }.write(&mut text).unwrap();
            text
        };
        assert_eq!(of("ls"), r#"pid="7",command="ls","#);
        assert_eq!(of("a\"b\\c\nd"), r#"pid="7",command="a\"b\\c\nd","#);
    }
}

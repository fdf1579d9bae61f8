//! JSON (RFC 8259): one document on one line, so that several can share a file.

use core::fmt::{self, Write};

use numapilot_syscall::caller::process_id;

use super::figures::{CLASS, NODE};
use super::{Place, Usage, sized};
use crate::os::output::Output;

/// Writes `{"allocator":..,"total":{..},"nodes":[{..,"classes":[{..}]}]}`.
pub fn write(usage: &Usage, to: &mut Output<'_>) -> fmt::Result {
    let version = env!("CARGO_PKG_VERSION");
    let process = process_id();
    write!(to, r#"{{"allocator":"numapilot","version":"{version}","process":{process}"#)?;
    write!(to, r#","total":{{"#)?;
    for (index, figure) in NODE.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(to, r#"{comma}"{}":{}"#, figure.name, usage.sum(figure.of))?;
    }
    write!(to, r#"}},"nodes":["#)?;
    for (number, node) in usage.iter().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        write!(to, r#"{comma}{{"number":{number},"id":"#)?;
        match node.place {
            Place::Node(id) => write!(to, "{id}")?,
            Place::Unknown | Place::Interleaved => write!(to, "null")?,
        }
        write!(to, r#","interleaved":{}"#, node.place == Place::Interleaved)?;
        for figure in &NODE {
            write!(to, r#","{}":{}"#, figure.name, (figure.of)(node))?;
        }
        write!(to, r#","classes":["#)?;
        for (index, (size, class)) in sized(&node.classes).enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(to, r#"{comma}{{"object_bytes":{size}"#)?;
            for figure in &CLASS {
                write!(to, r#","{}":{}"#, figure.name, (figure.of)(class))?;
            }
            write!(to, "}}")?;
        }
        write!(to, "]}}")?;
    }
    writeln!(to, "]}}")
}

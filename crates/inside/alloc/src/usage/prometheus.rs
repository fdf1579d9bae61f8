//! Prometheus' text exposition format, version 0.0.4: for the text file collector of its
//! node exporter, or for a program that serves its own metrics.

use core::fmt::{self, Display, Write};

use crate::output::Output;
use crate::usage::figures::{CLASS, NODE};
use crate::usage::{Usage, sized};

/// Writes each metric with its samples by node, and by size of objects.
pub fn write(usage: &Usage, to: &mut Output<'_>) -> fmt::Result {
    for figure in &NODE {
        head(to, format_args!("{}", figure.name), figure.help)?;
        for node in usage.iter() {
            let (name, place, value) = (figure.name, node.place, (figure.of)(node));
            writeln!(to, r#"numapilot_alloc_{name}{{node="{place}"}} {value}"#)?;
        }
    }
    for figure in &CLASS {
        head(to, format_args!("class_{}", figure.name), figure.help)?;
        for node in usage.iter() {
            for (size, class) in sized(&node.classes) {
                let (name, place, value) = (figure.name, node.place, (figure.of)(class));
                write!(to, r#"numapilot_alloc_class_{name}{{node="{place}","#)?;
                writeln!(to, r#"object_bytes="{size}"}} {value}"#)?;
            }
        }
    }
    Ok(())
}

fn head(to: &mut Output<'_>, name: impl Display, help: &str) -> fmt::Result {
    writeln!(to, "# HELP numapilot_alloc_{name} {help}")?;
    writeln!(to, "# TYPE numapilot_alloc_{name} gauge")
}

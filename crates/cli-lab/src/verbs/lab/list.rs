//! `numapilot lab list`: the known machines, and how many of their CPUs are emulated.

use std::io::Write;
use std::process::ExitCode;

use numapilot_cli_kit::terminal::{Terminal, bytes, table, trimmed, wrap};
use numapilot_lab::Shape;
use numapilot_topology::description::{SHIPPED, named};
use serde::Serialize;

/// Arguments of `lab list`.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A machine that can be emulated.
#[derive(Serialize)]
struct Entry {
    name: &'static str,
    title: String,
    nodes: usize,
    cpus: usize,
    memory_bytes: u64,
    lab_cpus: u32,
    lab_memory_bytes: u64,
    cache_scale: Option<u32>,
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let entries = SHIPPED.iter().map(|(name, _)| entry(name)).collect::<Result<Vec<_>, _>>()?;
        if self.json {
            terminal.json(&entries)?;
            return Ok(ExitCode::SUCCESS);
        }
        let header = ["name", "nodes", "CPUs", "memory", "in the lab", ""];
        let mut rows = table(&header, &[1, 2, 3, 4, 5]);
        for entry in &entries {
            rows.add_row([
                entry.name.to_owned(),
                entry.nodes.to_string(),
                entry.cpus.to_string(),
                bytes(entry.memory_bytes),
                format!("{} CPUs", entry.lab_cpus),
                bytes(entry.lab_memory_bytes),
            ]);
        }
        let mut out = terminal.out();
        let rows = trimmed(&rows);
        let mut rows = rows.lines();
        writeln!(out, "{}", rows.next().unwrap_or_default())?;
        for (row, entry) in rows.zip(&entries) {
            writeln!(out, "{row}")?;
            write!(out, "{}", wrap(&entry.title, terminal.width(), "     ", "     "))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn entry(name: &'static str) -> anyhow::Result<Entry> {
    let (_, description) = named(name)?;
    let machine = description.machine(name)?;
    let shape = Shape::new(name, &description)?;
    Ok(Entry {
        name,
        nodes: machine.nodes.len(),
        cpus: machine.cpus.len(),
        memory_bytes: machine.nodes.iter().map(|node| node.memory_bytes).sum(),
        lab_cpus: shape.cpus(),
        lab_memory_bytes: shape.memory_bytes(),
        cache_scale: description.lab.map(|lab| lab.cache_scale),
        title: description.title,
    })
}

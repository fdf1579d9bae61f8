//! `numapilot lab probe`: makes accesses of known cost. It runs in the guest to validate the timing
//! model (`numapilot study lab`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Subcommand;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_cli_kit::units::size;
use numapilot_observe::lab::LabPmu;
use numapilot_study::lab::{Marks, Placement, Probe};
use numapilot_sys::mark;
use numapilot_sys::mempolicy::Mode;
use numapilot_topology::{Machine, NodeId, NodeSet, parse_nodes};

/// Arguments of `lab probe`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
    /// Size of the memory that each part accesses.
    #[arg(long, global = true, value_name = "SIZE", default_value = "2M", value_parser = size)]
    bytes: u64,
}

/// The subcommands.
#[derive(Subcommand)]
enum What {
    /// Follow a cycle through memory of several nodes: regions chase-FROM-TO.
    Chase {
        /// Node of the CPU.
        #[arg(long, value_name = "NODE")]
        from: u32,
        /// Nodes of the memory.
        #[arg(long, value_name = "NODES")]
        to: String,
        /// Number of loads from each node.
        #[arg(long, value_name = "N", default_value_t = 20_000)]
        loads: usize,
    },
    /// Read words of several nodes at random, with independent addresses: regions random-FROM-TO.
    Random {
        /// Node of the CPU.
        #[arg(long, value_name = "NODE")]
        from: u32,
        /// Nodes of the memory.
        #[arg(long, value_name = "NODES")]
        to: String,
        /// Number of loads from each node.
        #[arg(long, value_name = "N", default_value_t = 100_000)]
        loads: usize,
    },
    /// Read memory of several nodes in order with the CPUs of one node: regions read-FROM-TO.
    Read {
        /// Node of the CPUs.
        #[arg(long, value_name = "NODE")]
        from: u32,
        /// Nodes of the memory.
        #[arg(long, value_name = "NODES")]
        to: String,
        /// Number of CPUs that read (default: all of the node).
        #[arg(long, value_name = "N")]
        cpus: Option<usize>,
    },
    /// Follow a cycle that another CPU has just written, in memory of the node of either CPU:
    /// regions transfer-FROM-TO-HOME.
    Transfer {
        /// Node of the CPU that writes.
        #[arg(long, value_name = "NODE")]
        from: u32,
        /// Nodes of the CPUs that read.
        #[arg(long, value_name = "NODES")]
        to: String,
        /// How often the cycle is written and followed.
        #[arg(long, value_name = "N", default_value_t = 20)]
        rounds: usize,
    },
    /// Compute STREAM's triad with all CPUs of several nodes: regions triad-PLACEMENT.
    Triad {
        /// Nodes of the CPUs.
        #[arg(long, value_name = "NODES")]
        from: String,
        /// Where the arrays are: local, interleave, or a node.
        #[arg(long, value_name = "PLACEMENT,...", value_delimiter = ',', required = true)]
        place: Vec<Placement>,
    },
    /// Read a node's memory with all its CPUs at several rates: regions load-1, load-2 and so on.
    Load {
        /// The node.
        #[arg(long, value_name = "NODE")]
        from: u32,
        /// Iterations of an empty loop after each line, one number for each rate.
        #[arg(long, value_name = "N,...", value_delimiter = ',', required = true)]
        pauses: Vec<u32>,
    },
    /// Touch pages under every policy, then read one line of each page: regions first-touch,
    /// interleave, bind and weighted. Prints the pages by node as JSON.
    Pages,
}

/// Marks regions as `lab mark` does, but without a separate process.
struct Mailbox {
    lab: LabPmu,
}

impl Marks for Mailbox {
    fn begin(&self, name: &str) {
        self.lab.pmu().set_mark_name(name);
        mark::begin_named();
    }

    fn end(&self, name: &str) {
        self.lab.pmu().set_mark_name(name);
        mark::end_named();
    }
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let Some(lab) = LabPmu::find()? else {
            bail!(
                "this machine is not emulated, or counts nothing; run it with numapilot lab run, \
                 without --no-model"
            );
        };
        // The mailbox has room for the name of one mark only.
        let file = File::open(lab.path()).context("cannot open the lab's PMU")?;
        file.lock().context("cannot lock the lab's PMU")?;
        let machine = numapilot_topology::read("/".as_ref())?;
        let bytes = usize::try_from(self.bytes).context("more memory than can be addressed")?;
        let probe = Probe { machine: &machine, marks: &Mailbox { lab }, bytes };
        match self.what {
            What::Chase { from, to, loads } => {
                for to in nodes(&machine, &to)?.iter() {
                    probe.chase(NodeId(from), to, loads)?;
                }
            }
            What::Random { from, to, loads } => {
                for to in nodes(&machine, &to)?.iter() {
                    probe.random(NodeId(from), to, loads)?;
                }
            }
            What::Read { from, to, cpus } => {
                for to in nodes(&machine, &to)?.iter() {
                    let name = format!("read-{from}-{to}");
                    probe.read(&name, NodeId(from), to, cpus.unwrap_or(usize::MAX), 0)?;
                }
            }
            What::Transfer { from, to, rounds } => {
                let from = NodeId(from);
                for to in nodes(&machine, &to)?.iter() {
                    for home in BTreeSet::from([from, to]) {
                        probe.transfer(from, to, home, rounds)?;
                    }
                }
            }
            What::Triad { from, place } => {
                let from = nodes(&machine, &from)?;
                for placement in place {
                    probe.triad(&from, placement)?;
                }
            }
            What::Load { from, pauses } => {
                for (i, pause) in pauses.into_iter().enumerate() {
                    let name = format!("load-{}", i + 1);
                    probe.read(&name, NodeId(from), NodeId(from), usize::MAX, pause)?;
                }
            }
            What::Pages => terminal.json(&pages(&machine, &probe)?)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn nodes(machine: &Machine, text: &str) -> anyhow::Result<NodeSet> {
    Ok(parse_nodes(text, machine)?)
}

/// The number of pages on each node under each policy.
fn pages(
    machine: &Machine,
    probe: &Probe<'_>,
) -> anyhow::Result<BTreeMap<&'static str, BTreeMap<u32, u64>>> {
    let all = machine.memory_nodes();
    let last: NodeSet = all.iter().last().into_iter().collect();
    let policies = [
        ("first-touch", Mode::Default, NodeSet::new()),
        ("interleave", Mode::Interleave, all.clone()),
        ("bind", Mode::Bind, last),
        ("weighted", Mode::WeightedInterleave, all),
    ];
    let mut counts = BTreeMap::new();
    for (name, mode, nodes) in policies {
        counts.insert(name, probe.pages(name, mode, &nodes)?);
    }
    Ok(counts)
}

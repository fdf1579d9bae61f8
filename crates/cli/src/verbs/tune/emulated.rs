//! `tune --lab MACHINE`: the emulated machine on which plans are measured.

use std::ffi::OsString;
use std::num::NonZeroUsize;

use anyhow::{Context, bail};
use numapilot_cli_kit::guests::allowed_here;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_place::{Plan, Targets, allocators, own_program};
use numapilot_topology::description::{machine_named, named};
use numapilot_topology::{Cpu, CpuId, Machine};
use numapilot_tune::run::Emulated;
use numapilot_tune::space::{Facts, Space};

use super::added_plans::added_plans;
use super::args::Args;
use super::same_malloc::refuse_same_malloc;
use crate::elsewhere::PROGRAM;

/// The machine of `--lab`.
pub fn machine(args: &Args) -> anyhow::Result<Option<(Emulated, Machine)>> {
    let Some(name) = &args.measure.lab else { return Ok(None) };
    if args.measure.limit.iter().any(|limit| limit.rss_bytes.is_some()) {
        bail!("--limit rss=SIZE: the memory of a program on an emulated machine is not measured");
    }
    let machine = guest(name).with_context(|| format!("--lab {name}"))?;
    let lab = own_program(PROGRAM).with_context(|| {
        format!(
            "{PROGRAM} is not installed; it emulates machines: install the package {PROGRAM}, or \
             build it with `make build`"
        )
    })?;
    let scale = args.measure.time_scale.map(|n| OsString::from(format!("--time-scale={n}")));
    let included = args.measure.include.iter().cloned().chain(args.server.programs());
    let included = included.flat_map(|what| ["--include".into(), what]);
    let emulated = Emulated {
        lab,
        machine: name.clone(),
        options: scale.into_iter().chain(included).collect(),
        clock_rate: f64::from(args.measure.time_scale.unwrap_or(1)),
        // What --prepare and --cleanup change must be there for one run only.
        jobs: match (&args.measure.prepare, &args.measure.cleanup) {
            (None, None) => allowed_here(),
            _ => NonZeroUsize::MIN,
        },
        directory: args.state()?,
    };
    Ok(Some((emulated, machine)))
}

/// The machine with the CPUs that the guest has, numbered as there: a node has as many as the lab
/// emulates.
fn guest(name: &str) -> anyhow::Result<Machine> {
    let (_, description) = named(name)?;
    let scaled = description.lab.as_ref().map(|lab| lab.cpus_per_node);
    let mut machine = machine_named(name)?;
    let mut next: u32 = 0;
    let mut cpus = Vec::new();
    for node in machine.nodes.iter_mut().filter(|node| !node.cpus.is_empty()) {
        let first = next;
        next += scaled.unwrap_or(node.cpus.len() as u32);
        let own: Vec<CpuId> = (first..next).map(CpuId).collect();
        let of_node = machine.cpus.iter().filter(|cpu| cpu.node == Some(node.id)).cycle();
        cpus.extend(of_node.zip(&own).map(|(cpu, &id)| Cpu {
            id,
            siblings: [id].into_iter().collect(),
            ..cpu.clone()
        }));
        node.cpus = own.into_iter().collect();
    }
    machine.allowed.cpus = cpus.iter().map(|cpu| cpu.id).collect();
    machine.cpus = cpus;
    Ok(machine)
}

/// The search space on an emulated machine. As root in the guest, every plan can be applied that the
/// machine has the CPUs and nodes for, and this host the allocator.
pub fn space(terminal: &Terminal, args: &Args, machine: &Machine) -> anyhow::Result<Space> {
    let applies = |plan: &Plan| {
        Targets::of(plan, machine).map_err(|error| error.to_string())?;
        allocators::find(&plan.allocator).map_err(|error| error.to_string()).map(drop)
    };
    let extras = added_plans(terminal, &args.space.plans, applies)?;
    if args.space.only_plans {
        return Ok(Space::of_plans(extras));
    }
    let mut of_program = machine.clone();
    args.server.narrow(&mut of_program)?;
    let differs = |plan: &Plan| {
        refuse_same_malloc(plan, args.command())?;
        applies(plan)
    };
    Ok(Space::new(&Facts::of_emulated(&of_program), &args.space.factors, extras, differs))
}

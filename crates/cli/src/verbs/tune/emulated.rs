//! `tune --lab MACHINE`: the emulated machine on which plans are measured.

use std::ffi::OsString;
use std::num::NonZeroUsize;

use anyhow::{Context, bail};
use numapilot_cli_kit::guests::allowed_here;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_place::{Plan, Targets, allocators, own_program};
use numapilot_topology::Machine;
use numapilot_topology::description::machine_named;
use numapilot_tune::run::Emulated;
use numapilot_tune::space::{Facts, Space};

use super::added_plans::added_plans;
use super::args::Args;
use crate::elsewhere::PROGRAM;

/// The machine of `--lab`.
pub fn machine(args: &Args) -> anyhow::Result<Option<(Emulated, Machine)>> {
    let Some(name) = &args.measure.lab else { return Ok(None) };
    if args.measure.limit.iter().any(|limit| limit.rss_bytes.is_some()) {
        bail!("--limit rss=SIZE: the memory of a program on an emulated machine is not measured");
    }
    let machine = machine_named(name).with_context(|| format!("--lab {name}"))?;
    let lab = own_program(PROGRAM).with_context(|| {
        format!(
            "{PROGRAM} is not installed; it emulates machines: install the package {PROGRAM}, or \
             build it with `make build`"
        )
    })?;
    let scale = args.measure.time_scale.map(|n| OsString::from(format!("--time-scale={n}")));
    let included = args.measure.include.iter().flat_map(|what| ["--include".into(), what.clone()]);
    let emulated = Emulated {
        lab,
        machine: name.clone(),
        options: scale.into_iter().chain(included).collect(),
        // What --prepare and --cleanup change must be there for one run only.
        jobs: match (&args.measure.prepare, &args.measure.cleanup) {
            (None, None) => allowed_here(),
            _ => NonZeroUsize::MIN,
        },
        directory: args.files.state(args.command(), "", Some(name))?,
    };
    Ok(Some((emulated, machine)))
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
    Ok(Space::new(&Facts::of_emulated(machine), &args.space.factors, extras, applies))
}

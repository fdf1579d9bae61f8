//! `tune --lab MACHINE`: the emulated machine on which plans are measured.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::thread;

use anyhow::{Context, bail};
use numapilot_place::own_program;
use numapilot_topology::description::machine_named;
use numapilot_tune::run::Emulated;
use numapilot_tune::space::Facts;
use procfs::{Current, Meminfo};

use super::args::Args;
use crate::elsewhere::PROGRAM;

/// Memory that a guest may take.
const GUEST_BYTES: u64 = 4 << 30;

/// The machine of `--lab`, and what its plans can be made of.
pub fn machine(args: &Args) -> anyhow::Result<Option<(Emulated, Facts)>> {
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
    let emulated = Emulated {
        lab,
        machine: name.clone(),
        options: scale.into_iter().collect(),
        // What --prepare changes must be there for one run only.
        jobs: if args.measure.prepare.is_some() { NonZeroUsize::MIN } else { jobs() },
        directory: args.files.state(&args.command, Some(name))?,
    };
    Ok(Some((emulated, Facts::of_emulated(&machine))))
}

/// Guests that the CPUs and the free memory of this host allow: one thread runs each.
fn jobs() -> NonZeroUsize {
    let cpus = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let free = Meminfo::current().ok().and_then(|memory| memory.mem_available).unwrap_or(0);
    let room = usize::try_from(free / GUEST_BYTES).unwrap_or(usize::MAX);
    NonZeroUsize::new(cpus.get().min(room)).unwrap_or(NonZeroUsize::MIN)
}

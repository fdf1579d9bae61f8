//! The settings of a plan as launchers need them: node and CPU numbers, and variables.

use std::ffi::OsStr;
use std::path::Path;

use numapilot_observe::AutoNuma;
use numapilot_sys::mempolicy::Mode;
use numapilot_topology::CpuSet;

use crate::allocators::{Found, GLIBC_HUGE_PAGES, HugePages};
use crate::daemons::{EXCLUDES_THREADS, ONE_OF_THE_TWO, commands};
use crate::environment::{Environment, HugePageRequest};
use crate::plan::{AllocatorChoice, Daemons, NumaBalancing, Plan, Thp};
use crate::prepare::kernel::not_sampled;
use crate::prepare::memory::mode_name;
use crate::targets::{MemoryTarget, Targets};
use crate::threads::Placement;
use crate::{Note, PlaceError};

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    /// One that a launcher may be able to make.
    Inside(Inside),
    /// One that no launcher can make for a program, or not as completely as numapilot.
    Outside(Note),
}

/// A setting of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    /// Its memory policy.
    Memory(MemoryTarget),
    /// The CPUs on which it may run.
    Cpus(CpuSet),
    /// It gets no transparent huge pages.
    NoHugePages,
    /// An environment variable.
    Variable(String, String),
}

impl Setting {
    /// The user's name of the setting.
    pub fn subject(&self) -> String {
        match self {
            Self::Inside(Inside::Memory(target)) => {
                let name = format!("memory {} {}", mode_name(target.mode), target.nodes);
                name.trim_end().to_owned()
            }
            Self::Inside(Inside::Cpus(cpus)) => format!("CPUs {cpus}"),
            Self::Inside(Inside::NoHugePages) => "thp never".to_owned(),
            Self::Inside(Inside::Variable(name, _)) => format!("variable {name}"),
            Self::Outside(note) => note.subject.clone(),
        }
    }
}

/// The settings of a plan. `bind` is the library that places threads, if it is installed.
///
/// # Errors
/// [`PlaceError`] for an invalid variable, or a library that cannot be preloaded.
pub(super) fn settings(
    plan: &Plan,
    targets: &Targets,
    allocator: Option<&Found>,
    bind: Option<&Path>,
) -> Result<Vec<Setting>, PlaceError> {
    let mut environment = Environment::alone(&plan.env)?;
    let mut settings = Vec::new();
    settings.extend(targets.memory.clone().map(Inside::Memory));
    settings.extend(targets.cpus.clone().map(Inside::Cpus));
    let mut outside = Vec::new();
    match plan.thp {
        Thp::Inherit => {}
        Thp::Never => settings.push(Inside::NoHugePages),
        Thp::Always => {
            let switch = allocator.map_or(GLIBC_HUGE_PAGES, |found| {
                found.known.map_or(HugePages::NoSwitch, |known| known.huge_pages)
            });
            outside.push(huge_pages(environment.huge_pages(switch)));
        }
    }
    if plan.numa_balancing == NumaBalancing::On {
        outside.push(balancing());
    }
    if plan.daemons != Daemons::None {
        outside.push(daemons(plan.daemons));
        if plan.daemons.verbs().contains(&"cores") && !targets.order.is_empty() {
            outside.push(Note::new("daemons cores", EXCLUDES_THREADS, ONE_OF_THE_TWO));
        }
    }
    let mode = targets.memory.as_ref().map(|target| target.mode);
    if plan.memory.balancing && !matches!(mode, None | Some(Mode::Bind | Mode::PreferredMany)) {
        outside.push(not_sampled());
    }
    match allocator {
        Some(found) => environment.preload(&found.path)?,
        None if plan.allocator != AllocatorChoice::Inherit => {
            environment.preload_last(crate::allocators::C_LIBRARY);
        }
        None => {}
    }
    if !targets.order.is_empty() {
        let placement = Placement::with_library(targets.order.clone(), bind);
        for (name, value) in placement.variables(|name| environment.has(name)) {
            environment.set(name, value);
        }
        if let Some(library) = placement.library() {
            environment.preload(library)?;
        }
        outside.push(threads(placement.library().is_some()));
    }
    let text = |text: &OsStr| text.to_string_lossy().into_owned();
    let variables = environment.changes().map(|(k, v)| Inside::Variable(text(k), text(v)));
    settings.extend(variables);
    let outside = outside.into_iter().map(Setting::Outside);
    Ok(settings.into_iter().map(Setting::Inside).chain(outside).collect())
}

fn huge_pages(request: HugePageRequest) -> Note {
    let mut cause = "the kernel has it only for the whole machine".to_owned();
    match request {
        HugePageRequest::NoSwitch => {}
        HugePageRequest::Made => {
            cause += "; the malloc asks for huge pages by a variable, which has an effect on a \
                      machine set to madvise";
        }
        HugePageRequest::UpTo(variable) => {
            cause += &format!(
                "; the plan's own {variable} decides whether the malloc asks for huge pages on a \
                 machine set to madvise"
            );
        }
    }
    let remedy =
        "set it once for the machine: echo always > /sys/kernel/mm/transparent_hugepage/enabled";
    Note::new("thp always", cause, remedy)
}

fn balancing() -> Note {
    let command = AutoNuma::read().unwrap_or(AutoNuma(0)).on().command();
    Note::new(
        "numa-balancing on",
        "the kernel has it only for the whole machine",
        format!("set it once for the machine: {command}"),
    )
}

fn daemons(daemons: Daemons) -> Note {
    let commands: Vec<String> = commands(daemons.verbs(), "--unit NAME").collect();
    Note::new(
        format!("daemons {}", daemons.name()),
        "they run beside the program",
        format!("start them as well: {} (-p PID for a process)", commands.join(" and ")),
    )
}

/// Source: docs/src/threads.md; the occupancy table of a run exists only under `numapilot run`.
fn threads(has_library: bool) -> Note {
    let (cause, remedy) = if has_library {
        (
            "each process places its threads by itself, from the first CPU on, and a static program \
             not at all",
            "for a program of several processes, start it by numapilot run",
        )
    } else {
        (
            "libnumapilot_bind.so, which places threads, is not installed here; only OpenMP and Go \
             programs place their threads",
            "install it next to numapilot, in ../lib/numapilot, or name its directory in \
             $NUMAPILOT_LIB_DIR",
        )
    };
    Note::new("threads", cause, remedy)
}

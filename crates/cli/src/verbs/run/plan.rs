//! The options that make a plan: numactl's and ours, over a profile.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use numapilot_place::journal::Setting;
use numapilot_place::{
    AllocatorChoice, MemoryMode, MemoryPolicy, NumaBalancing, Plan, Thp, ThreadPlacement,
};

/// What a program is run under.
#[derive(clap::Args, Debug, Default)]
pub struct PlanArgs {
    /// Take the plan from FILE; options given here come on top.
    #[arg(long, value_name = "FILE", help_heading = "Plan")]
    profile: Option<PathBuf>,

    /// Malloc: inherit, glibc, a name (jemalloc, tcmalloc, mimalloc, tbbmalloc, ...) or the
    /// path of a library.
    #[arg(long, value_name = "NAME|PATH", help_heading = "Plan")]
    allocator: Option<String>,

    /// Threads: one per node in turn (sparse), node after node (dense), or as the scheduler
    /// decides (none).
    #[arg(long, value_name = "PLACEMENT", value_parser = names(ThreadPlacement::ALL, ThreadPlacement::name, ThreadPlacement::from_name), help_heading = "Plan")]
    threads: Option<ThreadPlacement>,

    /// Transparent huge pages.
    #[arg(long, value_name = "PAGES", value_parser = names(Thp::ALL, Thp::name, Thp::from_name), help_heading = "Plan")]
    thp: Option<Thp>,

    /// Automatic NUMA balancing: off for this program, on machine-wide (needs root).
    #[arg(long, value_name = "SWITCH", value_parser = names(NumaBalancing::ALL, NumaBalancing::name, NumaBalancing::from_name), help_heading = "Plan")]
    numa_balancing: Option<NumaBalancing>,

    /// Set an environment variable of the program; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable, help_heading = "Plan")]
    env: Vec<(String, String)>,

    #[command(flatten)]
    policy: PolicyArgs,

    /// Let AutoNUMA move pages inside the nodes of -m or -P.
    #[arg(short = 'b', long, help_heading = "As numactl")]
    balancing: bool,

    /// Run on the CPUs of NODES.
    #[arg(short = 'N', long, value_name = "NODES", help_heading = "As numactl")]
    cpunodebind: Option<String>,

    /// Run on CPUS.
    #[arg(short = 'C', long, value_name = "CPUS", help_heading = "As numactl")]
    physcpubind: Option<String>,
}

/// One memory policy at the most.
#[derive(clap::Args, Debug, Default)]
#[group(multiple = false)]
struct PolicyArgs {
    /// Pages in turn over NODES (0-2,4  !0  +0  all).
    #[arg(short = 'i', long, value_name = "NODES", help_heading = "As numactl")]
    interleave: Option<String>,

    /// Pages in turn over NODES, each node by the kernel's weight for it.
    #[arg(short = 'w', long, value_name = "NODES", help_heading = "As numactl")]
    weighted_interleave: Option<String>,

    /// Memory of NODES only.
    #[arg(short = 'm', long, value_name = "NODES", help_heading = "As numactl")]
    membind: Option<String>,

    /// Memory of NODE first.
    #[arg(short = 'p', long, value_name = "NODE", help_heading = "As numactl")]
    preferred: Option<String>,

    /// Memory of NODES first.
    #[arg(short = 'P', long, value_name = "NODES", help_heading = "As numactl")]
    preferred_many: Option<String>,

    /// Memory of the node whose CPU touches it first, as an explicit policy.
    #[arg(short = 'l', long, help_heading = "As numactl")]
    localalloc: bool,
}

impl PlanArgs {
    /// The profile, and the machine-wide settings that were asked for in so many words beside
    /// it: those need no announcement.
    pub fn profile(&self) -> Option<(PathBuf, Vec<Setting>)> {
        let thp = self.thp.map(|_| Setting::Thp);
        let balancing = self.numa_balancing.map(|_| Setting::NumaBalancing);
        Some((self.profile.clone()?, thp.into_iter().chain(balancing).collect()))
    }

    /// The profile, or a plan that changes nothing, with the options on top.
    ///
    /// # Errors
    /// When the profile cannot be used.
    pub fn plan(self) -> anyhow::Result<Plan> {
        let mut plan = match &self.profile {
            Some(path) => Plan::load(path)?,
            None => Plan::default(),
        };
        if let Some(text) = self.allocator {
            plan.allocator = AllocatorChoice::from(text);
        }
        plan.threads = self.threads.unwrap_or(plan.threads);
        plan.thp = self.thp.unwrap_or(plan.thp);
        plan.numa_balancing = self.numa_balancing.unwrap_or(plan.numa_balancing);
        plan.env.extend(self.env.into_iter().collect::<BTreeMap<_, _>>());
        if let Some((mode, nodes)) = self.policy.mode() {
            plan.memory = MemoryPolicy { mode, nodes, balancing: false };
        }
        plan.memory.balancing |= self.balancing;
        // Where it runs is one question with two ways to say it: the options' way replaces
        // the profile's.
        if self.cpunodebind.is_some() || self.physcpubind.is_some() {
            plan.cpu_nodes = self.cpunodebind;
            plan.cpus = self.physcpubind;
        }
        Ok(plan)
    }
}

impl PolicyArgs {
    fn mode(self) -> Option<(MemoryMode, String)> {
        let with_nodes = [
            (MemoryMode::Interleave, self.interleave),
            (MemoryMode::WeightedInterleave, self.weighted_interleave),
            (MemoryMode::Bind, self.membind),
            (MemoryMode::Preferred, self.preferred),
            (MemoryMode::PreferredMany, self.preferred_many),
        ];
        with_nodes
            .into_iter()
            .find_map(|(mode, nodes)| Some((mode, nodes?)))
            .or(self.localalloc.then(|| (MemoryMode::Local, String::new())))
    }
}

/// A choice among names, shown in the help.
fn names<T: Copy + Clone + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
    from_name: fn(&str) -> Option<T>,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(move |choice| name(*choice)))
        .try_map(move |text| from_name(&text).ok_or("not one of the names"))
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

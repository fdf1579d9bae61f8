//! The options that make a plan: numactl's and our own, on top of a profile.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::builder::{
    NonEmptyStringValueParser, OsStringValueParser, PossibleValuesParser, TypedValueParser,
};
use numapilot_place::settings_journal::Setting;
use numapilot_place::{
    AllocatorChoice, Daemons, Measured, MemoryMode, MemoryPolicy, NumaBalancing, Plan, Profile,
    Reach, Thp, ThreadPlacement, profile_here,
};

use crate::terminal::Terminal;

/// Variables that decide which code runs. If a profile sets one, the user is told.
const LOADERS: [&str; 4] = ["LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "PATH"];

/// Reads the plan of a profile. Prints a notice if it sets a variable that decides which code runs,
/// and if it was measured on a machine of another topology.
///
/// # Errors
/// Fails if the profile cannot be used, and under `strict` if it was measured elsewhere.
pub fn load_profile(terminal: &Terminal, path: &Path, strict: bool) -> anyhow::Result<Plan> {
    let (plan, note) = profile_here(path, strict)?;
    if let Some(note) = note {
        terminal.warn(note);
    }
    say_what_loads(terminal, path, &plan);
    Ok(plan)
}

/// Tells which variables of a profile decide which code runs.
fn say_what_loads(terminal: &Terminal, path: &Path, plan: &Plan) {
    for name in LOADERS {
        if let Some(value) = plan.env.get(name) {
            terminal.say(format_args!(
                "profile {} sets {name}={}",
                path.display(),
                value.escape_debug()
            ));
        }
    }
}

/// A variable and its value.
pub type Variable = (OsString, OsString);

/// The options of a plan.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct PlanArgs {
    /// Take the plan from FILE; other options override it.
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

    /// Run numapilot's daemons beside the program: balance keeps pages on the nodes that use them,
    /// cores gives it as many cores as it needs.
    #[arg(long, value_name = "DAEMONS", value_parser = names(Daemons::ALL, Daemons::name, Daemons::from_name), help_heading = "Plan")]
    daemons: Option<Daemons>,

    /// Set an environment variable of the program; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Plan",
          value_parser = OsStringValueParser::new().try_map(|text| variable(&text)))]
    env: Vec<Variable>,

    #[command(flatten)]
    policy: PolicyArgs,

    /// Let AutoNUMA move pages inside the nodes of -m or -P.
    #[arg(short = 'b', long, help_heading = "As numactl")]
    balancing: bool,

    /// Treat all CPUs and nodes as usable, including those outside this process's affinity
    /// (isolated CPUs); the kernel decides in the end.
    #[arg(short = 'a', long, help_heading = "As numactl")]
    all: bool,

    /// Run on the CPUs of NODES.
    #[arg(short = 'N', long, value_name = "NODES", help_heading = "As numactl")]
    cpunodebind: Option<String>,

    /// Run on CPUS.
    #[arg(short = 'C', long, value_name = "CPUS", help_heading = "As numactl")]
    physcpubind: Option<String>,
}

/// At most one memory policy.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(multiple = false)]
struct PolicyArgs {
    /// Interleave pages over NODES (0-2,4  !0  +0  all  same  netdev:eth0  block:sda  pci:ADDRESS
    /// file:PATH  ip:ADDRESS).
    #[arg(short = 'i', long, value_name = "NODES", value_parser = given(), help_heading = "As numactl")]
    interleave: Option<String>,

    /// Interleave pages over NODES by the kernel's weight for each node.
    #[arg(short = 'w', long, value_name = "NODES", value_parser = given(), help_heading = "As numactl")]
    weighted_interleave: Option<String>,

    /// Use memory of NODES only.
    #[arg(short = 'm', long, value_name = "NODES", value_parser = given(), help_heading = "As numactl")]
    membind: Option<String>,

    /// Prefer memory of NODE.
    #[arg(short = 'p', long, value_name = "NODE", value_parser = given(), help_heading = "As numactl")]
    preferred: Option<String>,

    /// Prefer memory of NODES.
    #[arg(short = 'P', long, value_name = "NODES", value_parser = given(), help_heading = "As numactl")]
    preferred_many: Option<String>,

    /// Use memory of the node whose CPU touches it first, as an explicit policy.
    #[arg(short = 'l', long, help_heading = "As numactl")]
    localalloc: bool,
}

impl PlanArgs {
    /// How far the options may reach.
    pub fn reach(&self) -> Reach {
        if self.all { Reach::All } else { Reach::Allowed }
    }

    /// The profile, and the machine-wide settings that other options asked for: those need no
    /// announcement.
    pub fn profile(&self) -> Option<(PathBuf, Vec<Setting>)> {
        let thp = self.thp.map(|_| Setting::Thp);
        let balancing = self.numa_balancing.map(|_| Setting::NumaBalancing);
        Some((self.profile.clone()?, thp.into_iter().chain(balancing).collect()))
    }

    /// The profile, or else a plan that changes nothing, overridden by the options; and variables
    /// that a profile cannot hold, because they are not UTF-8.
    ///
    /// # Errors
    /// Fails if the profile cannot be used, if `same` refers to nothing, and under `strict` if the
    /// profile was measured elsewhere.
    pub fn plan(self, terminal: &Terminal, strict: bool) -> anyhow::Result<(Plan, Vec<Variable>)> {
        let profile = match &self.profile {
            Some(path) => load_profile(terminal, path, strict)?,
            None => Plan::default(),
        };
        self.over(profile)
    }

    /// The same for a program that runs on other machines: where the profile was measured is
    /// returned, to be compared with them.
    ///
    /// # Errors
    /// As [`PlanArgs::plan`].
    pub fn plan_elsewhere(
        self,
        terminal: &Terminal,
    ) -> anyhow::Result<(Plan, Vec<Variable>, Option<Measured>)> {
        let Profile { plan, measured } = match &self.profile {
            Some(path) => Profile::load(path)?,
            None => Profile { plan: Plan::default(), measured: None },
        };
        if let Some(path) = &self.profile {
            say_what_loads(terminal, path, &plan);
        }
        let (plan, raw) = self.over(plan)?;
        Ok((plan, raw, measured))
    }

    /// The plan of a profile, overridden by the options.
    fn over(self, mut plan: Plan) -> anyhow::Result<(Plan, Vec<Variable>)> {
        if let Some(text) = self.allocator {
            plan.allocator = AllocatorChoice::from(text);
        }
        plan.threads = self.threads.unwrap_or(plan.threads);
        plan.thp = self.thp.unwrap_or(plan.thp);
        plan.numa_balancing = self.numa_balancing.unwrap_or(plan.numa_balancing);
        plan.daemons = self.daemons.unwrap_or(plan.daemons);
        let mut raw = Vec::new();
        for (name, value) in self.env {
            // The last one counts, in either form.
            raw.retain(|(known, _)| *known != name);
            match (name.to_str(), value.to_str()) {
                (Some(name), Some(value)) => {
                    plan.env.insert(name.to_owned(), value.to_owned());
                }
                _ => raw.push((name, value)),
            }
        }
        let mut cpu_nodes = self.cpunodebind;
        if let Some((mode, mut nodes)) = self.policy.mode() {
            same(&mut nodes, cpu_nodes.as_mut())?;
            plan.memory = MemoryPolicy { mode, nodes, balancing: false };
        } else if let Some(nodes) = &mut cpu_nodes {
            same(nodes, None)?;
        }
        plan.memory.balancing |= self.balancing;
        // CPUs can be given in two ways; an option of one kind replaces the profile's setting of
        // the other.
        if cpu_nodes.is_some() || self.physcpubind.is_some() {
            plan.cpu_nodes = cpu_nodes;
            plan.cpus = self.physcpubind;
        }
        Ok((plan, raw))
    }
}

/// numactl's `same`: the nodes of the other option.
fn same(nodes: &mut String, other: Option<&mut String>) -> anyhow::Result<()> {
    const SAME: &str = "same";
    match other {
        Some(other) if nodes == SAME && other != SAME && !other.is_empty() => {
            nodes.clone_from(other);
        }
        Some(other) if other == SAME && nodes != SAME && !nodes.is_empty() => {
            other.clone_from(nodes);
        }
        Some(other) if other == SAME => bail!(NOTHING_TO_BE_SAME_AS),
        _ if nodes == SAME => bail!(NOTHING_TO_BE_SAME_AS),
        _ => {}
    }
    Ok(())
}

const NOTHING_TO_BE_SAME_AS: &str =
    "'same' means the nodes of another option (-N, or a memory policy), and none is given";

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

/// Requires nodes: an empty list would mean all nodes, as in a profile without them.
fn given() -> NonEmptyStringValueParser {
    NonEmptyStringValueParser::new()
}

/// A choice among names, which the help lists.
fn names<T: Copy + Clone + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
    from_name: fn(&str) -> Option<T>,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(move |choice| name(*choice)))
        .try_map(move |text| from_name(&text).ok_or("not one of the names"))
}

fn variable(text: &OsStr) -> Result<Variable, String> {
    let bytes = text.as_bytes();
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(at) if at > 0 => Ok((
            OsString::from_vec(bytes[..at].to_vec()),
            OsString::from_vec(bytes[at + 1..].to_vec()),
        )),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command line with nothing but a plan.
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        plan: PlanArgs,
    }

    #[test]
    fn the_options_of_a_plan_make_it() {
        let plans = [
            Plan::default(),
            Plan {
                allocator: AllocatorChoice::Path("/x y/liba.so".into()),
                threads: ThreadPlacement::Dense,
                cpu_nodes: Some("!0".into()),
                cpus: Some("0-3,8".into()),
                thp: Thp::Always,
                numa_balancing: NumaBalancing::On,
                daemons: Daemons::BalanceAndCores,
                env: [("A", "b=c"), ("B", ""), ("C", "-x 'y'\n")]
                    .map(|(k, v)| (k.to_owned(), v.to_owned()))
                    .into(),
                ..Plan::default()
            },
        ];
        let modes = MemoryMode::ALL.iter().map(|mode| {
            let nodes = if mode.needs_nodes() { "!0,2".to_owned() } else { String::new() };
            let memory = MemoryPolicy { mode: *mode, nodes, balancing: mode.needs_nodes() };
            Plan { memory, ..Plan::default() }
        });
        for plan in modes.chain(plans) {
            let words = std::iter::once("x".to_owned()).chain(plan.options());
            let line = <Line as clap::Parser>::try_parse_from(words).unwrap();
            let terminal = Terminal::new(crate::terminal::ColorChoice::Never);
            let (again, raw) = line.plan.plan(&terminal, false).unwrap();
            assert_eq!((again, raw), (plan, Vec::new()));
        }
    }

    #[test]
    fn same_is_what_the_other_option_has() {
        let both = |nodes: &str, other: Option<&str>| {
            let (mut nodes, mut other) = (nodes.to_owned(), other.map(str::to_owned));
            same(&mut nodes, other.as_mut()).map(|()| (nodes, other)).map_err(|e| e.to_string())
        };
        let pair = |a: &str, b: &str| Ok((a.to_owned(), Some(b.to_owned())));
        assert_eq!(both("same", Some("0-1")), pair("0-1", "0-1"));
        assert_eq!(both("2", Some("same")), pair("2", "2"));
        assert_eq!(both("2", Some("3")), pair("2", "3"));
        assert!(both("same", None).unwrap_err().contains("another option"));
        assert!(both("same", Some("same")).is_err());
        // --localalloc has no nodes.
        assert!(both("", Some("same")).is_err());
    }
}

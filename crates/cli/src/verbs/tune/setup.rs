//! Turns the arguments into the search space and the settings.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::bail;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_place::settings_journal::{Change, Held, Holder, Setting, SettingsJournal};
use numapilot_place::via::Via;
use numapilot_place::{Options, Plan, prepare};
use numapilot_topology::Machine;
use numapilot_tune::decide::{Prior, Settings, is_economical};
use numapilot_tune::journal::{
    COMMAND, FACTORS, Fingerprint, GOAL, MACHINE, PLANS, PROGRAM, TOPOLOGY,
};
use numapilot_tune::run::{Emulated, Judge, Metric, Program, Restart, Runner, Service};
use numapilot_tune::space::{Facts, Space};
use serde_json::{Value, json};

use super::added_plans::added_plans;
use super::args::Args;
use super::emulated;
use super::input::Input;
use super::measure::limits;
use super::program_file::program_file;
use super::same_malloc::refuse_same_malloc;

/// The default metric, which needs no expression.
pub const WALL_TIME: &str = "wall time";
/// The default metric on an emulated machine.
pub const SIMULATED_TIME: &str = "simulated time";

/// Whether a metric of a report is a time in seconds that numapilot measures.
pub fn is_time(metric: &str) -> bool {
    [WALL_TIME, SIMULATED_TIME].contains(&metric)
}

/// The name of a metric on this host.
pub fn metric_name(metric: &Metric) -> String {
    match metric {
        Metric::WallTime => WALL_TIME.to_owned(),
        Metric::Matched { regex, .. } => regex.to_string(),
    }
}

/// The name of this program.
const OWN: &str = "numapilot";

/// Runs of the default against itself, without an option.
const NOISE_RUNS: usize = 5;
/// The same on an emulated machine.
const EMULATED_NOISE_RUNS: usize = 3;

/// The same in a search with few runs, which compares plans by all of its runs.
const ECONOMICAL_NOISE_RUNS: usize = 1;

/// Everything decided before the first run.
pub struct Setup {
    /// This host.
    pub machine: Machine,
    program: Program,
    judge: Judge,
    metric: Metric,
    pub input: Input,
    pub space: Space,
    pub settings: Settings,
    /// Machine-wide settings that some plans change.
    pub machine_wide: BTreeSet<Setting>,
    /// The emulated machine.
    pub emulated: Option<Emulated>,
}

impl Setup {
    pub fn new(terminal: &Terminal, args: &Args) -> anyhow::Result<Self> {
        let machine = numapilot_topology::read(Path::new("/"))?;
        let input = Input::of(args.measure.stdin.as_deref())?;
        let emulated = emulated::machine(args)?;
        let measured = emulated.as_ref().map_or(&machine, |(_, emulated)| emulated);
        args.server.check_limits(&limits(&args.measure.limit))?;
        let service = args.server.service(measured)?;
        let program = args.measure.program(args.command(), &input, via(args)?, service);
        let (metric, judge) = args.measure.judge(program.service.is_some())?;
        let (space, machine_wide) = match &emulated {
            Some((_, emulated)) => {
                // A guest would report a missing program only after its boot. It has numapilot itself.
                let options = Options { strict: false, new_group: false };
                let prepared = prepare(&Plan::default(), &machine, &program.command, &options)?;
                if program.command.first().is_none_or(|name| name != OWN) {
                    prepared.check_program()?;
                }
                (emulated::space(terminal, args, emulated)?, BTreeSet::new())
            }
            None => space(terminal, args, &machine, &program, &judge)?,
        };
        let emulated = emulated.map(|(emulated, _)| emulated);
        let shape = space.shape();
        let mut settings = Settings {
            goal: args.measure.goal(),
            resolution: args.effort.resolution,
            confidence: args.effort.confidence,
            precision: args.effort.precision,
            warm_up: 0,
            noise_runs: 0,
            failure_tolerance: args.measure.failure_tolerance,
            max_runs: args.effort.max_runs.unwrap_or(usize::MAX),
            max_seconds: args.effort.max_time.map(|t| t.as_secs_f64()),
            seed: args.effort.seed,
            prior: Prior::default(),
        };
        // A guest is as cold in its first run as in any other.
        settings.warm_up = args.effort.warmup.unwrap_or(usize::from(emulated.is_none()));
        let noise_runs = args.effort.noise_runs.map(usize::from);
        settings.noise_runs = noise_runs.unwrap_or(match &emulated {
            Some(_) => EMULATED_NOISE_RUNS,
            None => NOISE_RUNS,
        });
        let are_few = settings.max_runs < settings.least_raced(&shape);
        if are_few || is_economical(&shape, &settings) {
            // Of few runs none is spared.
            settings.warm_up = args.effort.warmup.unwrap_or(0);
            settings.noise_runs = noise_runs.unwrap_or(ECONOMICAL_NOISE_RUNS);
        }
        let least = settings.least_runs(&shape);
        settings.max_runs = match args.effort.max_runs {
            Some(runs) if runs < least => bail!(
                "--max-runs {runs} is too few: {}",
                match shape.candidates().count() {
                    1 => format!(
                        "the default alone takes {least} runs (--warmup and --noise-runs); raise it"
                    ),
                    plans => format!("{plans} plans need at least {least} runs; raise it"),
                }
            ),
            Some(runs) => runs,
            None if emulated.is_some() => {
                Settings::default_max_runs_emulated(&shape).max(settings.least_raced(&shape))
            }
            None => Settings::default_max_runs(&shape).max(settings.least_raced(&shape)),
        };
        Ok(Self { machine, program, judge, metric, input, space, settings, machine_wide, emulated })
    }

    /// Prevents other runs of numapilot from changing the settings that this search changes.
    pub fn reserve(&self, command: &[OsString]) -> anyhow::Result<Option<Held>> {
        if self.machine_wide.is_empty() {
            return Ok(None);
        }
        let settings: Vec<Setting> = self.machine_wide.iter().copied().collect();
        let program = command.first().map(|word| word.to_string_lossy()).unwrap_or_default();
        let held = SettingsJournal::system()?.reserve(&settings, &format!("tune of {program}"))?;
        Ok(Some(held))
    }

    pub fn runner<'a>(&'a self, interrupted: &'a AtomicBool) -> Runner<'a> {
        let runner =
            Runner::new(&self.machine, self.program.clone(), self.judge.clone(), interrupted);
        match &self.emulated {
            Some(emulated) => runner.on(emulated.clone()),
            None => runner,
        }
    }

    /// Fails if the program is missing or cannot be executed.
    pub fn check_program(&self) -> anyhow::Result<()> {
        let options = Options { strict: false, new_group: false };
        let prepared = prepare(&Plan::default(), &self.machine, &self.program.command, &options)?;
        Ok(prepared.check_program()?)
    }

    /// Runs the program by these words in front of its command.
    pub fn observer<'a>(
        &'a self,
        words: impl Iterator<Item = OsString>,
        interrupted: &'a AtomicBool,
    ) -> Runner<'a> {
        let command = words.chain(self.program.command.iter().cloned()).collect();
        // What is observed is a server from its start to its end.
        let service = self.service().map(|of| Service { restart: Restart::Plan, ..of.clone() });
        let program = Program { command, service, ..self.program.clone() };
        Runner::new(&self.machine, program, self.judge.clone(), interrupted)
    }

    /// What makes the program a server.
    pub fn service(&self) -> Option<&Service> {
        self.program.service.as_ref()
    }

    /// Whether the metric is a time that numapilot measures.
    pub fn is_time(&self) -> bool {
        matches!(self.metric, Metric::WallTime)
    }

    pub fn metric_name(&self) -> String {
        match &self.metric {
            Metric::WallTime if self.emulated.is_some() => SIMULATED_TIME.to_owned(),
            metric => metric_name(metric),
        }
    }

    /// Identifies the search. Limits of time and runs are not part of it and may change on
    /// resuming.
    pub fn fingerprint(&self, args: &Args, held: &[Holder]) -> Fingerprint {
        let words = words_of(args.command());
        let directory = std::env::current_dir().unwrap_or_default();
        let measure = &args.measure;
        let regex = |regex: &Option<regex::Regex>| regex.as_ref().map(ToString::to_string);
        let limits = limits(&measure.limit);
        let fields = [
            (COMMAND, json!(words)),
            ("directory", json!(directory)),
            // Its size and modification time show whether it has changed.
            (PROGRAM, json!(program_file(args.command()).and_then(known_file))),
            ("stdin", self.input.identity.clone()),
            ("prepare", json!(measure.prepare)),
            ("via", json!(measure.via.as_ref().map(ToString::to_string))),
            ("via count", json!(measure.via_count)),
            ("cleanup", json!(measure.cleanup)),
            ("metric", json!(regex(&measure.metric))),
            ("decimal", json!(measure.decimal.map(|decimal| format!("{decimal:?}")))),
            ("progress", json!(regex(&measure.progress))),
            ("check", json!(regex(&measure.check))),
            (GOAL, json!(self.settings.goal)),
            (
                "limits",
                json!([
                    limits.rss_bytes.map(|b| b.to_string()),
                    limits.seconds.map(|s| s.to_string())
                ]),
            ),
            (FACTORS, json!(self.space.factors)),
            (PLANS, json!(self.space.extras)),
            ("seed", json!(self.settings.seed)),
        ];
        // Measurements under another run's setting are not mixed with others.
        let held: Vec<_> = held.iter().map(|holder| (holder.setting, &holder.value)).collect();
        let held = (!held.is_empty()).then(|| ("held settings", json!(held)));
        let emulated = self.emulated.as_ref();
        let emulated = emulated.map(|on| {
            // A description file may have been edited since.
            let description = fs::read_to_string(&on.machine).ok();
            (MACHINE, json!([on.machine, words_of(&on.options), description]))
        });
        // A guest has copies of these files, so only others change them.
        let files = self.emulated.is_some().then(|| {
            ("files", argument_files(&[args.command(), &args.server.shell_words()].concat()))
        });
        // A search is not continued on another machine, with which its directory may be shared.
        let topology = self
            .emulated
            .is_none()
            .then(|| (TOPOLOGY, json!(self.machine.topology_hash().to_string())));
        fields
            .into_iter()
            .chain(topology)
            .chain(held)
            .chain(emulated)
            .chain(files)
            .chain(args.server.identity())
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }
}

/// The launcher that starts the program elsewhere.
fn via(args: &Args) -> anyhow::Result<Option<Via>> {
    let Some(template) = &args.measure.via else { return Ok(None) };
    let directory = match &args.measure.attest {
        Some(directory) => directory.clone(),
        None => args.state()?.join("attest"),
    };
    Ok(Some(Via::new(template.clone(), &directory, args.measure.via_count)?))
}

fn words_of(words: &[OsString]) -> Vec<Cow<'_, str>> {
    words.iter().map(|word| word.to_string_lossy()).collect()
}

/// The files among the arguments.
fn argument_files(command: &[OsString]) -> Value {
    let files = command.iter().skip(1).map(PathBuf::from).filter(|path| path.is_file());
    files.filter_map(known_file).collect()
}

/// A file with its size and modification time.
fn known_file(file: PathBuf) -> Option<Value> {
    let metadata = file.metadata().ok()?;
    let modified = format!("{}.{:09}", metadata.mtime(), metadata.mtime_nsec());
    Some(json!({"path": file, "bytes": metadata.size(), "modified": modified}))
}

fn space(
    terminal: &Terminal,
    args: &Args,
    machine: &Machine,
    program: &Program,
    judge: &Judge,
) -> anyhow::Result<(Space, BTreeSet<Setting>)> {
    let never = AtomicBool::new(false);
    let runner = Runner::new(machine, program.clone(), judge.clone(), &never);
    let machine_wide = RefCell::new(BTreeSet::new());
    let applies = |plan: &Plan| {
        let changes = runner.applies(plan).map_err(|reason| {
            // The remedy for a single run is only half of what is needed here.
            if reason.contains("run as root") && !args.space.allow_machine_wide {
                format!("{reason}; as root, give --allow-machine-wide as well")
            } else {
                reason
            }
        })?;
        if !changes.is_empty() && !args.space.allow_machine_wide {
            return Err(format!(
                "it sets {} for the whole machine; --allow-machine-wide lets it, for the time of \
                 each run",
                listed(&changes)
            ));
        }
        machine_wide.borrow_mut().extend(changes.iter().map(|change| change.setting));
        Ok(())
    };
    let extras = added_plans(terminal, &args.space.plans, applies)?;
    if args.space.only_plans {
        return Ok((Space::of_plans(extras), machine_wide.into_inner()));
    }
    let mut of_program = machine.clone();
    args.server.narrow(&mut of_program)?;
    let facts = Facts::new(&of_program, Path::new("/"));
    let differs = |plan: &Plan| {
        refuse_same_malloc(plan, &program.command)?;
        applies(plan)
    };
    let space = Space::new(&facts, &args.space.factors, extras, differs);
    Ok((space, machine_wide.into_inner()))
}

fn listed(changes: &[Change]) -> String {
    changes.iter().map(Change::to_string).collect::<Vec<_>>().join(" and ")
}

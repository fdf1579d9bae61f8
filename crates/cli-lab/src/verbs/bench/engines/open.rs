//! What the three workloads share: the engine, its data and its plan; starting and stopping it.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::bail;
use numapilot_cli_kit::file::{self, Existing};
use numapilot_cli_kit::interruption;
use numapilot_cli_kit::status_line::StatusLine;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_engines::{
    Cache, Database, Dataset, End, Engine, Launch, Mallocs, Query, RunDirectory, Session, Verifier,
    warm_up,
};
use numapilot_place::{AllocatorChoice, Plan, Reach, allocators};

use super::args::{Common, List};
use super::{failure, progress};

/// An engine that serves its data.
pub struct Bench<'a> {
    // Fields are dropped in this order: the engine before its directories.
    pub engine: Box<dyn Engine>,
    pub verifier: Verifier,
    pub queries: Vec<Query>,
    pub dataset: Dataset,
    pub plan: Plan,
    pub settings: Vec<(String, String)>,
    pub stop: Arc<AtomicBool>,
    pub terminal: &'a Terminal,
    pub progress: StatusLine<'a>,
    run: RunDirectory,
    keep: bool,
    _database: Database,
}

impl Common {
    /// Loads the data unless the cache has it, and starts the engine. The output files `json` and
    /// `svg` are checked first, so a file that cannot be written fails before anything is measured.
    pub fn open<'a>(
        &self,
        terminal: &'a Terminal,
        plan: Plan,
        queries: Option<&List>,
    ) -> anyhow::Result<Bench<'a>> {
        if let Some(path) = &self.svg {
            file::check(path, Existing::Replace)?;
        }
        let dataset = Dataset::open(self.benchmark, self.scale_factor)?;
        let numbers =
            queries.map_or_else(|| (1..=dataset.queries()).collect(), |list| list.0.clone());
        let queries =
            numbers.iter().map(|&number| dataset.query(number)).collect::<Result<Vec<_>, _>>()?;
        let system = self.engine.find()?;
        let cache = Cache::open(self.cache.as_deref())?;
        let stop = interruption::flag()?;
        let run = RunDirectory::new(&cache, self.keep)?;
        let progress = StatusLine::new(terminal);
        let mut step = |step| progress::step(&progress, step);
        let database = cache.database(system.as_ref(), &dataset, &run, &mut step, &stop)?;
        let verifier = Verifier::new(&cache, dataset.clone(), system.as_ref())?;
        progress.show(format!("starting {}", system.title()));
        let launch = Launch {
            plan: &plan,
            strict: self.strict,
            settings: &self.set,
            timeout: self.timeout,
            run: &run,
        };
        let engine = system.start(&database.path, &launch)?;
        for note in engine.notes() {
            terminal.warn(note);
        }
        Ok(Bench {
            engine,
            verifier,
            queries,
            dataset,
            plan,
            settings: self.set.clone(),
            stop,
            terminal,
            progress,
            run,
            keep: self.keep,
            _database: database,
        })
    }

    /// The plan that the options describe.
    pub fn take_plan(&mut self, terminal: &Terminal) -> anyhow::Result<Plan> {
        let arguments = std::mem::take(&mut self.plan);
        if arguments.reach() == Reach::All {
            bail!("-a (--all) is an option of run; leave it out");
        }
        let (plan, raw) = arguments.plan(terminal, false)?;
        if let Some((name, _)) = raw.first() {
            bail!("--env {}: the variables of an engine must be UTF-8", name.display());
        }
        Ok(plan)
    }
}

impl Bench<'_> {
    /// The mallocs that are really in use; warns when they are not those of the plan.
    pub fn mallocs(&self) -> Result<Mallocs, String> {
        let mallocs = Mallocs::of(self.engine.pid())?;
        let wanted = allocators::find(&self.plan.allocator).ok().flatten();
        if self.plan.allocator == AllocatorChoice::Inherit {
            return Ok(mallocs);
        }
        let name = wanted.map_or_else(|| allocators::GLIBC.to_owned(), |found| found.name_in_use());
        if !mallocs.are_all(&name) {
            self.terminal.warn(format!("{name} is not what the engine's processes use"));
        }
        if let Some(embedded) = mallocs.embedded.first() {
            self.terminal.warn(format!(
                "{name} serves only what {} takes from malloc; most of its memory comes from an \
                 allocator of its own ({})",
                self.engine.title(),
                embedded.symbol
            ));
        }
        Ok(mallocs)
    }

    /// Connects `clients` sessions.
    pub fn sessions(&mut self, clients: usize) -> anyhow::Result<Vec<Box<dyn Session>>> {
        let sessions = (0..clients).map(|_| self.engine.connect());
        Ok(sessions.collect::<Result<_, _>>()?)
    }

    /// Runs every query once in every session, and returns the failures.
    pub fn warm_up(&mut self, sessions: &mut [Box<dyn Session>]) -> (End, Vec<String>) {
        let progress = &self.progress;
        let total = sessions.len() * self.queries.len();
        let (failures, end) = warm_up::run(
            self.engine.as_ref(),
            sessions,
            &self.queries,
            &mut self.verifier,
            &self.stop,
            &mut |done| progress.show(format!("warming up · {done} of {total} queries")),
        );
        (end, failure::failures(&failures))
    }

    /// A checksum of the correct answers to all queries.
    pub fn checksum(&self) -> Option<String> {
        let numbers = self.queries.iter().map(|query| query.number);
        self.verifier.digest(numbers).map(|digest| digest.to_string())
    }

    /// Stops the engine, stores the answers, and returns the exit status of the run.
    pub fn close(self, end: End, failures: &[String]) -> anyhow::Result<ExitCode> {
        let Self { engine, verifier, run, keep, terminal, .. } = self;
        let stopped = engine.stop();
        verifier.save()?;
        if keep {
            terminal.warn(format!("kept {}", run.path().display()));
        }
        match end {
            End::Interrupted => Ok(interruption::status()),
            End::Failed(error) => Err(error.into()),
            End::Complete if failures.is_empty() => {
                stopped?;
                Ok(ExitCode::SUCCESS)
            }
            End::Complete => bail!("{}", failures.join("; ")),
        }
    }
}

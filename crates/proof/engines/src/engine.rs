//! The traits of an engine: it is loaded, started under a plan, queried, watched and stopped.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use numapilot_place::{Note, Plan};

use crate::answer::Rounding;
use crate::process::Process;
use crate::{Answer, Dataset, EngineError, RunDirectory, Step};

/// How to start an engine.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The plan to start under.
    pub plan: &'a Plan,
    /// Whether a setting of the plan that cannot be applied is an error.
    pub strict: bool,
    /// The engine's own settings.
    pub settings: &'a [(String, String)],
    /// A query that takes longer is cancelled and counts as failed.
    pub timeout: Option<Duration>,
    /// The directory for its files.
    pub run: &'a RunDirectory,
}

/// An installed engine.
pub trait System {
    /// Name and version for people.
    fn title(&self) -> String;

    /// Name and version, as far as databases depend on them.
    fn slug(&self) -> String;

    /// The approximate size of a loaded data set, including temporary files of the load.
    fn stored_bytes(&self, dataset: &Dataset) -> u64;

    /// How its numbers are rounded.
    fn rounding(&self) -> Rounding {
        Rounding::None
    }

    /// Whether two engines can use the same database at the same time.
    fn shares_databases(&self) -> bool;

    /// Loads a data set into an empty directory, under the default plan.
    ///
    /// # Errors
    /// Why it failed; the contents of the directory are then useless.
    fn load(
        &self,
        dataset: &Dataset,
        directory: &Path,
        run: &RunDirectory,
        say: &mut dyn FnMut(Step),
        stop: &AtomicBool,
    ) -> Result<(), EngineError>;

    /// Starts the engine on a loaded database.
    ///
    /// # Errors
    /// Which setting of the plan cannot be applied, or why the engine did not start.
    fn start(&self, database: &Path, launch: &Launch<'_>) -> Result<Box<dyn Engine>, EngineError>;
}

/// A running engine. Dropping it kills it.
pub trait Engine {
    /// The process whose descendants form the engine.
    fn process(&self) -> &Process;

    /// Name and version for people.
    fn title(&self) -> &str {
        self.process().title()
    }

    /// Settings of the plan that could not be applied.
    fn notes(&self) -> &[Note] {
        &self.process().notes
    }

    /// The id of that process.
    fn pid(&self) -> i32 {
        self.process().pid()
    }

    /// A new client.
    ///
    /// # Errors
    /// Why the engine refused the client.
    fn connect(&mut self) -> Result<Box<dyn Session>, EngineError>;

    /// Ends everything in progress: sessions fail from now on.
    fn interrupt(&self);

    /// Why the engine ended; `None` while it runs.
    fn death(&self) -> Option<EngineError> {
        self.process().death()
    }

    /// Shuts the engine down.
    ///
    /// # Errors
    /// When it had to be killed, or had already died.
    fn stop(self: Box<Self>) -> Result<(), EngineError>;
}

/// One client.
pub trait Session: Send {
    /// Runs one query and fetches all rows.
    ///
    /// # Errors
    /// [`SessionError`].
    fn run(&mut self, sql: &str) -> Result<Execution, SessionError>;
}

/// A completed query.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Its rows.
    pub answer: Answer,
    /// Execution time by the engine's own timer, if it reports one.
    pub engine: Option<Duration>,
    /// Time from before sending to after the last row.
    pub wall: Duration,
}

/// Why a query did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// The engine refused it, with a reason; the session continues.
    Refused(String),
    /// The engine disappeared.
    Lost(String),
}

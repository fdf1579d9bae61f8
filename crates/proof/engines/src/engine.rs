//! What every engine can do: be loaded, started under a plan, asked, watched, stopped.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use numapilot_place::{Note, Plan};

use crate::answer::Rounding;
use crate::process::Process;
use crate::{Answer, Dataset, EngineError, RunDirectory, Step};

/// How an engine is started.
#[derive(Debug)]
pub struct Launch<'a> {
    /// Under what.
    pub plan: &'a Plan,
    /// What of the plan cannot be done is an error.
    pub strict: bool,
    /// The engine's own settings.
    pub settings: &'a [(String, String)],
    /// A query that takes longer is ended and counts as failed.
    pub timeout: Option<Duration>,
    /// Where it may work.
    pub run: &'a RunDirectory,
}

/// An engine that is installed.
pub trait System {
    /// Name and version, for people.
    fn title(&self) -> String;

    /// Name and version as far as databases depend on it.
    fn slug(&self) -> String;

    /// About how much a loaded data set takes, with what loading takes besides.
    fn stored_bytes(&self, dataset: &Dataset) -> u64;

    /// How its numbers are rounded.
    fn rounding(&self) -> Rounding {
        Rounding::None
    }

    /// Whether two engines can use one database at once.
    fn shares_databases(&self) -> bool;

    /// Loads a data set into an empty directory, under no plan.
    ///
    /// # Errors
    /// What went wrong; the directory's contents are useless then.
    fn load(
        &self,
        dataset: &Dataset,
        directory: &Path,
        run: &RunDirectory,
        say: &mut dyn FnMut(Step),
        stop: &AtomicBool,
    ) -> Result<(), EngineError>;

    /// Starts it on a loaded database.
    ///
    /// # Errors
    /// What of the plan cannot be had, or why it did not start.
    fn start(&self, database: &Path, launch: &Launch<'_>) -> Result<Box<dyn Engine>, EngineError>;
}

/// An engine that runs. Dropped, it is killed.
pub trait Engine {
    /// The process whose descendants are the engine.
    fn process(&self) -> &Process;

    /// Name and version, for people.
    fn title(&self) -> &str {
        self.process().title()
    }

    /// What of the plan could not be done.
    fn notes(&self) -> &[Note] {
        &self.process().notes
    }

    /// The number of that process.
    fn pid(&self) -> i32 {
        self.process().pid()
    }

    /// A new client.
    ///
    /// # Errors
    /// Why it is not let in.
    fn connect(&mut self) -> Result<Box<dyn Session>, EngineError>;

    /// Ends whatever it is doing: sessions fail from now on.
    fn interrupt(&self);

    /// Why it is no more; `None` while it runs.
    fn death(&self) -> Option<EngineError> {
        self.process().death()
    }

    /// Ends it in order.
    ///
    /// # Errors
    /// When it had to be killed, or had died before.
    fn stop(self: Box<Self>) -> Result<(), EngineError>;
}

/// One client.
pub trait Session: Send {
    /// Runs one query and fetches all of its rows.
    ///
    /// # Errors
    /// [`SessionError`].
    fn run(&mut self, sql: &str) -> Result<Execution, SessionError>;
}

/// A query that ran.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Its rows.
    pub answer: Answer,
    /// By the engine's own timer, where it told.
    pub engine: Option<Duration>,
    /// From before sending to after the last row.
    pub wall: Duration,
}

/// Why a query did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// The engine says why; the session goes on.
    Refused(String),
    /// The engine went away.
    Lost(String),
}

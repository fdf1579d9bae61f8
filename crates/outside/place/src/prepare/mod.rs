//! Turns a plan into a command that is ready to start. This module decides, before anything runs,
//! which settings are possible, and notes those that are not.

pub(crate) mod affinity;
mod daemons;
mod expected;
mod in_place;
pub(crate) mod kernel;
pub(crate) mod memory;
pub(crate) mod own_malloc;
mod program;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

use numapilot_bind::env::AGENT;
use numapilot_sys::spawn::{self, SpawnError, Steps};
use numapilot_topology::Machine;

use crate::daemons::Beside;
use crate::effect::{Expected, Item};
use crate::environment::Environment;
use crate::guard::GroupNote;
use crate::running::Running;
use crate::settings_journal::{Change, SettingsJournal};
use crate::threads::{self, Placement, Session};
use crate::{AllocatorChoice, Note, PlaceError, Plan, Reach, Targets, allocators};

pub use in_place::{Applied, apply_profile};
pub use program::find_program;
pub(crate) use program::malloc_of;

/// Options for starting a program, apart from the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// An impossible setting is an error instead of a note.
    pub strict: bool,
    /// The program leads a new process group, so a time limit ends all of its processes. It gets no
    /// signals from the terminal, and the group ends with this process even if this process is
    /// killed.
    pub new_group: bool,
}

/// A command that is ready to start: see [`prepare`].
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(crate) words: Vec<OsString>,
    pub(crate) environment: Environment,
    pub(crate) steps: Steps,
    pub(crate) settings: Vec<Change>,
    pub(crate) placement: Option<Placement>,
    pub(crate) daemons: Option<Beside>,
    pub(crate) reach: Reach,
    /// Whether a process of numapilot stays while the program runs. It restores machine-wide
    /// settings, places threads from outside, and starts and stops daemons.
    supervised: bool,
    expected: Expected,
    /// The settings that are impossible.
    pub notes: Vec<Note>,
}

/// Decides how `command` (the program and its arguments) gets the settings of `plan` on this
/// machine.
///
/// # Errors
/// [`PlaceError`] if the plan is invalid on this machine (unknown nodes, an allocator that is not
/// installed), and under `options.strict` for every note.
pub fn prepare(
    plan: &Plan,
    machine: &Machine,
    command: &[OsString],
    options: &Options,
) -> Result<Prepared, PlaceError> {
    prepare_targets(plan, Targets::of(plan, machine)?, command, options)
}

/// As [`prepare`], with targets that are already resolved ([`Targets::here`]).
///
/// # Errors
/// As [`prepare`].
pub fn prepare_targets(
    plan: &Plan,
    targets: Targets,
    command: &[OsString],
    options: &Options,
) -> Result<Prepared, PlaceError> {
    prepare_with(plan, targets, command, options, true)
}

fn prepare_with(
    plan: &Plan,
    targets: Targets,
    command: &[OsString],
    options: &Options,
    supervised: bool,
) -> Result<Prepared, PlaceError> {
    if command.first().is_none_or(|program| program.is_empty()) {
        return Err(PlaceError::NoCommand);
    }
    let mut prepared = Prepared {
        words: command.to_vec(),
        environment: Environment::new(&plan.env)?,
        steps: Steps {
            new_group: options.new_group,
            end_with_parent: options.new_group.then_some(libc::SIGKILL),
            ..Steps::default()
        },
        settings: Vec::new(),
        placement: None,
        daemons: None,
        reach: targets.reach,
        supervised,
        expected: Expected::default(),
        notes: Vec::new(),
    };
    prepared.set_cpus(targets.cpus);
    prepared.set_memory(targets.memory);
    prepared.set_numa_balancing(plan.numa_balancing, plan.memory.balancing);
    let allocator = allocators::find(&plan.allocator)?;
    prepared.set_thp(plan.thp, allocator.as_ref());
    let mut is_used = false;
    match &allocator {
        Some(found) => is_used = prepared.set_allocator(found)?,
        None if plan.allocator != AllocatorChoice::Inherit => is_used = prepared.set_glibc(),
        None => {}
    }
    prepared.set_threads(targets.order)?;
    prepared.set_daemons(plan.daemons);
    let malloc = is_used.then(|| match &allocator {
        Some(found) => Item::Allocator { name: found.to_string(), path: found.path.clone() },
        None => Item::Glibc,
    });
    prepared.expected = expected::expected_effects(plan, &prepared, malloc);
    if options.strict && !prepared.notes.is_empty() {
        return Err(PlaceError::Strict(prepared.notes));
    }
    Ok(prepared)
}

impl Prepared {
    /// The command: environment, preloads, and the steps between fork and exec. It does not include
    /// machine-wide settings, which [`Prepared::spawn`] makes.
    #[must_use]
    pub fn command(&self) -> Command {
        self.command_with_note(None)
    }

    /// The same command; the process also writes its identity into `note` before the program
    /// starts.
    fn command_with_note(&self, note: Option<OwnedFd>) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command.envs(self.environment.changes());
        self.steps.install_with_note(&mut command, note);
        command
    }

    /// Sets a variable that a plan cannot contain because it is not UTF-8. Libraries that are
    /// preloaded for the plan stay before those of the user.
    ///
    /// # Errors
    /// [`PlaceError::Variable`] for an invalid name.
    pub fn set_variable(&mut self, name: &OsStr, value: &OsStr) -> Result<(), PlaceError> {
        self.environment.set_raw(name, value)
    }

    /// Adds an agent to the program that carries out requests in this file (see
    /// `numapilot_bind::agent`). Without the library, or in a program that cannot load it, this has
    /// no effect.
    ///
    /// # Errors
    /// [`PlaceError`] if the path of the library cannot be preloaded.
    pub fn carry_agent(&mut self, file: &Path) -> Result<(), PlaceError> {
        let program = self.program_file();
        let obstacle = program.as_deref().and_then(threads::obstacle_of);
        let library = threads::library().filter(|_| obstacle.is_none_or(|o| o.spares_children()));
        if let Some(library) = library {
            self.environment.preload(&library)?;
            self.environment.set(AGENT, file);
        }
        Ok(())
    }

    /// Changes the machine-wide settings of the plan and starts the program. `configure` may
    /// redirect its streams or change its directory. The settings are restored when the program has
    /// ended.
    ///
    /// # Errors
    /// [`PlaceError`] with the program, the setting or the step that failed. All settings are then
    /// restored.
    pub fn spawn(&self, configure: impl FnOnce(&mut Command)) -> Result<Running, PlaceError> {
        let held = match self.settings.as_slice() {
            [] => None,
            settings => SettingsJournal::system()?.acquire(settings, &self.program())?,
        };
        let threads = self.placement.as_ref().map(Placement::start);
        // If the file cannot be created, only the program itself ends with this process.
        let note = self.steps.new_group.then(|| GroupNote::new().ok()).flatten();
        let file = note.as_ref().and_then(|note| note.file().ok());
        let mut command = self.command_with_note(file);
        command.envs(threads.as_ref().and_then(Session::variable));
        configure(&mut command);
        let start_error = |error| self.start_error(error);
        let group = self.steps.new_group;
        let running = Running::start(&mut command, group, note, held, threads, start_error)?;
        Ok(running.beside(self.daemons.as_ref()))
    }

    /// The settings that should be visible in the running program, for an
    /// [`crate::effect::Observer`].
    #[must_use]
    pub fn expected(&self) -> Expected {
        self.expected.clone()
    }

    /// Replaces this process by the program. Returns only if that fails.
    #[must_use]
    pub fn exec(&self) -> PlaceError {
        self.start_error(spawn::exec(&mut self.command()))
    }

    /// Whether the plan requires work while the program runs or after it has ended, which
    /// [`Prepared::exec`] cannot do.
    #[must_use]
    pub fn needs_supervision(&self) -> bool {
        !self.settings.is_empty() || self.placement.is_some() || self.daemons.is_some()
    }

    /// The machine-wide settings that are changed while the program runs.
    #[must_use]
    pub fn machine_wide(&self) -> &[Change] {
        &self.settings
    }

    pub(crate) fn program(&self) -> String {
        self.words[0].to_string_lossy().into_owned()
    }

    /// Checks that the program's file can be executed, without executing it.
    ///
    /// # Errors
    /// The error with which a start would fail.
    pub fn check_program(&self) -> Result<(), PlaceError> {
        if self.program_file().is_some() {
            return Ok(());
        }
        let is_there = self.program().contains('/') && Path::new(&self.words[0]).exists();
        let cause = if is_there { libc::EACCES } else { libc::ENOENT };
        Err(self.start_error(SpawnError::Exec(io::Error::from_raw_os_error(cause))))
    }

    fn start_error(&self, error: SpawnError) -> PlaceError {
        let program = self.program();
        let source = match error {
            SpawnError::Exec(source) => source,
            source @ SpawnError::Step { .. } => return PlaceError::Step { program, source },
        };
        // An error of fork, which does not concern the program.
        if matches!(source.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM)) {
            return PlaceError::NoProcess { program, source };
        }
        if source.kind() != io::ErrorKind::NotFound {
            return PlaceError::NotExecutable { program, source };
        }
        if !program.contains('/') {
            return PlaceError::NotFound { program, searched: "$PATH".to_owned() };
        }
        // execve also returns ENOENT if the file exists but its interpreter does not.
        if Path::new(&self.words[0]).exists() {
            let source = io::Error::other(
                "its interpreter (in its #! line, or its ELF loader) does not exist",
            );
            return PlaceError::NotExecutable { program, source };
        }
        PlaceError::NotFound { program, searched: "the file system".to_owned() }
    }
}

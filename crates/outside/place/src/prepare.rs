//! From a plan to a command that is ready to start: what can be done is decided here,
//! before anything runs, and what cannot be done is noted.

use std::ffi::OsString;
use std::io;
use std::process::Command;

use numapilot_sys::mempolicy::{self, Mode};
use numapilot_sys::prctl;
use numapilot_sys::spawn::{self, SpawnError, Steps};
use numapilot_topology::Machine;

use crate::environment::Environment;
use crate::running::Running;
use crate::targets::{MemoryTarget, Targets};
use crate::{Note, PlaceError, Plan, Thp, allocators};

/// How a program is started, apart from the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What cannot be done is an error instead of a note.
    pub strict: bool,
    /// The program leads a process group of its own, so that a time limit ends all of it;
    /// it then gets no signals from the terminal.
    pub new_group: bool,
}

/// A command with everything decided: see [`prepare`].
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(crate) words: Vec<OsString>,
    pub(crate) environment: Environment,
    pub(crate) steps: Steps,
    /// What could not be done.
    pub notes: Vec<Note>,
}

/// Decides how `command` (the program and its arguments) gets what `plan` says on this
/// machine.
///
/// # Errors
/// [`PlaceError`] when the plan cannot mean anything here (unknown nodes, an allocator
/// that is not installed), and under `options.strict` for every note.
pub fn prepare(
    plan: &Plan,
    machine: &Machine,
    command: &[OsString],
    options: &Options,
) -> Result<Prepared, PlaceError> {
    prepare_targets(plan, Targets::of(plan, machine)?, command, options)
}

/// [`prepare`] with targets that are resolved already ([`Targets::without_machine`]).
///
/// # Errors
/// As [`prepare`].
pub fn prepare_targets(
    plan: &Plan,
    targets: Targets,
    command: &[OsString],
    options: &Options,
) -> Result<Prepared, PlaceError> {
    if command.first().is_none_or(|program| program.is_empty()) {
        return Err(PlaceError::NoCommand);
    }
    let mut prepared = Prepared {
        words: command.to_vec(),
        environment: Environment::new(&plan.env),
        steps: Steps { new_group: options.new_group, ..Steps::default() },
        notes: Vec::new(),
    };
    prepared.steps.cpus = targets.cpus.map(|c| c.as_words().to_vec());
    prepared.set_memory(targets.memory);
    prepared.set_thp(plan)?;
    if let Some(found) = allocators::find(&plan.allocator)? {
        prepared.environment.preload(&found.path)?;
    }
    if options.strict && !prepared.notes.is_empty() {
        return Err(PlaceError::Strict(prepared.notes));
    }
    Ok(prepared)
}

impl Prepared {
    /// The command: environment, preloads, and the steps between fork and exec.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command.envs(self.environment.changes());
        self.steps.install(&mut command);
        command
    }

    /// Starts the program; `configure` may redirect its streams or change its directory.
    ///
    /// # Errors
    /// [`PlaceError`] naming the program, or the step that failed.
    pub fn spawn(&self, configure: impl FnOnce(&mut Command)) -> Result<Running, PlaceError> {
        let mut command = self.command();
        configure(&mut command);
        Running::start(&mut command, self.steps.new_group).map_err(|e| self.start_error(e))
    }

    /// Replaces this process by the program; returns only when that failed.
    #[must_use]
    pub fn exec(&self) -> PlaceError {
        self.start_error(spawn::exec(&mut self.command()))
    }

    fn program(&self) -> String {
        self.words[0].to_string_lossy().into_owned()
    }

    fn start_error(&self, error: SpawnError) -> PlaceError {
        let program = self.program();
        let source = match error {
            SpawnError::Exec(source) => source,
            source @ SpawnError::Step { .. } => return PlaceError::Step { program, source },
        };
        // execve says ENOENT too when the file is there and its interpreter is not.
        if source.kind() == io::ErrorKind::NotFound {
            let is_path = program.contains('/');
            if is_path && std::path::Path::new(&self.words[0]).exists() {
                let source = io::Error::other(
                    "the interpreter it names (its #! line or its ELF loader) is not there",
                );
                return PlaceError::NotExecutable { program, source };
            }
            let searched = if is_path { "the file system".to_owned() } else { "$PATH".to_owned() };
            return PlaceError::NotFound { program, searched };
        }
        PlaceError::NotExecutable { program, source }
    }

    /// Tries the policy in a thread of its own, because a policy belongs to a thread and
    /// this process must not be changed: what the kernel or a seccomp filter refuses here
    /// it would refuse in the child.
    fn set_memory(&mut self, target: Option<MemoryTarget>) {
        let Some(MemoryTarget { mode, flags, nodes }) = target else { return };
        let words = nodes.as_words();
        let tried = std::thread::scope(|scope| {
            scope
                .spawn(|| mempolicy::set_mempolicy(mode, flags, words))
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("probe thread died")))
        });
        match tried {
            Ok(()) => self.steps.memory = Some((mode, flags, words.to_vec())),
            Err(error) => self.notes.push(memory_note(mode, &error)),
        }
    }

    fn set_thp(&mut self, plan: &Plan) -> Result<(), PlaceError> {
        match plan.thp {
            Thp::Inherit => {}
            Thp::Never => match prctl::thp_disabled() {
                Ok(true) => {}
                Ok(false) => self.steps.thp_disable = Some(true),
                // Without THP in the kernel the program has what it asked for.
                Err(_) => {}
            },
            Thp::Always => {
                let how = match allocators::find(&plan.allocator)? {
                    Some(found) => {
                        found.known.map_or(allocators::HugePages::NoSwitch, |k| k.huge_pages)
                    }
                    None => allocators::GLIBC_HUGE_PAGES,
                };
                if prctl::thp_disabled().unwrap_or(false) {
                    self.steps.thp_disable = Some(false);
                }
                if !self.environment.huge_pages(how) {
                    self.notes.push(Note::new(
                        "thp always",
                        "this allocator has no switch for transparent huge pages",
                        "as root, numapilot sets the machine's switch for the time of the run",
                    ));
                }
            }
        }
        Ok(())
    }
}

fn memory_note(mode: Mode, error: &io::Error) -> Note {
    let name = match mode {
        Mode::Default | Mode::Local => "local",
        Mode::Preferred => "preferred",
        Mode::Bind => "bind",
        Mode::Interleave => "interleave",
        Mode::PreferredMany => "preferred-many",
        Mode::WeightedInterleave => "weighted-interleave",
    };
    let subject = format!("memory {name}");
    match error.raw_os_error() {
        Some(libc::EPERM) => Note::new(
            subject,
            "set_mempolicy is not permitted here (a seccomp filter, as containers have), \
             so the program keeps the policy it inherits",
            "allow set_mempolicy, mbind and get_mempolicy in the filter \
             (Docker: --cap-add SYS_NICE or --security-opt seccomp=FILE)",
        ),
        Some(libc::ENOSYS) => Note::new(
            subject,
            "this kernel has no NUMA support (CONFIG_NUMA), so there is no policy to set",
            "boot a kernel built with CONFIG_NUMA",
        ),
        Some(libc::EINVAL) if mode == Mode::WeightedInterleave => Note::new(
            subject,
            "this kernel has no weighted interleave, so the program keeps the policy it inherits",
            "use Linux 6.9 or newer, or ask for interleave (-i), which ignores weights",
        ),
        Some(libc::EINVAL) if mode == Mode::PreferredMany => Note::new(
            subject,
            "this kernel has no preferred-many policy, so the program keeps the one it inherits",
            "use Linux 5.15 or newer, or ask for one preferred node (-p)",
        ),
        _ => Note::new(
            subject,
            format!("set_mempolicy: {error}, so the program keeps the policy it inherits"),
            "check the nodes with `numapilot topo`",
        ),
    }
}

//! `numapilot run [PLAN] -- COMMAND`: a program under a plan.
//!
//! When nothing has to be done while the program runs or after it, this process becomes
//! the program: same number, no parent in between.

mod effects;
mod per_node;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use numapilot_cli_kit::plan_args::PlanArgs;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_place::journal::Setting;
use numapilot_place::{Finished, Options, Plan, Prepared, Supervisor, Targets, prepare_targets};

use crate::verbs::processes;

/// Arguments of `run`.
#[derive(clap::Args)]
#[command(after_help = "\
The exit status is the program's, or 128+N when signal N ended it; 125 is numapilot's own \
failure, 126 a program that cannot be executed, 127 one that is not there.\n\n\
Examples:\n  numapilot run --interleave all --allocator jemalloc -- ./server --port 80\n  \
numapilot run --profile best.toml -- ./server\n  \
numapilot run --per-node -- ./server --port 80{node}")]
pub struct Args {
    #[command(flatten)]
    plan: PlanArgs,

    /// Print the line for a shell that does the same, and run nothing.
    #[arg(long)]
    dry_run: bool,

    /// Fail when a part of the plan cannot be done, instead of saying so and going on; and when
    /// it was done and has no effect on the running program, which is let run to its end first.
    #[arg(long)]
    strict: bool,

    /// Start one instance for each node, bound to its CPUs and memory; {node} in the command
    /// and in variables is replaced by its number.
    #[arg(long)]
    per_node: bool,

    /// With --per-node: put "[node N] " before every line of output.
    #[arg(long, requires = "per_node")]
    prefix: bool,

    /// Say what is done, and what of it is seen in the running program.
    #[arg(short, long)]
    verbose: bool,

    /// The program and its arguments.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let watch = effects::Watch { verbose: self.verbose, strict: self.strict };
        let (profile, reach) = (self.plan.profile(), self.plan.reach());
        let (plan, raw) = self.plan.plan(terminal)?;
        let options = Options { strict: self.strict, ..Options::default() };
        if self.per_node {
            let instances = per_node::prepare(&plan, &raw, reach, &self.command, &options)?;
            if let (Some((path, asked)), Some(first)) = (&profile, instances.first()) {
                announce(terminal, path.display(), &first.prepared, asked);
            }
            for instance in &instances {
                say(terminal, &instance.prepared, self.verbose.then_some(&instance.plan));
            }
            if self.dry_run {
                return dry_run(terminal, instances.iter().map(|i| &i.prepared));
            }
            return per_node::run(terminal, &instances, self.prefix, watch);
        }
        let targets = Targets::here(&plan, reach)?;
        let mut prepared = prepare_targets(&plan, targets, &self.command, &options)?;
        for (name, value) in raw {
            prepared.set_variable(&name, &value)?;
        }
        if let Some((path, asked)) = &profile {
            announce(terminal, path.display(), &prepared, asked);
        }
        say(terminal, &prepared, self.verbose.then_some(&plan));
        if self.dry_run {
            return dry_run(terminal, std::iter::once(&prepared));
        }
        if !prepared.needs_supervision() && !watch.is_wanted(&prepared) {
            return Err(prepared.exec().into());
        }
        processes::prefer(
            terminal,
            "neither can threads be placed from outside nor can the plan's effects be seen",
        );
        let supervisor = Supervisor::new()?;
        let running = prepared.spawn(|_| {})?;
        let effects = watch.start(terminal, &prepared, running.pid(), "");
        let ends = supervisor.wait(vec![running])?;
        let status = finish(terminal, &ends);
        watch.finish(terminal, vec![effects], status)
    }
}

/// Says what `who` (a profile, which may come from somebody else, or a verb) changes for the whole
/// machine, apart from what was `asked` for by name.
pub(super) fn announce(
    terminal: &Terminal,
    who: impl Display,
    prepared: &Prepared,
    asked: &[Setting],
) {
    let changes = prepared.machine_wide().iter().filter(|change| !asked.contains(&change.setting));
    for change in changes {
        terminal
            .say(format_args!("{who} sets {change} for the whole machine while the program runs"));
    }
}

/// Notes, and what is done if the user wants to know.
fn say(terminal: &Terminal, prepared: &Prepared, plan: Option<&Plan>) {
    if let Some(plan) = plan {
        terminal.say(format_args!("plan: {plan}"));
        for line in prepared.describe() {
            terminal.say(line);
        }
    }
    for note in &prepared.notes {
        terminal.warn(note);
    }
}

fn dry_run<'a>(
    terminal: &Terminal,
    all: impl Iterator<Item = &'a Prepared>,
) -> anyhow::Result<ExitCode> {
    let mut out = terminal.out();
    for prepared in all {
        out.write_all(prepared.shell_line().as_bytes())?;
        out.write_all(b"\n")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells of what went wrong after the programs, and gives the first status that is not
/// success.
pub(super) fn finish(terminal: &Terminal, ends: &[Finished]) -> ExitCode {
    for end in ends {
        for outcome in end.settings.iter().filter(|o| o.is_trouble()) {
            terminal.warn(outcome);
        }
        for note in end.threads.iter().flat_map(|threads| threads.notes()) {
            terminal.warn(note);
        }
    }
    ends.iter()
        .map(|end| status(end.status))
        .find(|s| *s != 0)
        .map_or(ExitCode::SUCCESS, ExitCode::from)
}

/// The program's status, or 128+n when a signal ended it, as shells have it.
fn status(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|s| 128 + s));
    code.and_then(|c| u8::try_from(c).ok()).unwrap_or(u8::MAX)
}

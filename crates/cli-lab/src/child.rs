//! Runs one of numapilot's programs as a child and reads its output.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use numapilot_place::{Options, Plan, Reach, Targets, prepare_targets};

/// The interval at which the interrupt flag is checked.
const LOOK: Duration = Duration::from_millis(50);

/// Runs one of numapilot's programs and returns its status and its standard output. Its messages go
/// to this program's standard error. When `interrupted` is set, the child is asked to end. The
/// child gets its own process group, which ends with this process.
pub fn output(
    program: PathBuf,
    words: impl IntoIterator<Item = impl Into<OsString>>,
    interrupted: &AtomicBool,
) -> anyhow::Result<(ExitStatus, Vec<u8>)> {
    let command =
        std::iter::once(program.into_os_string()).chain(words.into_iter().map(Into::into));
    let (plan, options) = (Plan::default(), Options { strict: false, new_group: true });
    let targets = Targets::here(&plan, Reach::Allowed)?;
    let prepared = prepare_targets(&plan, targets, &command.collect::<Vec<_>>(), &options)?;
    let (mut reader, writer) = io::pipe().context("cannot make a pipe")?;
    let running = prepared.spawn(|command| {
        command.stdin(Stdio::null()).stdout(writer);
    })?;
    let printed = thread::spawn(move || {
        let mut printed = Vec::new();
        reader.read_to_end(&mut printed).map(|_| printed)
    });
    let mut is_asked = false;
    while !running.ended_within(Some(LOOK))? {
        if interrupted.load(Relaxed) && !is_asked {
            is_asked = true;
            // It may have ended by itself a moment before.
            let _ = running.signal(libc::SIGINT);
        }
    }
    let status = running.wait(None)?.status;
    let printed =
        printed.join().map_err(|_| anyhow!("the thread that reads the output has panicked"))?;
    Ok((status, printed.context("cannot read numapilot's output")?))
}

//! An engine's process. It starts under a plan in its own process group. Its messages are kept, and
//! it always ends with this process.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use numapilot_place::{Note, Options, Plan, Reach, Running, Targets, prepare_targets};
use numapilot_sys::spawn::Steps;
use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, memfd_create};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::error::names_full_disk;
use crate::{EngineError, RunDirectory};

/// Bytes read from the end of the messages.
const END: u64 = 64 << 10;
/// Bytes of them that are quoted.
const QUOTED: usize = 400;
/// Time for a shutdown before the process is killed.
const GRACE: Duration = Duration::from_secs(20);

/// A started engine. If it is dropped before its end was waited for, it is shut down: a server that
/// is killed leaves its shared memory behind.
#[derive(Debug)]
pub struct Process {
    title: String,
    pid: i32,
    /// `None` once it has been waited for.
    running: Option<Running>,
    stop_signal: i32,
    messages: File,
    /// Settings of the plan that could not be applied.
    pub notes: Vec<Note>,
}

/// How to start it.
pub struct Start<'a> {
    /// Its name in errors.
    pub title: String,
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// The plan to start under.
    pub plan: &'a Plan,
    /// Whether a setting that cannot be applied is an error.
    pub strict: bool,
    /// The directory for its messages. Without one, they are kept in memory. That is for programs
    /// that print little and may fill the disk, because a message about the full disk must not be
    /// lost with it.
    pub run: Option<&'a RunDirectory>,
    /// The signal that it receives when this process dies.
    pub end_with_parent: i32,
    /// The signal that shuts it down.
    pub stop_signal: i32,
}

impl Process {
    /// Starts a program. `configure` may redirect its input and output or change its user.
    pub fn start(
        start: Start<'_>,
        configure: impl FnOnce(&mut Command),
    ) -> Result<Self, EngineError> {
        let messages = match start.run {
            Some(run) => in_file(&run.path().join("messages"))?,
            None => in_memory().map_err(EngineError::file("open", Path::new("messages")))?,
        };
        let copy =
            messages.try_clone().map_err(EngineError::file("open", Path::new("messages")))?;
        let options = Options { strict: start.strict, new_group: true };
        let targets = Targets::here(start.plan, Reach::Allowed)?;
        let prepared = prepare_targets(start.plan, targets, &start.words, &options)?;
        let running = prepared.spawn(|command| {
            command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(copy);
            configure(command);
            // Set this after a change of user, which would clear it.
            let end_with_parent = Some(start.end_with_parent);
            Steps { end_with_parent, ..Steps::default() }.install(command);
        })?;
        Ok(Self {
            title: start.title,
            pid: running.pid(),
            running: Some(running),
            stop_signal: start.stop_signal,
            messages,
            notes: prepared.notes,
        })
    }

    /// Its name.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Sends a signal to the first process of the engine, if it still exists.
    pub fn signal(&self, signal: i32) {
        // A missing process is fine: it was supposed to end.
        let _ = self.running.as_ref().map(|running| running.signal(signal));
    }

    /// Waits at most `limit`; returns whether it has ended.
    pub fn ended_within(&self, limit: Duration) -> bool {
        let ended = |running: &Running| running.ended_within(Some(limit)).unwrap_or(true);
        self.running.as_ref().is_none_or(ended)
    }

    /// The last lines that it wrote to standard error, after a line that names a full disk.
    pub fn last_words(&self) -> String {
        self.read_end().map(|text| quoted(&text)).unwrap_or_default()
    }

    fn read_end(&self) -> io::Result<String> {
        let mut messages = &self.messages;
        let end = messages.seek(SeekFrom::End(0))?;
        messages.seek(SeekFrom::Start(end.saturating_sub(END)))?;
        let mut text = Vec::new();
        messages.take(END).read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// How it ended; its status remains available to wait for.
    fn status(&self) -> String {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let running = self.running.as_ref();
        let ended =
            running.and_then(|running| waitid(WaitId::PidFd(running.as_fd()), options).ok()?);
        match ended.map(|status| (status.exit_status(), status.terminating_signal())) {
            Some((Some(code), _)) => format!("exit status {code}"),
            Some((_, Some(signal))) => format!("signal {signal}"),
            _ => "it disappeared".to_owned(),
        }
    }

    /// The error for an engine that ended before it served.
    pub fn not_started(&self) -> EngineError {
        EngineError::NotStarted {
            engine: self.title.clone(),
            status: self.status(),
            message: self.last_words(),
        }
    }

    /// Why it ended; `None` while it runs.
    pub fn death(&self) -> Option<EngineError> {
        self.ended_within(Duration::ZERO).then(|| EngineError::Died {
            engine: self.title.clone(),
            status: self.status(),
            message: self.last_words(),
        })
    }

    /// Waits for the requested end; kills the process when that takes too long.
    pub fn wait(mut self) -> Result<(), EngineError> {
        let Some(running) = self.running.take() else { return Ok(()) };
        let in_time = running.ended_within(Some(GRACE))?;
        let finished = running.wait(Some(Duration::ZERO))?;
        if in_time && finished.status.success() {
            return Ok(());
        }
        let status =
            if in_time { finished.status.to_string() } else { "it did not stop".to_owned() };
        let engine = std::mem::take(&mut self.title);
        Err(EngineError::Died { engine, status, message: String::new() })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.ended_within(Duration::ZERO) {
            self.signal(self.stop_signal);
            // Dropping it kills what has not ended by then.
            self.ended_within(GRACE);
        }
    }
}

/// A file for messages, which may exist from an earlier program of the run.
fn in_file(path: &Path) -> Result<File, EngineError> {
    OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .map_err(EngineError::file("open", path))
}

/// The same in memory.
fn in_memory() -> io::Result<File> {
    let file = memfd_create("messages", MemfdFlags::CLOEXEC)?;
    // The program writes through a duplicate, which shares the position that reading here moves.
    fcntl_setfl(&file, OFlags::APPEND)?;
    Ok(file.into())
}

/// The last whole lines, without repetitions of the line before. An engine that runs out of disk
/// space reports that first, and then many consequences, so such a line is quoted even when it is
/// far back.
fn quoted(text: &str) -> String {
    let text = text.trim();
    let mut cut = text.len().saturating_sub(QUOTED);
    if cut > 0 {
        // Begin at the first whole line; if there is only a part of one very long line, keep that.
        cut = text
            .bytes()
            .skip(cut)
            .position(|b| b == b'\n')
            .map_or_else(|| text.ceil_char_boundary(cut), |newline| cut + newline + 1);
    }
    let (before, last) = text.split_at(cut);
    let mut lines: Vec<&str> = last.lines().collect();
    lines.dedup();
    if !lines.iter().any(|line| names_full_disk(line)) {
        let full = before.lines().find(|line| names_full_disk(line));
        lines.splice(..0, full);
    }
    lines.join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reported_again_and_again_is_reported_once() {
        assert_eq!(
            quoted("\nstarting up\nstarting up\nready\nstarting up\n"),
            "starting up | ready | starting up"
        );
    }

    #[test]
    fn the_line_that_names_a_full_disk_is_quoted_however_much_follows() {
        let full = "FATAL: could not write to file: No space left on device";
        let consequence = "PANIC: cannot abort transaction 1, it was already committed";
        let much = "WARNING: terminating\nDETAIL: another\n".repeat(100);
        let message = quoted(&format!("starting up\n{full}\n{consequence}\n{much}aborted\n"));
        assert!(message.starts_with(full) && message.ends_with("aborted"), "{message}");
        assert!(message.len() < 500, "{message}");
        assert_eq!(quoted(&format!("{full}\naborted")), format!("{full} | aborted"));
    }

    #[test]
    fn one_long_line_is_cut_and_not_lost() {
        assert_eq!(quoted(&"x".repeat(1000)), "x".repeat(QUOTED));
    }
}

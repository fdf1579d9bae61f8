//! Waits until a server is ready: repeats a command until it succeeds.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use numapilot_place::Prepared;

use super::listeners::Listeners;
use super::watched::{Memory, Watched};
use super::{RunError, tail};

/// Pause after the first attempt. Each later pause is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// Time that an attempt has without a server: one that waits for a server does not succeed.
const WITHOUT_SERVER: Duration = Duration::from_secs(5);
/// Statuses of a shell for a command that it cannot run.
const CANNOT_RUN: [i32; 2] = [126, 127];

/// Why a server is not ready although the command has succeeded.
const ANOTHER_ANSWERS: &str = "it succeeded, but the server listens on no socket, and another \
    process has begun to listen since its start: another server answered";

/// How the wait ended.
#[derive(Debug)]
pub enum Readiness {
    /// The command succeeded.
    Ready,
    /// The server ended before.
    Ended,
    /// The time is over; how the last attempt ended.
    TooLate(String),
}

/// The command that asks a server whether it is ready.
#[derive(Debug)]
pub struct Ready<'a> {
    /// It, as the user wrote it.
    pub text: &'a str,
    /// It, prepared.
    pub command: &'a Prepared,
    /// Ends the wait when it becomes true.
    pub interrupted: &'a AtomicBool,
    /// Who listened before the server was started.
    pub before: Listeners,
}

impl Ready<'_> {
    /// Checks, before a server is started, that the command can be run and does not succeed: another
    /// server would get the load. Returns whether the command itself waits for a server, so that
    /// another check would take as long.
    pub fn check(&self) -> Result<bool, RunError> {
        let unusable = |what: String| RunError::Ready { command: self.text.to_owned(), what };
        match self.attempt(None, WITHOUT_SERVER)? {
            Attempt::Succeeded => Err(unusable(
                "succeeds although the server is not started: another server answers, or the \
                 command does not ask the server; stop the other server, or give a command that \
                 fails until the server is ready (pg_isready, redis-cli ping, curl -sf URL)"
                    .to_owned(),
            )),
            Attempt::Failed { code: Some(code), how } if CANNOT_RUN.contains(&code) => {
                Err(unusable(format!("cannot be run: {how}")))
            }
            Attempt::TooLate => Ok(true),
            Attempt::Failed { .. } | Attempt::ServerEnded => Ok(false),
        }
    }

    /// Repeats the command until it succeeds or `limit` is over.
    pub fn wait(&self, server: &mut Watched, limit: Duration) -> Result<Readiness, RunError> {
        let deadline = Instant::now() + limit;
        let left = || deadline.saturating_duration_since(Instant::now());
        let mut last = "it did not end".to_owned();
        let mut pause = FIRST_PAUSE;
        loop {
            match self.attempt(Some(server), left())? {
                Attempt::Succeeded if self.before.only_others(&server.pids()) => {
                    ANOTHER_ANSWERS.clone_into(&mut last);
                }
                Attempt::Succeeded => return Ok(Readiness::Ready),
                Attempt::ServerEnded => return Ok(Readiness::Ended),
                Attempt::TooLate => return Ok(Readiness::TooLate(last)),
                Attempt::Failed { how, .. } => last = how,
            }
            let again = Instant::now() + pause.min(left());
            while Instant::now() < again {
                self.check_interrupted()?;
                let rest = again.saturating_duration_since(Instant::now());
                if Watched::wait_any(&mut [&mut *server], rest)? {
                    return Ok(Readiness::Ended);
                }
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
            if left().is_zero() {
                return Ok(Readiness::TooLate(last));
            }
        }
    }

    /// Runs the command once, beside the server if there is one.
    fn attempt(
        &self,
        mut server: Option<&mut Watched>,
        limit: Duration,
    ) -> Result<Attempt, RunError> {
        let mut attempt = Watched::start(self.command, Stdio::null(), None, Memory::Unmeasured)?;
        loop {
            self.check_interrupted()?;
            let left = limit.saturating_sub(attempt.age());
            let ended = match server.as_deref_mut() {
                Some(server) => Watched::wait_any(&mut [server, &mut attempt], left)?,
                None => Watched::wait_any(&mut [&mut attempt], left)?,
            };
            if ended
                && let Some(server) = server.as_deref()
                && server.has_ended()?
            {
                return Ok(Attempt::ServerEnded);
            }
            if attempt.has_ended()? {
                break;
            }
            if left.is_zero() {
                return Ok(Attempt::TooLate);
            }
        }
        let execution = attempt.finish()?;
        let Some(failure) = execution.failure() else { return Ok(Attempt::Succeeded) };
        let how = match tail(&execution.text).lines().last() {
            Some(line) => format!("{failure}: {line}"),
            None => failure.to_string(),
        };
        Ok(Attempt::Failed { code: execution.finished.status.code(), how })
    }

    fn check_interrupted(&self) -> Result<(), RunError> {
        match self.interrupted.load(Ordering::Relaxed) {
            true => Err(RunError::Interrupted),
            false => Ok(()),
        }
    }
}

/// How one attempt ended.
enum Attempt {
    Succeeded,
    Failed {
        /// The exit status, if no signal ended it.
        code: Option<i32>,
        /// The same in words, with the last line that it printed.
        how: String,
    },
    ServerEnded,
    TooLate,
}

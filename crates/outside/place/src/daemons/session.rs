//! Daemons that run, and what they say at their end.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use numapilot_sys::process::PidFd;
use numapilot_sys::spawn;

use super::outcome::{Outcome, State};

/// Time between SIGTERM and SIGKILL. A daemon puts back what it has changed, thread by thread.
const GRACE: Duration = Duration::from_secs(10);
/// The most of a daemon's messages that is read, from the end.
const LONGEST: u64 = 64 << 10;

/// The daemons of one program. They are stopped when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Session(Vec<Daemon>);

#[derive(Debug)]
struct Daemon {
    verb: &'static str,
    started: io::Result<Started>,
}

#[derive(Debug)]
struct Started {
    process: PidFd,
    /// What it writes on standard error. The file has no name.
    messages: File,
    stopped: bool,
}

impl Session {
    /// Starts daemons for a process. One that cannot be started is reported by [`Session::finish`].
    pub fn start(program: &Path, verbs: &[&'static str], pid: i32) -> Self {
        let start = |&verb| Daemon { verb, started: Started::new(program, verb, pid) };
        Self(verbs.iter().map(start).collect())
    }

    /// Stops the daemons, right after the program has ended or when its plan no longer applies.
    /// Returns whether each was in effect until then.
    pub fn finish(mut self) -> Vec<Outcome> {
        // All of them at first: stopping one takes time, in which another may end by itself.
        let running: Vec<bool> = self.0.iter().map(Daemon::runs).collect();
        let daemons = self.0.iter_mut().zip(running);
        daemons
            .map(|(daemon, runs)| Outcome { verb: daemon.verb, state: daemon.end(runs) })
            .collect()
    }
}

impl Daemon {
    fn runs(&self) -> bool {
        let ended = |started: &Started| started.process.ended_within(Some(Duration::ZERO));
        self.started.as_ref().is_ok_and(|started| ended(started).is_ok_and(|ended| !ended))
    }

    /// Stops the daemon, which ran until now or did not.
    fn end(&mut self, runs: bool) -> State {
        let verb = self.verb;
        match &mut self.started {
            Err(error) => State::Failed(format!("numapilot {verb} could not be started: {error}")),
            Ok(started) => match started.stop() {
                Ok(messages) => State::of(verb, &messages, runs),
                Err(error) => State::Failed(format!("numapilot {verb}: {error}")),
            },
        }
    }
}

impl Started {
    fn new(program: &Path, verb: &str, pid: i32) -> io::Result<Self> {
        let messages = tempfile::tempfile()?;
        let mut command = Command::new(program);
        command.args(["--color", "never", verb, "-p", &pid.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages.try_clone()?);
        let process = spawn::detached(&mut command)?.open()?;
        Ok(Self { process, messages, stopped: false })
    }

    /// Stops it and returns what it has said.
    fn stop(&mut self) -> io::Result<String> {
        self.end()?;
        let length = self.messages.metadata()?.len();
        self.messages.seek(SeekFrom::Start(length.saturating_sub(LONGEST)))?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut self.messages).take(LONGEST).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn end(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.stopped, true) {
            return Ok(());
        }
        // It may have ended by itself.
        let _ = self.process.signal(libc::SIGTERM);
        if self.process.ended_within(Some(GRACE))? {
            return Ok(());
        }
        let _ = self.process.signal(libc::SIGKILL);
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("it did not end within {} s and was killed", GRACE.as_secs()),
        ))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // An error can be reported nowhere.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_cannot_be_started_is_reported() {
        let seen = Session::start(Path::new("/nonexistent"), &["cores"], 1).finish();
        let note = seen[0].note().unwrap().to_string();
        assert!(note.starts_with("daemons cores: "), "{note}");
        assert!(note.contains("numapilot cores could not be started"), "{note}");
    }

    #[test]
    fn a_daemon_that_ends_before_the_program_is_reported() {
        let session = Session::start(Path::new("/bin/false"), &["cores"], 1);
        numapilot_test_kit::wait_until("it runs on", || !session.0[0].runs());
        let note = session.finish()[0].note().unwrap().to_string();
        assert!(note.contains("ended before the program, without a message"), "{note}");
    }
}

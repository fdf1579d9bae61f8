//! Daemons that run, and what they say at their end.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use numapilot_sys::process::PidFd;
use numapilot_sys::spawn;
use rustix::fs::{MemfdFlags, memfd_create};

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
    /// `None` if it ended before it could be opened.
    process: Option<Arc<PidFd>>,
    /// What it writes on standard error. The file has no name.
    messages: File,
    is_stopping: Arc<AtomicBool>,
    /// Returns whether the daemon ended by itself while the program ran.
    ended_early: Option<JoinHandle<bool>>,
}

impl Session {
    /// Starts daemons for a process. One that cannot be started is reported by [`Session::finish`].
    pub fn start(program: &Path, verbs: &[&'static str], pid: i32) -> Self {
        let start = |&verb| Daemon { verb, started: Started::new(program, verb, pid) };
        Self(verbs.iter().map(start).collect())
    }

    /// Stops the daemons, after the program has ended or when its plan no longer applies. Returns
    /// whether each was in effect until then.
    pub fn finish(mut self) -> Vec<Outcome> {
        let daemons = self.0.iter_mut();
        daemons.map(|daemon| Outcome { verb: daemon.verb, state: daemon.end() }).collect()
    }
}

impl Daemon {
    fn end(&mut self) -> State {
        let verb = self.verb;
        match &mut self.started {
            Err(error) => State::Failed(format!("numapilot {verb} could not be started: {error}")),
            Ok(started) => match started.stop() {
                Ok((messages, ended_early)) => State::of(verb, &messages, ended_early),
                Err(error) => State::Failed(format!("numapilot {verb}: {error}")),
            },
        }
    }
}

impl Started {
    fn new(program: &Path, verb: &str, pid: i32) -> io::Result<Self> {
        let target = PidFd::open(pid)?;
        // In memory, so that a full disk loses no message.
        let messages = File::from(memfd_create("messages", MemfdFlags::CLOEXEC)?);
        let mut command = Command::new(program);
        command.args(["--color", "never", verb, "-p", &pid.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages.try_clone()?);
        let process = spawn::detached(&mut command)?.open()?.map(Arc::new);
        let is_stopping = Arc::new(AtomicBool::new(false));
        let (of_thread, stopping) = (process.clone(), Arc::clone(&is_stopping));
        let watch = move || {
            let _ = of_thread.map(|process| process.ended_within(None));
            // A daemon ends by itself when the program has ended, or a moment before it is stopped
            // here. Otherwise it has failed.
            let has_program_ended = target.ended_within(Some(Duration::ZERO)).unwrap_or(true);
            !has_program_ended && !stopping.load(Ordering::Acquire)
        };
        let watch = thread::Builder::new().name("watch-daemon".to_owned()).spawn(watch)?;
        Ok(Self { process, messages, is_stopping, ended_early: Some(watch) })
    }

    /// Stops it. Returns what it has said, and whether it had ended by itself.
    fn stop(&mut self) -> io::Result<(String, bool)> {
        let ended_early = self.end()?;
        let length = self.messages.metadata()?.len();
        self.messages.seek(SeekFrom::Start(length.saturating_sub(LONGEST)))?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut self.messages).take(LONGEST).read_to_end(&mut bytes)?;
        Ok((String::from_utf8_lossy(&bytes).into_owned(), ended_early))
    }

    fn end(&mut self) -> io::Result<bool> {
        let Some(watch) = self.ended_early.take() else { return Ok(false) };
        if let Some(process) = &self.process {
            if !process.ended_within(Some(Duration::ZERO))? {
                self.is_stopping.store(true, Ordering::Release);
                // It may end by itself between the two calls.
                let _ = process.signal(libc::SIGTERM);
            }
            if !process.ended_within(Some(GRACE))? {
                let _ = process.signal(libc::SIGKILL);
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("it did not end within {} s and was killed", GRACE.as_secs()),
                ));
            }
        }
        Ok(watch.join().unwrap_or(false))
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
        let mut program = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = program.id().cast_signed();
        let started = || Started::new(Path::new("/bin/true"), "cores", pid).unwrap();
        let wait = |started: &Started| {
            started.process.iter().for_each(|process| {
                process.ended_within(None).unwrap();
            });
        };
        let mut early = started();
        wait(&early);
        numapilot_test_kit::wait_until("it is not noticed", || {
            early.ended_early.as_ref().is_some_and(JoinHandle::is_finished)
        });
        assert_eq!(early.stop().unwrap(), (String::new(), true));
        program.kill().unwrap();
        // It has ended, and is not waited for yet.
        PidFd::open(pid).unwrap().ended_within(None).unwrap();
        let mut late = started();
        wait(&late);
        assert_eq!(late.stop().unwrap(), (String::new(), false));
        program.wait().unwrap();
    }
}

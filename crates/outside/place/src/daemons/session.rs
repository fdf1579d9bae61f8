//! Daemons that run, and what they say at their end.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use numapilot_sys::process::PidFd;
use numapilot_sys::spawn;

use crate::effect::{Effect, Seen};

/// Time between SIGTERM and SIGKILL. A daemon puts back what it has changed, thread by thread.
const GRACE: Duration = Duration::from_secs(10);
/// The most of a daemon's messages that is read, from the end.
const LONGEST: u64 = 64 << 10;

/// What `balance` says about a program that ended before its first interval was over.
pub const NOTHING_YET: &str =
    "it ended before the first interval (--interval) was over, so nothing was moved";

const TOO_SHORT: &str = "the program ended before the daemon had begun";
const REMEDY: &str = "numapilot doctor shows what it needs";

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
    pub fn finish(mut self) -> Vec<Seen> {
        // All of them at first: stopping one takes time, in which another may end by itself.
        let running: Vec<bool> = self.0.iter().map(Daemon::runs).collect();
        let daemons = self.0.iter_mut().zip(running);
        daemons
            .map(|(daemon, runs)| Seen {
                setting: format!("daemons {}", daemon.verb),
                effect: daemon.effect(runs),
                is_of_program: false,
            })
            .collect()
    }
}

impl Daemon {
    fn runs(&self) -> bool {
        let ended = |started: &Started| started.process.ended_within(Some(Duration::ZERO));
        self.started.as_ref().is_ok_and(|started| ended(started).is_ok_and(|ended| !ended))
    }

    /// Stops the daemon, which ran until now or did not.
    fn effect(&mut self, runs: bool) -> Effect {
        let not = |cause: String| Effect::NotInEffect { cause, remedy: REMEDY.to_owned() };
        match &mut self.started {
            Err(error) => not(format!("numapilot {} could not be started: {error}", self.verb)),
            Ok(started) => match started.stop() {
                Ok(messages) => effect(self.verb, &messages, runs),
                Err(error) => not(format!("numapilot {}: {error}", self.verb)),
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

/// The effect of a daemon by its messages. A summary at the end is the evidence. A daemon that did
/// not run until the end of the program has failed, unless it has only seen that end first.
fn effect(verb: &str, messages: &str, ran: bool) -> Effect {
    let line = |line: &str| line.strip_prefix("numapilot: ").unwrap_or(line).trim().to_owned();
    let lines: Vec<String> = messages.lines().map(line).filter(|line| !line.is_empty()).collect();
    let own = format!("{verb}: ");
    let summary = lines.iter().rev().find_map(|line| line.strip_prefix(&own));
    let complaint = lines.iter().rev().find(|line| !line.starts_with(&own));
    let complaint = complaint.map(|line| line.split_once(": ").map_or(&**line, |(_, text)| text));
    let early = |why: &str| Effect::NotInEffect {
        cause: format!("numapilot {verb} ended before the program{why}"),
        remedy: REMEDY.to_owned(),
    };
    match (summary, complaint) {
        (_, Some(complaint)) if !ran => early(&format!(": {complaint}")),
        (None, None) if !ran => early(", without a message"),
        (None | Some(NOTHING_YET), _) => Effect::Unseen { cause: TOO_SHORT.to_owned() },
        (Some(summary), None) => Effect::InEffect { seen: summary.to_owned() },
        (Some(summary), Some(other)) => Effect::InEffect { seen: format!("{summary}; {other}") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_failed_is_not_in_effect() {
        let of = |messages: &str, ran| effect("balance", messages, ran);
        let summary = "numapilot: balance: 12 MiB moved by 90 samples in 3 intervals\n";
        let seen = "12 MiB moved by 90 samples in 3 intervals".to_owned();
        assert_eq!(of(summary, true), Effect::InEffect { seen: seen.clone() });
        // It saw the end of the program first.
        assert_eq!(of(summary, false), Effect::InEffect { seen: seen.clone() });
        let warned = format!("numapilot: warning: process 7 is left: no permission\n{summary}");
        let seen = format!("{seen}; process 7 is left: no permission");
        assert_eq!(of(&warned, true), Effect::InEffect { seen });
        assert!(matches!(of(&warned, false), Effect::NotInEffect { .. }));
        let early = format!("numapilot: balance: {NOTHING_YET}\n");
        assert!(matches!(of(&early, true), Effect::Unseen { .. }));
        assert!(matches!(of("", true), Effect::Unseen { .. }));
        let Effect::NotInEffect { cause, .. } = of("numapilot: error: no samples\n", false) else {
            panic!("a failure is no effect");
        };
        assert_eq!(cause, "numapilot balance ended before the program: no samples");
        assert!(matches!(of("", false), Effect::NotInEffect { .. }));
    }

    #[test]
    fn a_daemon_that_cannot_be_started_is_reported() {
        let seen = Session::start(Path::new("/nonexistent"), &["cores"], 1).finish();
        assert_eq!(seen[0].setting, "daemons cores");
        let note = seen[0].note().unwrap().to_string();
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

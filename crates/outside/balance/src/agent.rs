//! Asks processes of a target to spread memory that they have not touched yet, or to have no huge
//! pages in it: the launcher's side of `numapilot_bind::agent`.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use numapilot_bind::agent::{Action, NODE_WORDS, Request, Requests, WORDS};
use numapilot_sys::shared::SharedWords;
use numapilot_topology::NodeSet;
use tempfile::NamedTempFile;

/// How long to wait for an agent: all CPUs can be busy.
const PATIENCE: Duration = Duration::from_millis(200);
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// The agents of a target's processes. The file is private to the user (0600) and removed when
/// this is dropped.
#[derive(Debug)]
pub struct Agents {
    file: NamedTempFile,
    words: SharedWords,
}

impl Agents {
    /// Creates the file.
    ///
    /// # Errors
    /// The errors of the file system.
    pub fn new() -> io::Result<Self> {
        let file = numapilot_place::shared_memory("agent", WORDS * size_of::<u64>())?;
        let words = SharedWords::map(file.as_file())?;
        Ok(Self { file, words })
    }

    /// The file, whose path processes get through their environment.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Spreads memory of a process over these nodes on first touch; without nodes, memory follows
    /// the process's policy again. Memory that has been touched stays where it is.
    ///
    /// # Errors
    /// `TimedOut` if the process has no agent, else the errors of mbind(2).
    pub fn spread(&self, pid: i32, start: u64, bytes: u64, nodes: &NodeSet) -> io::Result<()> {
        let mut request = Request { pid: pid.unsigned_abs(), start, bytes, ..Request::default() };
        request.nodes.iter_mut().zip(nodes.as_words()).for_each(|(to, from)| *to = *from);
        self.ask(&request)
    }

    /// Forbids huge pages in memory of a process, so that khugepaged does not collapse pages that
    /// were split. Huge pages that are there stay.
    ///
    /// # Errors
    /// `TimedOut` if the process has no agent, else the errors of madvise(2).
    pub fn forbid_huge_pages(&self, pid: i32, start: u64, bytes: u64) -> io::Result<()> {
        let (pid, action, nodes) = (pid.unsigned_abs(), Action::NoHugePages, [0; NODE_WORDS]);
        self.ask(&Request { pid, start, bytes, action, nodes })
    }

    /// Posts a request and waits for its answer.
    fn ask(&self, request: &Request) -> io::Result<()> {
        let requests = Requests::within(self.words.as_ref())
            .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        let round = requests.post(request);
        numapilot_sys::shared::wake_all(requests.bell());
        let begun = Instant::now();
        loop {
            match requests.answered(round) {
                Some(0) => return Ok(()),
                Some(errno) => return Err(io::Error::from_raw_os_error(errno.cast_signed())),
                None if begun.elapsed() > PATIENCE => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                None => std::thread::sleep(LOOK_AGAIN),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use numapilot_test_kit::wait_until;
    use numapilot_topology::NodeId;

    use super::*;

    #[test]
    fn an_agent_is_asked_and_answers() {
        let agents = Agents::new().unwrap();
        let mode = std::fs::metadata(agents.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let file = std::fs::OpenOptions::new().read(true).write(true).open(agents.path()).unwrap();
        let agent = std::thread::spawn(move || {
            let words = SharedWords::map(&file).unwrap();
            let requests = Requests::within(words.as_ref()).unwrap();
            wait_until("a request", || requests.round() != 0);
            let request = requests.read(1, 5).unwrap();
            requests.answer(1, 0);
            request
        });
        let nodes = [NodeId(0), NodeId(65)].into_iter().collect();
        agents.spread(5, 4096, 8192, &nodes).unwrap();
        let request = agent.join().unwrap();
        assert_eq!(
            (request.start, request.bytes, &request.nodes[..3]),
            (4096, 8192, &[1, 2, 0][..])
        );
        // No agent answers any more.
        let error = agents.spread(5, 0, 0, &nodes).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let path = agents.path().to_owned();
        drop(agents);
        assert!(!path.exists());
    }
}

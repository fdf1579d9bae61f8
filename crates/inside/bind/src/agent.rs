//! Requests from a launcher to the running processes of a target: to spread memory over nodes that
//! they have not touched yet, or to have base pages only. Only the process itself can do that
//! (mbind(2) takes no process id, and process_madvise(2) takes no `MADV_NOHUGEPAGE`).
//!
//! ```text
//!  launcher: request, round + 1, futex wake --> agent of each process: if it is addressed: mbind or madvise, answer
//!        ^                                                                                     |
//!        '------------------------- answered: round and errno ---------------------------------'
//! ```
//!
//! The launcher creates the file (all zero means no request) and posts one request at a time.
//! Processes map it shared. All words are atomics, so a process that dies leaves nothing locked.

use core::sync::atomic::{AtomicU64, Ordering};

/// Number of words in the file.
pub const WORDS: usize = 32;
/// Number of words in a set of nodes: Linux has at most 1024 nodes.
pub const NODE_WORDS: usize = 16;

/// The number of the last request, in both halves of the word. A futex is one of the halves.
const ROUND: usize = 0;
/// The number of the request that was answered last, with the errno in the upper half.
const ANSWERED: usize = 1;
const PID: usize = 2;
const START: usize = 3;
const BYTES: usize = 4;
const ACTION: usize = 5;
const NODES: usize = 6;

/// What to do with the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u64)]
pub enum Action {
    /// To spread it over nodes on first touch.
    #[default]
    Spread,
    /// To have base pages only: khugepaged collapses none of them (`MADV_NOHUGEPAGE`).
    NoHugePages,
}

impl Action {
    const fn of(word: u64) -> Option<Self> {
        match word {
            0 => Some(Self::Spread),
            1 => Some(Self::NoHugePages),
            _ => None,
        }
    }
}

/// A request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The process that it addresses.
    pub pid: u32,
    /// The first byte of the memory, which begins a page.
    pub start: u64,
    /// Its length, in whole pages.
    pub bytes: u64,
    /// What to do with it.
    pub action: Action,
    /// The nodes over which to spread it, as a mask for mbind(2). Without nodes, it follows the
    /// policy of the process.
    pub nodes: [u64; NODE_WORDS],
}

/// The file of requests.
#[derive(Clone, Copy, Debug)]
pub struct Requests<'a>(&'a [AtomicU64; WORDS]);

impl<'a> Requests<'a> {
    /// The file in these words, or `None` if there are too few.
    #[must_use]
    pub fn within(words: &'a [AtomicU64]) -> Option<Self> {
        words.first_chunk().map(Self)
    }

    /// Posts a request and returns its number. The caller must then wake those who wait for
    /// [`Requests::bell`].
    #[must_use]
    pub fn post(self, request: &Request) -> u32 {
        let round = self.round().wrapping_add(1);
        self.put(PID, u64::from(request.pid));
        self.put(START, request.start);
        self.put(BYTES, request.bytes);
        self.put(ACTION, request.action as u64);
        for (at, word) in request.nodes.iter().enumerate() {
            self.put(NODES + at, *word);
        }
        self.0[ROUND].store(u64::from(round) << 32 | u64::from(round), Ordering::Release);
        round
    }

    /// The number of the last request.
    #[must_use]
    pub fn round(self) -> u32 {
        self.0[ROUND].load(Ordering::Acquire) as u32
    }

    /// The word that changes with every request. A futex is one half of it.
    #[must_use]
    pub const fn bell(self) -> &'a AtomicU64 {
        &self.0[ROUND]
    }

    /// The request with this number, or `None` if it addresses another process or has been
    /// replaced.
    #[must_use]
    pub fn read(self, round: u32, pid: u32) -> Option<Request> {
        let word = |at: usize| self.0[at].load(Ordering::Acquire);
        let mut nodes = [0; NODE_WORDS];
        nodes.iter_mut().enumerate().for_each(|(at, node)| *node = word(NODES + at));
        let asked = u32::try_from(word(PID)).ok()?;
        let action = Action::of(word(ACTION))?;
        let request = Request { pid: asked, start: word(START), bytes: word(BYTES), action, nodes };
        (self.round() == round && asked == pid).then_some(request)
    }

    /// Answers a request: 0, or the errno with which it failed.
    pub fn answer(self, round: u32, errno: u32) {
        self.put(ANSWERED, u64::from(errno) << 32 | u64::from(round));
    }

    /// The answer to a request: 0, or the errno with which it failed. `None` while there is no
    /// answer.
    #[must_use]
    pub fn answered(self, round: u32) -> Option<u32> {
        let word = self.0[ANSWERED].load(Ordering::Acquire);
        (word as u32 == round).then_some((word >> 32) as u32)
    }

    fn put(self, at: usize, value: u64) {
        self.0[at].store(value, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_asked_reads_and_only_the_last_request() {
        let words = [const { AtomicU64::new(0) }; WORDS];
        let requests = Requests::within(&words).unwrap();
        let action = Action::NoHugePages;
        let request = Request { pid: 7, start: 4096, bytes: 8192, action, nodes: [5; NODE_WORDS] };
        let first = requests.post(&request);
        assert_eq!(requests.read(first, 7), Some(request));
        assert_eq!(requests.read(first, 8), None);
        assert_eq!(requests.answered(first), None);
        requests.answer(first, 14);
        assert_eq!(requests.answered(first), Some(14));
        let second = requests.post(&Request { start: 0, ..request });
        assert_eq!((requests.read(first, 7), requests.answered(second)), (None, None));
        assert!(Requests::within(&words[1..]).is_none());
        // An action that this version does not know is not carried out.
        words[ACTION].store(9, Ordering::Relaxed);
        assert_eq!(requests.read(second, 7), None);
    }
}

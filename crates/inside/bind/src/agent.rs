//! What a launcher asks of the processes of a target while they run: to have memory that they will
//! touch from now on spread over nodes. Only a process itself can do that (mbind(2) has no number
//! of a process).
//!
//! ```text
//!  launcher: request, round + 1, futex wake --> the agent of every process: mine? mbind, answer
//!        ^                                                                          |
//!        '------------------------- answered: round and errno ----------------------'
//! ```
//!
//! The launcher makes the file (zeroes are no request) and posts one request at a time; processes
//! map it shared. All words are atomics, so whoever dies half way leaves nothing locked.

use core::sync::atomic::{AtomicU64, Ordering};

/// Words of the file.
pub const WORDS: usize = 32;
/// Words of a set of nodes: Linux knows 1024.
pub const NODE_WORDS: usize = 16;

/// The number of the last request, in both halves: a futex is one of them.
const ROUND: usize = 0;
/// The number of the request that was answered last, with the errno above it.
const ANSWERED: usize = 1;
const PID: usize = 2;
const START: usize = 3;
const BYTES: usize = 4;
const NODES: usize = 5;

/// What is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Of whom.
    pub pid: u32,
    /// The first byte of the memory, at a page.
    pub start: u64,
    /// Its length, in whole pages.
    pub bytes: u64,
    /// Nodes it is to be spread over, as mbind(2) takes them; none: as the process's policy says.
    pub nodes: [u64; NODE_WORDS],
}

/// The file.
#[derive(Clone, Copy, Debug)]
pub struct Requests<'a>(&'a [AtomicU64; WORDS]);

impl<'a> Requests<'a> {
    /// In these words; `None` when there are too few.
    #[must_use]
    pub fn within(words: &'a [AtomicU64]) -> Option<Self> {
        words.first_chunk().map(Self)
    }

    /// Asks; the number of the request. Whoever waits for [`Requests::bell`] has to be woken.
    #[must_use]
    pub fn post(self, request: &Request) -> u32 {
        let round = self.round().wrapping_add(1);
        self.put(PID, u64::from(request.pid));
        self.put(START, request.start);
        self.put(BYTES, request.bytes);
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

    /// What changes with every request: a futex on one half of it.
    #[must_use]
    pub const fn bell(self) -> &'a AtomicU64 {
        &self.0[ROUND]
    }

    /// The request of this number; `None` when it is another's, or has been replaced meanwhile.
    #[must_use]
    pub fn read(self, round: u32, pid: u32) -> Option<Request> {
        let word = |at: usize| self.0[at].load(Ordering::Acquire);
        let mut nodes = [0; NODE_WORDS];
        nodes.iter_mut().enumerate().for_each(|(at, node)| *node = word(NODES + at));
        let asked = u32::try_from(word(PID)).ok()?;
        let request = Request { pid: asked, start: word(START), bytes: word(BYTES), nodes };
        (self.round() == round && asked == pid).then_some(request)
    }

    /// Says that a request was done, or the errno that kept it from that.
    pub fn answer(self, round: u32, errno: u32) {
        self.put(ANSWERED, u64::from(errno) << 32 | u64::from(round));
    }

    /// The answer to a request: its errno, 0 when it was done; `None` as long as there is none.
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
        let request = Request { pid: 7, start: 4096, bytes: 8192, nodes: [5; NODE_WORDS] };
        let first = requests.post(&request);
        assert_eq!(requests.read(first, 7), Some(request));
        assert_eq!(requests.read(first, 8), None);
        assert_eq!(requests.answered(first), None);
        requests.answer(first, 14);
        assert_eq!(requests.answered(first), Some(14));
        let second = requests.post(&Request { start: 0, ..request });
        assert_eq!((requests.read(first, 7), requests.answered(second)), (None, None));
        assert!(Requests::within(&words[1..]).is_none());
    }
}

//! The mailbox: memory that guest and host share, through which process 1 calls the host.
//!
//! ```text
//!  word 0       1           2                3 ...            8 ...
//!  | magic | operation | length or result | (unused) | data, 8 bytes a word, first byte lowest |
//! ```
//!
//! The guest writes the operation, the length and the data, and executes the instruction of
//! [`numapilot_sys::mark::call_host`]. Before the guest's next instruction, the host serves the
//! call, writes the result (the length of its reply, or a negative errno), and clears the
//! operation. So a call takes only the simulated time of the guest's own instructions, and no
//! device interrupts the guest at a moment that depends on the host.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Size of the mailbox in bytes.
pub const BYTES: u64 = 64 << 10;
/// The largest size of a call's or a reply's data, in bytes.
pub const MOST: usize = BYTES as usize - DATA * 8;

const MAGIC: u64 = u64::from_le_bytes(*b"npmailbx");
const OPERATION: usize = 1;
const LENGTH: usize = 2;
const DATA: usize = 8;

/// The operation that the host performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Write the data to the program's standard output.
    Stdout,
    /// Write the data to the program's standard error.
    Stderr,
    /// Read available data of the program's standard input, without waiting.
    Stdin,
    /// Receive the data, a line with a [`Report`](crate::Report).
    Report,
    /// Return the lines with an [`Order`](crate::Order) that have arrived, without waiting.
    Orders,
}

impl Operation {
    const ALL: [Self; 5] = [Self::Stdout, Self::Stderr, Self::Stdin, Self::Report, Self::Orders];

    fn number(self) -> u64 {
        Self::ALL.iter().position(|operation| *operation == self).map_or(0, |at| at as u64 + 1)
    }

    fn from_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number.checked_sub(1)?).ok()?).copied()
    }
}

/// The mailbox; see the module documentation. `M` is its memory.
#[derive(Debug)]
pub struct Mailbox<M>(M);

impl<M: AsRef<[AtomicU64]>> Mailbox<M> {
    /// Makes a mailbox of zeroed memory, which must have [`BYTES`] bytes.
    pub fn create(memory: M) -> Self {
        memory.as_ref()[0].store(MAGIC, Relaxed);
        Self(memory)
    }

    /// The mailbox in this memory, if there is one.
    pub fn open(memory: M) -> Option<Self> {
        let words = memory.as_ref();
        let fits = words.len() as u64 * 8 >= BYTES;
        (fits && words[0].load(Relaxed) == MAGIC).then_some(Self(memory))
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        &self.0.as_ref()[index]
    }

    fn put_data(&self, data: &[u8]) {
        for (index, bytes) in data.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.word(DATA + index).store(u64::from_le_bytes(word), Relaxed);
        }
    }

    fn data(&self, length: usize) -> Vec<u8> {
        let words = length.min(MOST).div_ceil(8);
        let word = |index| self.word(DATA + index).load(Relaxed).to_le_bytes();
        let mut data: Vec<u8> = (0..words).flat_map(word).collect();
        data.truncate(length);
        data
    }

    /// Calls the host with the first [`MOST`] bytes of the data; `call` executes the instruction.
    /// Returns the host's reply.
    ///
    /// # Errors
    /// The error of the host's system call: `EAGAIN` if no data has arrived, `EPIPE` if the reader
    /// of an output has closed it. [`io::ErrorKind::Unsupported`] if no host has served the call.
    pub fn call(
        &self,
        operation: Operation,
        data: &[u8],
        call: impl FnOnce(),
    ) -> io::Result<Vec<u8>> {
        let data = &data[..data.len().min(MOST)];
        self.put_data(data);
        self.word(LENGTH).store(data.len() as u64, Relaxed);
        self.word(OPERATION).store(operation.number(), Relaxed);
        call();
        if self.word(OPERATION).swap(0, Relaxed) != 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let result = self.word(LENGTH).load(Relaxed).cast_signed();
        match usize::try_from(result) {
            Ok(length) => Ok(self.data(length)),
            Err(_) => Err(io::Error::from_raw_os_error((-result) as i32)),
        }
    }

    /// Serves the pending call of the guest, if there is one. The operation and the length that the
    /// guest has written are checked here; `serve` must not trust the data.
    pub fn serve(&self, serve: impl FnOnce(Operation, &[u8]) -> io::Result<Vec<u8>>) {
        let Some(operation) = Operation::from_number(self.word(OPERATION).load(Relaxed)) else {
            return;
        };
        let length = usize::try_from(self.word(LENGTH).load(Relaxed)).unwrap_or(MOST).min(MOST);
        let result = match serve(operation, &self.data(length)) {
            Ok(reply) => {
                let reply = &reply[..reply.len().min(MOST)];
                self.put_data(reply);
                reply.len() as i64
            }
            Err(error) => -i64::from(error.raw_os_error().unwrap_or(5)),
        };
        self.word(LENGTH).store(result.cast_unsigned(), Relaxed);
        self.word(OPERATION).store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn memory() -> Vec<AtomicU64> {
        (0..BYTES / 8).map(|_| AtomicU64::new(0)).collect()
    }

    proptest! {
        #[test]
        fn data_comes_and_goes_whole(
            sent in proptest::collection::vec(any::<u8>(), 0..100),
            reply in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let mailbox = Mailbox::create(memory());
            let serve = || mailbox.serve(|operation, data| {
                assert_eq!(operation, Operation::Stderr);
                assert_eq!(data, sent);
                Ok(reply.clone())
            });
            prop_assert_eq!(mailbox.call(Operation::Stderr, &sent, serve).unwrap(), reply.clone());
        }

        #[test]
        fn a_host_takes_whatever_the_guest_has_written(operation: u64, length: u64) {
            let memory = memory();
            let mailbox = Mailbox::create(&memory[..]);
            memory[OPERATION].store(operation, Relaxed);
            memory[LENGTH].store(length, Relaxed);
            let mut served = None;
            mailbox.serve(|operation, data| {
                served = Some((operation, data.len()));
                Ok(vec![0; 2 * MOST])
            });
            prop_assert_eq!(served.is_some(), (1..=5).contains(&operation));
            prop_assert!(served.is_none_or(|(_, bytes)| bytes <= MOST));
        }
    }

    #[test]
    fn errors_are_the_hosts() {
        let mailbox = Mailbox::create(memory());
        let refuse = || mailbox.serve(|_, _| Err(io::Error::from_raw_os_error(32)));
        let error = mailbox.call(Operation::Stdout, b"x", refuse).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(32));
        let error = mailbox.call(Operation::Stdout, b"x", || ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported, "there is no host");
        mailbox.serve(|_, _| panic!("a call is served once"));
    }

    #[test]
    fn other_memory_is_no_mailbox() {
        assert!(Mailbox::open(memory()).is_none());
        assert!(Mailbox::open(vec![AtomicU64::new(MAGIC)]).is_none());
        let memory = memory();
        Mailbox::create(&memory[..]);
        assert!(Mailbox::open(&memory[..]).is_some());
    }
}

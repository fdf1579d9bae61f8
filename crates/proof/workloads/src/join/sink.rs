//! Where the rows of a result go: they are counted, or written.

use super::answer::{Answer, Row};
use crate::WorkloadError;
use crate::w1::AllocationPattern;

/// Rows of a block that is a separate allocation: 4 KiB.
const BLOCK: usize = 256;
/// Rows of a chunk: 64 KiB, as for W1. An engine takes chunks from `malloc` and cuts its blocks
/// from them.
const CHUNK: usize = 16 * BLOCK;

/// Takes the rows that one thread finds.
pub trait Sink {
    /// An empty sink.
    fn new(pattern: AllocationPattern) -> Self;
    /// Takes a row.
    fn take(&mut self, small: u64, large: u64);
    /// The answer over the rows taken. Rows that were written are read and freed.
    ///
    /// # Errors
    /// [`WorkloadError::Malloc`] when rows could not be written.
    fn answer(self) -> Result<Answer, WorkloadError>;
}

/// Counts and adds up, as the published join does.
pub struct Counted {
    rows: u64,
    sum: u64,
}

impl Sink for Counted {
    fn new(_: AllocationPattern) -> Self {
        Self { rows: 0, sum: 0 }
    }

    #[inline]
    fn take(&mut self, small: u64, large: u64) {
        self.rows += 1;
        self.sum = self.sum.wrapping_add(small.wrapping_mul(large));
    }

    fn answer(self) -> Result<Answer, WorkloadError> {
        Ok(Answer::new(self.rows, self.sum))
    }
}

/// Writes the rows to memory from `malloc`, block by block.
pub struct Written {
    full: Vec<Vec<Row>>,
    open: Vec<Row>,
    length: usize,
    /// Rows for which there was no memory.
    lost: u64,
}

impl Written {
    /// Begins a new block; returns false when `malloc` fails.
    #[cold]
    fn begin(&mut self) -> bool {
        let mut block = Vec::new();
        if block.try_reserve_exact(self.length).is_err() || self.full.try_reserve(1).is_err() {
            self.lost += 1;
            return false;
        }
        let full = std::mem::replace(&mut self.open, block);
        if !full.is_empty() {
            self.full.push(full);
        }
        true
    }
}

impl Sink for Written {
    fn new(pattern: AllocationPattern) -> Self {
        let length = match pattern {
            AllocationPattern::Raw => BLOCK,
            AllocationPattern::Chunked => CHUNK,
        };
        Self { full: Vec::new(), open: Vec::new(), length, lost: 0 }
    }

    #[inline]
    fn take(&mut self, small: u64, large: u64) {
        if self.open.len() < self.open.capacity() || self.begin() {
            self.open.push([small, large]);
        }
    }

    fn answer(self) -> Result<Answer, WorkloadError> {
        let rows = || self.full.iter().flatten().chain(&self.open);
        let kept = (self.full.iter().map(Vec::len).sum::<usize>() + self.open.len()) as u64;
        if self.lost > 0 {
            let bytes = (kept + self.lost) * size_of::<Row>() as u64;
            return Err(WorkloadError::Malloc { what: "one thread's part of the result", bytes });
        }
        let product = |[small, large]: &Row| small.wrapping_mul(*large);
        Ok(Answer::new(kept, rows().map(product).fold(0, u64::wrapping_add)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_rows_are_those_counted() {
        for pattern in [AllocationPattern::Raw, AllocationPattern::Chunked] {
            for rows in [0u64, 1, 255, 256, 257, 10_000] {
                let (mut counted, mut written) = (Counted::new(pattern), Written::new(pattern));
                for row in 0..rows {
                    counted.take(row * 3, row + 1);
                    written.take(row * 3, row + 1);
                }
                let answer = written.answer().unwrap();
                assert_eq!(answer, counted.answer().unwrap());
                assert_eq!(answer.rows, rows);
            }
        }
    }
}

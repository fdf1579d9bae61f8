//! A group's buffer, under both allocation patterns.

use std::mem;

use typed_arena::Arena;

/// Values that grow one by one, in memory from a source.
pub trait Buffer: Default + Send {
    /// The origin of the memory, as given to a thread.
    type Home: Send;
    /// The same while that thread uses it.
    type Source;

    /// Turns a thread's home into a source.
    fn source(home: Self::Home) -> Self::Source;
    /// Appends values; takes new memory from the appending thread's source.
    fn put(&mut self, values: &[u64], source: &mut Self::Source);
    /// The position of the next value.
    fn tail(&mut self) -> *mut u64;
    /// All values.
    fn values(&mut self) -> &mut [u64];
}

/// The first capacity of a buffer, in values.
const LEAST: usize = 4;

/// Raw: each buffer comes from `malloc`. It doubles by a new allocation, a copy and a `free`, as
/// the study's `std::vector` does, and not by `realloc`. glibc serves `realloc` under the lock of
/// the arena that the old buffer came from, without its thread cache, so two threads that grow each
/// other's buffers would spend most of their time waiting.
impl Buffer for Vec<u64> {
    type Home = ();
    type Source = ();

    fn source((): ()) {}

    #[inline]
    fn put(&mut self, values: &[u64], (): &mut ()) {
        let length = self.len() + values.len();
        if length > self.capacity() {
            let mut grown = Vec::with_capacity(length.next_power_of_two().max(LEAST));
            grown.extend_from_slice(self);
            *self = grown;
        }
        self.extend_from_slice(values);
    }

    #[inline]
    fn tail(&mut self) -> *mut u64 {
        self.as_mut_ptr().wrapping_add(self.len())
    }

    fn values(&mut self) -> &mut [u64] {
        self
    }
}

/// Values of a chunk: 64 KiB.
const CHUNK: usize = 8 * 1024;

/// Buffers above this size are separate allocations: 32 KiB, as in the paper (4.1).
const LARGEST: usize = 4 * 1024;

/// Chunked: a piece of a thread's chunk.
#[derive(Debug, Default)]
pub struct Piece<'chunks> {
    room: &'chunks mut [u64],
    length: usize,
}

/// The chunks of one thread, which are all freed together at the end.
pub type Chunks = Arena<Box<[u64]>>;

/// Cuts buffers from the chunks of one thread.
pub struct Cutter<'chunks> {
    chunks: &'chunks Chunks,
    /// The unused end of the newest chunk.
    rest: &'chunks mut [u64],
    /// Outgrown pieces, by the logarithm of their length.
    free: [Vec<&'chunks mut [u64]>; LARGEST.trailing_zeros() as usize + 1],
}

impl<'chunks> Cutter<'chunks> {
    /// Room for `length` values, a power of two.
    fn cut(&mut self, length: usize) -> &'chunks mut [u64] {
        if length > LARGEST {
            return self.allocate(length);
        }
        if let Some(piece) = self.free[length.trailing_zeros() as usize].pop() {
            return piece;
        }
        if self.rest.len() < length {
            // The rest of the old chunk is lost: at most an eighth on average.
            self.rest = self.allocate(CHUNK);
        }
        let (piece, rest) = mem::take(&mut self.rest).split_at_mut(length);
        self.rest = rest;
        piece
    }

    fn allocate(&self, length: usize) -> &'chunks mut [u64] {
        self.chunks.alloc(vec![0; length].into_boxed_slice())
    }

    fn recycle(&mut self, piece: &'chunks mut [u64]) {
        if let Some(list) = self.free.get_mut(piece.len().trailing_zeros() as usize)
            && !piece.is_empty()
        {
            list.push(piece);
        }
    }
}

impl<'chunks> Buffer for Piece<'chunks> {
    type Home = &'chunks mut Chunks;
    type Source = Cutter<'chunks>;

    fn source(chunks: &'chunks mut Chunks) -> Cutter<'chunks> {
        Cutter { chunks, rest: &mut [], free: Default::default() }
    }

    #[inline]
    fn put(&mut self, values: &[u64], source: &mut Cutter<'chunks>) {
        let length = self.length + values.len();
        if length > self.room.len() {
            let room = source.cut(length.next_power_of_two().max(LEAST));
            room[..self.length].copy_from_slice(&self.room[..self.length]);
            source.recycle(mem::replace(&mut self.room, room));
        }
        self.room[self.length..length].copy_from_slice(values);
        self.length = length;
    }

    #[inline]
    fn tail(&mut self) -> *mut u64 {
        self.room.as_mut_ptr().wrapping_add(self.length)
    }

    fn values(&mut self) -> &mut [u64] {
        &mut self.room[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_hold_what_vectors_hold(appends in prop::collection::vec((0usize..20, 1usize..300), 1..300)) {
            let (mut left, mut right) = (Chunks::new(), Chunks::new());
            let mut sources = [Piece::source(&mut left), Piece::source(&mut right)];
            let mut pieces: Vec<Piece<'_>> = (0..20).map(|_| Piece::default()).collect();
            let mut vectors = vec![Vec::new(); 20];
            for (turn, (buffer, length)) in appends.into_iter().enumerate() {
                let values: Vec<u64> = (0..length as u64).map(|i| i * 1_000 + turn as u64).collect();
                // Two threads in turn: pieces move between their free lists.
                pieces[buffer].put(&values, &mut sources[turn % 2]);
                vectors[buffer].put(&values, &mut ());
            }
            for (piece, vector) in pieces.iter_mut().zip(&mut vectors) {
                prop_assert_eq!(piece.values(), vector.values());
            }
        }
    }
}

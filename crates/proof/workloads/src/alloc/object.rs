//! The allocated objects: blocks from the process's `malloc` with a tag in their first word.

use std::hint::black_box;

/// A block of memory, which is freed when it is dropped. Its tag is read before that.
#[derive(Debug, Default)]
pub struct Object {
    words: Vec<u64>,
    bytes: u64,
}

/// The size of a word, and therefore of the smallest object.
pub const WORD: u64 = size_of::<u64>() as u64;

impl Object {
    /// A block of `bytes`, rounded up to words. Only the first word is written.
    pub fn new(bytes: u64, tag: u64) -> Self {
        let count = bytes.div_ceil(WORD).max(1);
        // Sizes are at most some MiB.
        #[allow(clippy::cast_possible_truncation)]
        let mut words = Vec::with_capacity(count as usize);
        words.push(tag);
        // Without black_box, the compiler may remove an allocation whose contents are not used.
        Self { words: black_box(words), bytes: count * WORD }
    }

    /// Writes the tag into every word.
    pub fn fill(&mut self) {
        let tag = self.tag();
        self.words.resize(self.words.capacity(), tag);
        black_box(&mut self.words);
    }

    /// Grows the block to `bytes` (`realloc`) and keeps its contents.
    pub fn grow(&mut self, bytes: u64) {
        let count = bytes.div_ceil(WORD).max(1);
        // As above.
        #[allow(clippy::cast_possible_truncation)]
        let count = count as usize;
        let more = count.saturating_sub(self.words.len());
        self.words.reserve_exact(more);
        self.bytes = bytes.div_ceil(WORD).max(1) * WORD;
        black_box(&mut self.words);
    }

    /// Writes to the first word `times` times, each time to memory. Afterwards it holds the tag.
    pub fn write(&mut self, times: u64) {
        for _ in 0..times {
            let word = black_box(&mut self.words[0]);
            *word = word.wrapping_add(1);
        }
        let word = black_box(&mut self.words[0]);
        *word = word.wrapping_sub(times);
    }

    /// The first word, if all words that were written hold the same value.
    pub fn tag(&self) -> u64 {
        let words = black_box(&self.words);
        let (first, last) = (words.first().copied(), words.last().copied());
        first.filter(|_| first == last).unwrap_or_default()
    }

    /// Requested size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_keeps_its_tag() {
        let mut object = Object::new(1, 42);
        assert_eq!((object.bytes(), object.tag()), (8, 42));
        object.grow(100);
        assert_eq!((object.bytes(), object.tag()), (104, 42));
        object.write(7);
        object.fill();
        assert_eq!(object.tag(), 42);
        assert!(object.words.iter().all(|&word| word == 42));
    }

    #[test]
    fn a_damaged_object_shows() {
        let mut object = Object::new(64, 42);
        object.fill();
        *object.words.last_mut().unwrap() ^= 1;
        assert_ne!(object.tag(), 42);
    }
}

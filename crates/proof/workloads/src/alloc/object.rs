//! What is allocated: a block with a tag in its first word, from the process's `malloc`.

use std::hint::black_box;

/// A block of memory. Dropped, it is freed; its tag is read before.
#[derive(Debug, Default)]
pub struct Object {
    words: Vec<u64>,
    bytes: u64,
}

/// The size of a word and so of the smallest object.
pub const WORD: u64 = size_of::<u64>() as u64;

impl Object {
    /// A block of `bytes`, rounded up to words, in which the first word alone is written.
    pub fn new(bytes: u64, tag: u64) -> Self {
        let count = bytes.div_ceil(WORD).max(1);
        // Sizes are at most some MiB.
        #[allow(clippy::cast_possible_truncation)]
        let mut words = Vec::with_capacity(count as usize);
        words.push(tag);
        // The compiler may leave out an allocation whose content nobody sees.
        Self { words: black_box(words), bytes: count * WORD }
    }

    /// Writes the tag into every word.
    pub fn fill(&mut self) {
        let tag = self.tag();
        self.words.resize(self.words.capacity(), tag);
        black_box(&mut self.words);
    }

    /// Grows the block to `bytes` (`realloc`), its content staying what it was.
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

    /// Writes to the first word `times` over, to memory each time; it is the tag afterwards.
    pub fn write(&mut self, times: u64) {
        for _ in 0..times {
            let word = black_box(&mut self.words[0]);
            *word = word.wrapping_add(1);
        }
        let word = black_box(&mut self.words[0]);
        *word = word.wrapping_sub(times);
    }

    /// What the first word holds, if all words that were written hold the same.
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

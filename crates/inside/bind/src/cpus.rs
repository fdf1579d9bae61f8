//! Ordered CPU lists and CPU masks of fixed size, for use without an allocator.

use core::fmt;

/// Number of supported CPUs: the largest `NR_CPUS` of a mainline kernel (`MAXSMP` on x86).
pub const MAX_CPUS: usize = 8192;

/// CPUs in the order in which threads take them.
pub struct CpuList {
    cpus: [u16; MAX_CPUS],
    len: usize,
}

/// Why a CPU list cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuListError {
    /// No CPU at all.
    Empty,
    /// Something that is neither a number nor a range.
    Malformed,
    /// A CPU number at or above [`MAX_CPUS`], or more entries than that.
    TooLarge,
    /// A range whose end is before its start.
    Backwards,
    /// The same CPU twice.
    Repeated,
}

impl fmt::Display for CpuListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl CpuListError {
    /// Cause and remedy.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::Empty => "no CPU in the list; write a list such as 0,4,8,1-3",
            Self::Malformed => "neither a number nor a range; write a list such as 0,4,8,1-3",
            Self::TooLarge => "CPU numbers end at 8191",
            Self::Backwards => "a range runs backwards; write the CPUs one by one",
            Self::Repeated => "a CPU is named twice; name each once",
        }
    }
}

impl CpuList {
    /// No CPUs.
    #[must_use]
    pub const fn new() -> Self {
        Self { cpus: [0; MAX_CPUS], len: 0 }
    }

    /// Reads an ordered list such as `0,4,8,1-3` into `self`.
    ///
    /// # Errors
    /// [`CpuListError`]; the list is empty then.
    pub fn parse(&mut self, text: &[u8]) -> Result<(), CpuListError> {
        self.len = 0;
        let result = self.parse_parts(text.trim_ascii());
        if result.is_err() {
            self.len = 0;
        }
        result
    }

    fn parse_parts(&mut self, text: &[u8]) -> Result<(), CpuListError> {
        if text.is_empty() {
            return Err(CpuListError::Empty);
        }
        let mut seen = CpuMask::new();
        for part in text.split(|b| *b == b',') {
            let mut ends = part.splitn(2, |b| *b == b'-');
            let first = number(ends.next().unwrap_or_default())?;
            let last = ends.next().map_or(Ok(first), number)?;
            if last < first {
                return Err(CpuListError::Backwards);
            }
            for cpu in first..=last {
                if !seen.insert(cpu) {
                    return Err(CpuListError::Repeated);
                }
                self.push(cpu);
            }
        }
        Ok(())
    }

    fn push(&mut self, cpu: u16) {
        // Without duplicates there are at most MAX_CPUS entries.
        if let Some(entry) = self.cpus.get_mut(self.len) {
            *entry = cpu;
            self.len += 1;
        }
    }

    /// Drops the CPUs that are not in the mask, keeping the order.
    pub fn retain(&mut self, mask: &CpuMask) {
        let mut kept = 0;
        for i in 0..self.len {
            if mask.contains(self.cpus[i]) {
                self.cpus[kept] = self.cpus[i];
                kept += 1;
            }
        }
        self.len = kept;
    }

    /// The CPUs in order.
    #[must_use]
    pub fn as_slice(&self) -> &[u16] {
        &self.cpus[..self.len]
    }

    /// The CPUs as a mask.
    #[must_use]
    pub fn mask(&self) -> CpuMask {
        let mut mask = CpuMask::new();
        for cpu in self.as_slice() {
            mask.insert(*cpu);
        }
        mask
    }
}

impl Default for CpuList {
    fn default() -> Self {
        Self::new()
    }
}

fn number(text: &[u8]) -> Result<u16, CpuListError> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(CpuListError::Malformed);
    }
    let mut value = 0u16;
    for digit in text {
        // The value stays below 10 * MAX_CPUS + 9, which does not fit into u16, so it is checked
        // each time.
        value = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(u16::from(digit - b'0')))
            .filter(|v| usize::from(*v) < MAX_CPUS)
            .ok_or(CpuListError::TooLarge)?;
    }
    Ok(value)
}

/// A CPU mask as sched_setaffinity(2) takes it.
#[derive(Clone, PartialEq, Eq)]
pub struct CpuMask {
    words: [u64; MAX_CPUS / 64],
}

impl CpuMask {
    /// No CPUs.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: [0; MAX_CPUS / 64] }
    }

    /// One CPU.
    #[must_use]
    pub fn single(cpu: u16) -> Self {
        let mut mask = Self::new();
        mask.insert(cpu);
        mask
    }

    /// Adds a CPU below [`MAX_CPUS`]. Returns whether it is new.
    pub fn insert(&mut self, cpu: u16) -> bool {
        let bit = 1u64 << (cpu % 64);
        match self.words.get_mut(usize::from(cpu / 64)) {
            Some(word) if *word & bit == 0 => {
                *word |= bit;
                true
            }
            _ => false,
        }
    }

    /// Whether the CPU is in the mask.
    #[must_use]
    pub fn contains(&self, cpu: u16) -> bool {
        self.words.get(usize::from(cpu / 64)).is_some_and(|w| w >> (cpu % 64) & 1 == 1)
    }

    /// Whether every CPU of `other` is in this mask.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(a, b)| b & !a == 0)
    }

    /// The CPU of a mask with exactly one CPU.
    #[must_use]
    pub fn only(&self) -> Option<u16> {
        let mut found = None;
        for (i, word) in (0u16..).zip(&self.words) {
            match (word.count_ones(), found) {
                (0, _) => {}
                #[expect(clippy::cast_possible_truncation, reason = "at most 63")]
                (1, None) => found = Some(i * 64 + word.trailing_zeros() as u16),
                _ => return None,
            }
        }
        found
    }

    /// The words. Bit 0 of word 0 is CPU 0.
    #[must_use]
    pub fn as_words(&self) -> &[u64] {
        &self.words
    }

    /// The words, for a system call to write.
    pub fn as_mut_words(&mut self) -> &mut [u64] {
        &mut self.words
    }
}

impl Default for CpuMask {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Vec<u16>, CpuListError> {
        let mut list = Box::new(CpuList::new());
        list.parse(text.as_bytes()).map(|()| list.as_slice().to_vec())
    }

    #[test]
    fn the_order_is_kept() {
        assert_eq!(parse("4,0,8,1-3\n"), Ok(vec![4, 0, 8, 1, 2, 3]));
        assert_eq!(parse("8191"), Ok(vec![8191]));
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_its_cause() {
        assert_eq!(parse(""), Err(CpuListError::Empty));
        assert_eq!(parse("0,,1"), Err(CpuListError::Malformed));
        assert_eq!(parse("0;1"), Err(CpuListError::Malformed));
        assert_eq!(parse("1-2-3"), Err(CpuListError::Malformed));
        assert_eq!(parse("-1"), Err(CpuListError::Malformed));
        assert_eq!(parse("3-1"), Err(CpuListError::Backwards));
        assert_eq!(parse("8192"), Err(CpuListError::TooLarge));
        assert_eq!(parse("99999999999999999999"), Err(CpuListError::TooLarge));
        assert_eq!(parse("0-2,1"), Err(CpuListError::Repeated));
    }

    #[test]
    fn a_refused_list_is_empty() {
        let mut list = Box::new(CpuList::new());
        assert!(list.parse(b"0-3,x").is_err());
        assert!(list.as_slice().is_empty());
    }

    #[test]
    fn only_one_cpu() {
        let mut mask = CpuMask::single(70);
        assert_eq!(mask.only(), Some(70));
        assert!(mask.insert(3));
        assert_eq!(mask.only(), None);
        assert_eq!(CpuMask::new().only(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut list = Box::new(CpuList::new());
            let _ = list.parse(&text);
        }

        #[test]
        fn what_is_written_is_read(ids in proptest::collection::hash_set(0u16..8192, 1..300)) {
            let ids: Vec<u16> = ids.into_iter().collect();
            let text = ids.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
            prop_assert_eq!(parse(&text).unwrap(), ids);
        }

        #[test]
        fn retain_is_an_intersection_in_order(
            ids in proptest::collection::hash_set(0u16..300, 1..100),
            kept in proptest::collection::hash_set(0u16..300, 0..100),
        ) {
            let ids: Vec<u16> = ids.into_iter().collect();
            let mut list = Box::new(CpuList::new());
            ids.iter().for_each(|id| list.push(*id));
            let mut mask = CpuMask::new();
            kept.iter().for_each(|id| { mask.insert(*id); });
            list.retain(&mask);
            let expected: Vec<u16> = ids.into_iter().filter(|id| kept.contains(id)).collect();
            prop_assert_eq!(list.as_slice(), &expected[..]);
            prop_assert!(mask.covers(&list.mask()));
        }
    }
}

//! Sets of node or CPU ids: bit masks in the kernel's list and mask notations.
//!
//! Source of the notations: Documentation/core-api/printk-formats.rst (`%*pbl`) and
//! bitmap_parselist in lib/bitmap-str.c.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::{CpuId, NodeId};

/// Largest id accepted in a list: beyond any kernel's limit, and small enough that a mistyped
/// number cannot exhaust memory.
const MAX_ID: u32 = 65_535;

/// A set of ids of one kind, ordered.
#[derive(Clone)]
pub struct IdSet<T> {
    words: Vec<u64>,
    kind: PhantomData<T>,
}

/// A set of CPUs.
pub type CpuSet = IdSet<CpuId>;
/// A set of nodes.
pub type NodeSet = IdSet<NodeId>;

/// Why a list such as `0-3,8` could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ListError {
    /// Not a number, a range or a list of them.
    #[error("'{0}' is not a number or a range; write a list such as 0-3,8")]
    Malformed(String),
    /// A range whose end is before its start.
    #[error("range {0}-{1} runs backwards; write {1}-{0}")]
    Backwards(u32, u32),
    /// An id beyond what any Linux kernel supports.
    #[error("{0} is larger than any id Linux uses (at most {MAX_ID})")]
    TooLarge(String),
}

impl<T: From<u32> + Into<u32> + Copy> IdSet<T> {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: Vec::new(), kind: PhantomData }
    }

    /// The set with these mask words. Bit 0 of word 0 is id 0.
    #[must_use]
    pub fn from_words(words: &[u64]) -> Self {
        Self { words: words.to_vec(), kind: PhantomData }
    }

    /// Mask words for system calls; bits beyond the last id are zero.
    #[must_use]
    pub fn as_words(&self) -> &[u64] {
        &self.words
    }

    /// Adds an id; returns true when it was not in the set.
    pub fn insert(&mut self, id: T) -> bool {
        let (word, bit) = place(id);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Removes an id; returns true when it was in the set.
    pub fn remove(&mut self, id: T) -> bool {
        let (word, bit) = place(id);
        let Some(w) = self.words.get_mut(word) else { return false };
        let there = *w & bit != 0;
        *w &= !bit;
        there
    }

    /// Whether the id is in the set.
    #[must_use]
    pub fn contains(&self, id: T) -> bool {
        let (word, bit) = place(id);
        self.words.get(word).is_some_and(|w| w & bit != 0)
    }

    /// Number of ids.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether the set has no id.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|w| *w == 0)
    }

    /// The ids in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            let base = u32::try_from(i * 64).unwrap_or(u32::MAX);
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(T::from(base + bit))
            })
        })
    }

    /// The smallest id.
    #[must_use]
    pub fn first(&self) -> Option<T> {
        self.iter().next()
    }

    /// Ids in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let words = self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect();
        Self { words, kind: PhantomData }
    }

    /// Ids in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let n = self.words.len().max(other.words.len());
        let at = |w: &[u64], i: usize| w.get(i).copied().unwrap_or(0);
        let words = (0..n).map(|i| at(&self.words, i) | at(&other.words, i)).collect();
        Self { words, kind: PhantomData }
    }

    /// Ids of this set that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut words = self.words.clone();
        for (w, o) in words.iter_mut().zip(&other.words) {
            *w &= !o;
        }
        Self { words, kind: PhantomData }
    }

    /// Whether every id is also in the other set.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.difference(other).is_empty()
    }

    /// Parses a kernel list such as `0-3,8`. Strides such as `0-14:2/4` are not supported. The
    /// empty text is the empty set, as in `/sys` files.
    ///
    /// # Errors
    /// [`ListError`] naming the part that cannot be read.
    pub fn parse_list(text: &str) -> Result<Self, ListError> {
        let mut set = Self::new();
        let text = text.trim();
        if text.is_empty() {
            return Ok(set);
        }
        for part in text.split(',') {
            let (first, last) = match part.split_once('-') {
                Some((a, b)) => (number(a, part)?, number(b, part)?),
                None => (number(part, part)?, number(part, part)?),
            };
            if first > last {
                return Err(ListError::Backwards(first, last));
            }
            for id in first..=last {
                set.insert(T::from(id));
            }
        }
        Ok(set)
    }
}

fn number(text: &str, part: &str) -> Result<u32, ListError> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ListError::Malformed(part.trim().to_owned()));
    }
    match text.parse::<u32>() {
        Ok(n) if n <= MAX_ID => Ok(n),
        _ => Err(ListError::TooLarge(text.to_owned())),
    }
}

fn place<T: Into<u32>>(id: T) -> (usize, u64) {
    let id = id.into();
    (id as usize / 64, 1 << (id % 64))
}

impl<T: From<u32> + Into<u32> + Copy> Default for IdSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Ignores trailing zero words: sets are equal when their ids are.
impl<T: From<u32> + Into<u32> + Copy> PartialEq for IdSet<T> {
    fn eq(&self, other: &Self) -> bool {
        self.is_subset(other) && other.is_subset(self)
    }
}

impl<T: From<u32> + Into<u32> + Copy> Eq for IdSet<T> {}

impl<T: From<u32> + Into<u32> + Copy> FromIterator<T> for IdSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(ids: I) -> Self {
        let mut set = Self::new();
        for id in ids {
            set.insert(id);
        }
        set
    }
}

impl<T: From<u32> + Into<u32> + Copy> Extend<T> for IdSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, ids: I) {
        for id in ids {
            self.insert(id);
        }
    }
}

/// The kernel's list notation: `0-3,8`.
impl<T: From<u32> + Into<u32> + Copy> fmt::Display for IdSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ids = self.iter().map(Into::<u32>::into).peekable();
        let mut separator = "";
        while let Some(first) = ids.next() {
            let mut last = first;
            while ids.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl<T: From<u32> + Into<u32> + Copy> fmt::Debug for IdSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

impl<T: From<u32> + Into<u32> + Copy> FromStr for IdSet<T> {
    type Err = ListError;

    fn from_str(text: &str) -> Result<Self, ListError> {
        Self::parse_list(text)
    }
}

/// Written as a list of numbers, as scripts expect it: `[0, 1, 2, 3, 8]`.
impl<T: From<u32> + Into<u32> + Copy> Serialize for IdSet<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Into::<u32>::into))
    }
}

impl<'de, T: From<u32> + Into<u32> + Copy> Deserialize<'de> for IdSet<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ids = Vec::<u32>::deserialize(deserializer)?;
        if let Some(id) = ids.iter().find(|id| **id > MAX_ID) {
            return Err(serde::de::Error::custom(ListError::TooLarge(id.to_string())));
        }
        Ok(ids.into_iter().map(T::from).collect())
    }
}

#[cfg(test)]
mod tests {
    use numapilot_test_kit::damaged;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        let set = CpuSet::parse_list("0-3,8,10-11\n").unwrap();
        assert_eq!(set.to_string(), "0-3,8,10-11");
        assert_eq!(set.len(), 7);
        assert!(CpuSet::parse_list("\n").unwrap().is_empty());
    }

    #[test]
    fn bad_lists_name_the_bad_part() {
        assert_eq!(CpuSet::parse_list("0,x"), Err(ListError::Malformed("x".into())));
        assert_eq!(CpuSet::parse_list("3-1"), Err(ListError::Backwards(3, 1)));
        assert_eq!(
            CpuSet::parse_list("0-99999999999"),
            Err(ListError::TooLarge("99999999999".into()))
        );
        assert!(CpuSet::parse_list("1,,2").is_err());
        assert!(CpuSet::parse_list("-1").is_err());
    }

    proptest! {
        #[test]
        fn display_and_parse_are_inverse(ids in proptest::collection::vec(0u32..3000, 0..50)) {
            let set: NodeSet = ids.iter().copied().map(NodeId).collect();
            prop_assert_eq!(NodeSet::parse_list(&set.to_string()).unwrap(), set);
        }

        #[test]
        fn a_damaged_list_is_read_or_refused(text in damaged("0-3,8,10-11,64-127\n")) {
            if let Ok(set) = CpuSet::parse_list(&text) {
                prop_assert_eq!(CpuSet::parse_list(&set.to_string()), Ok(set));
            }
        }

        #[test]
        fn set_algebra(a in proptest::collection::vec(0u32..300, 0..40), b in proptest::collection::vec(0u32..300, 0..40)) {
            let (x, y): (CpuSet, CpuSet) = (a.iter().map(|i| CpuId(*i)).collect(), b.iter().map(|i| CpuId(*i)).collect());
            prop_assert_eq!(x.union(&y).len() + x.intersection(&y).len(), x.len() + y.len());
            prop_assert!(x.difference(&y).intersection(&y).is_empty());
            prop_assert!(x.intersection(&y).is_subset(&x));
        }
    }
}

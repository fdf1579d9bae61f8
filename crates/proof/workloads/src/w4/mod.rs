//! W4, the index nested-loop join: all threads build an index over the small table, and look up
//! every tuple of the large table in it.
//!
//! Source: systematic-numa-study 4.2 and 4.4.3. The study compares ART, Masstree and a skip list,
//! states build and join times separately, and finds ART the fastest at both.

mod index;

use std::fmt;

use serde::Serialize;
use serde_json::json;

use self::index::{Art, BTree, Masstree, SkipList};
use crate::WorkloadError;
use crate::join::{self, Matcher, Method, Options, answer::Answer};
use crate::outcome::Outcome;

/// The indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Index {
    /// Adaptive radix tree (Leis, Kemper, Neumann, ICDE 2013; optimistic lock coupling).
    Art,
    /// Trie of B+ trees (Mao, Kohler, Morris, EuroSys 2012).
    Masstree,
    /// Lock-free skip list (Pugh, CACM 1990).
    SkipList,
    /// B+ tree with lock-free look-ups.
    BTree,
}

impl Index {
    /// All of them, in the order of the study. The B+ tree is not in the study.
    pub const ALL: [Self; 4] = [Self::Art, Self::Masstree, Self::SkipList, Self::BTree];

    /// Memory for each tuple of the small table. With 1 Mi shuffled keys and two threads under
    /// glibc, 14, 124, 55 and 44 bytes were measured; other allocators may need more.
    const fn bytes_per_tuple(self) -> u64 {
        match self {
            Self::Art => 24,
            Self::Masstree => 160,
            Self::SkipList => 80,
            Self::BTree => 64,
        }
    }

    /// The name on the command line and in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Art => "art",
            Self::Masstree => "masstree",
            Self::SkipList => "skiplist",
            Self::BTree => "btree",
        }
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Runs W4.
///
/// # Errors
/// See [`WorkloadError`].
pub fn run(options: &Options, index: Index) -> Result<Outcome<Answer>, WorkloadError> {
    let bytes_per_tuple = index.bytes_per_tuple();
    let method = Method { workload: "w4", probing: "join", bytes_per_tuple };
    join::validate(method, options)?;
    let mut parameters = serde_json::to_value(options).unwrap_or_default();
    parameters["index"] = json!(index);
    match index {
        Index::Art => join(method, parameters, options, Art::default()),
        Index::Masstree => join(method, parameters, options, Masstree::default()),
        Index::SkipList => join(method, parameters, options, SkipList::default()),
        Index::BTree => join(method, parameters, options, BTree::default()),
    }
}

fn join(
    method: Method,
    parameters: serde_json::Value,
    options: &Options,
    index: impl Matcher,
) -> Result<Outcome<Answer>, WorkloadError> {
    join::run(method, parameters, options, &index)
}

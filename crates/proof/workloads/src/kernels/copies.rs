//! Data that all threads read: a single original, or a copy on every node, made by
//! `numapilot-replicate` as in any other program.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use numapilot_replicate::{Current, Replicated};
use numapilot_topology::NodeId;

use super::area::{Area, Pages, homes};
use super::loops::part;
use super::pinned_threads::PinnedThreads;
use super::stage::Stage;
use super::{KernelError, Place};

/// The data.
#[derive(Debug)]
pub(super) struct Copies {
    place: Place,
    original: Area,
    /// Made after the original is filled, where each node gets a copy.
    replicated: OnceLock<Replicated<[AtomicU64]>>,
}

impl Copies {
    /// `words` untouched words.
    pub fn new(words: usize, place: Place, pinned: &PinnedThreads) -> Result<Self, KernelError> {
        let original = Area::new(words, place, Pages::Small, pinned)?;
        Ok(Self { place, original, replicated: OnceLock::new() })
    }

    /// Fills and places the data. All threads call it. `fill` writes a range of words.
    pub fn fill(&self, stage: &Stage<'_>, fill: impl Fn(&Area, std::ops::Range<usize>)) {
        let words = self.original.words();
        let pinned = stage.pinned();
        stage.prepare(|| match self.place {
            Place::Local => {
                let (thread, threads) = (stage.thread(), pinned.threads());
                let own = part(words.len(), thread, threads);
                // The last thread also fills the remainder that is not a whole page.
                let end = if thread + 1 == threads { words.len() } else { own.end };
                fill(&self.original, own.start..end);
            }
            _ if stage.thread() == 0 => fill(&self.original, 0..words.len()),
            _ => {}
        });
        stage.mitigate(|| {
            if self.place == Place::Replicate {
                let word = |index: usize| AtomicU64::new(words[index].load(Relaxed));
                let copies = numapilot_replicate::Copies::from_fn(words.len(), word)?;
                self.replicated.get_or_init(|| Replicated::new(copies));
                // Release the original, as a program does after copying it.
                self.original.discard()?;
            }
            Ok(())
        });
    }

    /// Calls `work` with the data that the calling thread should read.
    pub fn read<R>(&self, stage: &Stage<'_>, work: impl FnOnce(&[AtomicU64]) -> R) -> R {
        match self.replicated.get().map(Replicated::reader) {
            Some(Ok(mut reader)) => work(reader.read()),
            Some(Err(error)) => {
                stage.note(Err(error.into()));
                // The other threads wait for this one.
                work(self.original.words())
            }
            None => work(self.original.words()),
        }
    }

    /// Calls `work` for all data that is read: each copy with its node, or the original.
    pub fn for_each_copy<R>(
        &self,
        stage: &Stage<'_>,
        work: impl FnOnce(&[(Option<NodeId>, &[AtomicU64])]) -> R,
    ) -> R {
        match self.replicated.get().map(Replicated::reader) {
            Some(Ok(mut reader)) => work(&nodes_and_words(&reader.copies())),
            Some(Err(error)) => {
                stage.note(Err(error.into()));
                work(&[(None, self.original.words())])
            }
            None => work(&[(None, self.original.words())]),
        }
    }

    /// The number of copies that are read.
    pub fn count(&self) -> usize {
        let reader = self.replicated.get().and_then(|replicated| replicated.reader().ok());
        reader.map_or(1, |mut reader| nodes_and_words(&reader.copies()).len())
    }

    /// The node of every page, for each copy that is read.
    pub fn all_homes(&self, pinned: &PinnedThreads) -> Result<Vec<Homes>, KernelError> {
        let Some(replicated) = self.replicated.get() else {
            return Ok(vec![self.original.homes(pinned)?]);
        };
        let mut reader = replicated.reader()?;
        let copies = reader.copies();
        nodes_and_words(&copies).into_iter().map(|(_, words)| homes(words, pinned)).collect()
    }

    /// The node of every page that a thread on this node reads.
    pub fn homes(&self, node: usize, pinned: &PinnedThreads) -> Result<Homes, KernelError> {
        let Some(replicated) = self.replicated.get() else {
            return self.original.homes(pinned);
        };
        let mut reader = replicated.reader()?;
        let copies = reader.copies();
        let all = nodes_and_words(&copies);
        let near = all.iter().position(|(id, _)| *id == Some(pinned.id(node))).unwrap_or(0);
        all.get(near).map_or_else(|| Ok(Vec::new()), |(_, words)| homes(words, pinned))
    }

    /// The node of every page of the copies, without the original.
    pub fn replica_homes(&self, pinned: &PinnedThreads) -> Result<Homes, KernelError> {
        Ok(if self.replicated.get().is_some() {
            self.all_homes(pinned)?.concat()
        } else {
            Vec::new()
        })
    }

    /// The original.
    pub fn original(&self) -> &Area {
        &self.original
    }
}

/// The node of every page; `None` for pages that are in no memory.
type Homes = Vec<Option<usize>>;

fn nodes_and_words<'c>(
    copies: &'c Option<Current<'_, [AtomicU64]>>,
) -> Vec<(Option<NodeId>, &'c [AtomicU64])> {
    let each = copies.iter().flat_map(|copies| copies.each());
    each.map(|(node, words)| (Some(NodeId(node)), words)).collect()
}

//! Data that all threads read: once, or a copy on every node that has a thread.

use std::sync::atomic::Ordering::Relaxed;

use super::area::{Area, Pages};
use super::crew::Crew;
use super::loops::part;
use super::stage::Stage;
use super::{KernelError, Place};

/// The data.
#[derive(Debug)]
pub(super) struct Copies {
    place: Place,
    original: Area,
    /// By position of the node; none where the original is used.
    replicas: Vec<Option<Area>>,
}

impl Copies {
    /// So many words, untouched.
    pub fn new(words: usize, place: Place, crew: &Crew) -> Result<Self, KernelError> {
        let area = || Area::new(words, place, Pages::Small, crew);
        // The main thread fills the original, on its own node.
        let needs = |node: usize| {
            place == Place::Replicate && crew.manned().contains(&node) && node != crew.seat(0).node
        };
        let replicas = (0..crew.nodes())
            .map(|node| needs(node).then(area).transpose())
            .collect::<Result<_, _>>()?;
        Ok(Self { place, original: area()?, replicas })
    }

    /// Fills and places the data; all threads call it. `fill` writes a range of words.
    pub fn fill(&self, stage: &Stage<'_>, fill: impl Fn(&Area, std::ops::Range<usize>)) {
        let words = self.original.words().len();
        let crew = stage.crew();
        stage.prepare(|| match self.place {
            Place::Local => {
                let (thread, threads) = (stage.thread(), crew.threads());
                let own = part(words, thread, threads);
                // The rest that is no whole page falls to the last.
                let end = if thread + 1 == threads { words } else { own.end };
                fill(&self.original, own.start..end);
            }
            _ if stage.thread() == 0 => fill(&self.original, 0..words),
            _ => {}
        });
        stage.prepare(|| {
            let node = stage.seat().node;
            if let (true, Some(copy)) = (crew.leads(stage.thread()), &self.replicas[node]) {
                for (to, from) in copy.words().iter().zip(self.original.words()) {
                    to.store(from.load(Relaxed), Relaxed);
                }
            }
        });
    }

    /// What a thread on this node reads.
    pub fn of(&self, node: usize) -> &Area {
        self.replicas[node].as_ref().unwrap_or(&self.original)
    }

    /// The original.
    pub fn original(&self) -> &Area {
        &self.original
    }

    /// All copies, the original first.
    pub fn all(&self) -> impl Iterator<Item = &Area> {
        std::iter::once(&self.original).chain(self.replicas.iter().flatten())
    }
}

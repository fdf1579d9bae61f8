//! k9, thp-false-sharing: huge pages in which every thread has its own base pages, all filled by
//! the main thread. A huge page is on one node, although threads of several nodes use it.
//!
//! Best: base pages, each on the node of its thread. Moving the huge page helps one thread only.

use super::area::{HUGE_WORDS, Pages, page_words};
use super::clock::Clock;
use super::init_readall::TWIN_WORDS;
use super::load::{Access, Load, Pattern, Usage};
use super::loops::{advance, compute_ns, fill, filled};
use super::pinned_threads::PinnedThreads;
use super::stage::Stage;
use super::{Area, KernelError, Options, Pathology, Place, Step};

/// Passes of each thread over its pages.
const PASSES: usize = 2;

/// See the module.
pub(super) struct HugeFalseSharing {
    place: Place,
    seed: u64,
    threads: usize,
    area: Area,
    huge_bytes: std::sync::atomic::AtomicU64,
}

impl HugeFalseSharing {
    pub fn new(
        options: &Options,
        place: Place,
        pinned: &PinnedThreads,
    ) -> Result<Self, KernelError> {
        let words = (options.bytes / 8) as usize / HUGE_WORDS * HUGE_WORDS;
        let pages = if place == Place::Split { Pages::Small } else { Pages::Huge };
        let area = Area::new(words, place, pages, pinned)?;
        let huge_bytes = std::sync::atomic::AtomicU64::new(0);
        Ok(Self { place, seed: options.seed, threads: pinned.threads(), area, huge_bytes })
    }

    /// First words of a thread's pages, from one huge page to the next. Each thread begins at a
    /// different huge page, so they are not all at the same one at the same time.
    fn own(&self, thread: usize) -> impl Iterator<Item = usize> {
        let page = page_words();
        let huge_pages = self.area.words().len() / HUGE_WORDS;
        let pages = HUGE_WORDS / page;
        let turns = (0..pages.div_ceil(self.threads)).map(move |turn| turn * self.threads);
        let huge = move |n: usize| (n + thread) % huge_pages * HUGE_WORDS;
        let of_huge = move |at: usize| (0..huge_pages).map(move |n| huge(n) + at * page);
        turns.map(move |turn| turn + thread).filter(move |at| *at < pages).flat_map(of_huge)
    }
}

impl Pathology for HugeFalseSharing {
    fn areas(&self) -> Vec<&Area> {
        vec![&self.area]
    }

    fn run(&self, stage: &Stage<'_>) -> u64 {
        let (words, pinned, page) = (self.area.words(), stage.pinned(), page_words());
        stage.prepare(|| match self.place {
            Place::Local => {
                self.own(stage.thread()).for_each(|at| fill(words, at..at + page, self.seed));
            }
            _ if stage.thread() == 0 => fill(words, 0..words.len(), self.seed),
            _ => {}
        });
        stage.mitigate(|| {
            let huge = self.area.huge_bytes();
            self.huge_bytes.store(huge, std::sync::atomic::Ordering::Relaxed);
            let slot = |thread: usize| pinned.slot(thread % self.threads).node;
            match self.place {
                Place::Split => self.area.move_pages(pinned, |at| slot(at % (HUGE_WORDS / page))),
                // Each huge page goes to the node of one of its threads.
                Place::Collocate => self.area.move_pages(pinned, |at| slot(at * page / HUGE_WORDS)),
                _ => Ok(()),
            }
        });
        let pass = || {
            let pages = self.own(stage.thread());
            pages.fold(0u64, |sum, at| sum.wrapping_add(advance(&words[at..at + page])))
        };
        let passes = || (0..PASSES).fold(0u64, |sum, _| sum.wrapping_add(pass()));
        stage.rounds(|_| stage.work(passes))
    }

    fn expected(&self, rounds: usize) -> u64 {
        let (words, passes) = (self.area.words().len(), PASSES * rounds);
        let grown = (words as u64).wrapping_mul((passes * (passes + 1) / 2) as u64);
        filled(0..words, self.seed).wrapping_mul(passes as u64).wrapping_add(grown)
    }

    fn items(&self) -> u64 {
        (self.area.words().len() * PASSES) as u64
    }

    fn steps(&self, pinned: &PinnedThreads, clock: &Clock) -> Result<Vec<Step>, KernelError> {
        let homes = self.area.homes(pinned)?;
        let twin = &self.area.words()[..TWIN_WORDS];
        let pace = compute_ns(clock, TWIN_WORDS, || {
            std::hint::black_box(advance(twin));
        });
        let page = page_words();
        let load = |thread: usize| {
            let mut lines = vec![0.0; pinned.nodes()];
            for at in self.own(thread) {
                if let Some(node) = homes.get(at / page).copied().flatten() {
                    lines[node] += page as f64 / 8.0;
                }
            }
            let words = lines.iter().sum::<f64>() * 8.0;
            let access = Access {
                pattern: Pattern::Stream,
                lines,
                usage: Usage::Write,
                footprint_bytes: 0,
                huge: self.place != Place::Split,
            };
            Load::new(pinned.slot(thread), pace * words, vec![access])
        };
        let loads = (0..self.threads).map(load);
        Ok(vec![Step::once(loads).times(PASSES as f64)])
    }

    fn notes(&self) -> Vec<String> {
        let huge = self.huge_bytes.load(std::sync::atomic::Ordering::Relaxed);
        if self.place == Place::Split {
            return Vec::new();
        }
        let all = (self.area.words().len() * 8) as u64;
        let short = (huge < all).then(|| {
            format!(
                "the kernel backed {} of {} MiB with huge pages; see \
                 /sys/kernel/mm/transparent_hugepage/enabled",
                huge >> 20,
                all >> 20
            )
        });
        short.into_iter().collect()
    }
}

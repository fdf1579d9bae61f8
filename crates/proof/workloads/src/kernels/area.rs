//! Memory with deliberate page placement: by a policy before the first touch, or by moving pages
//! afterwards. The kernel is always asked where the pages are.

use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::Duration;

use numapilot_sys::mapping::{Mapping, SharedMapping};
use numapilot_sys::mempolicy::{self, MF_MOVE, Mode};
use numapilot_topology::{NodeId, NodeSet};

use super::pinned_threads::PinnedThreads;
use super::{KernelError, Place};

/// Words of a huge page.
pub const HUGE_WORDS: usize = HUGE_BYTES / size_of::<u64>();
const HUGE_BYTES: usize = 2 << 20;
/// Pages per call of move_pages(2).
const BATCH: usize = 1 << 16;

/// The kind of pages in an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// The kernel's base pages only.
    Small,
    /// Huge pages, as far as the kernel has them.
    Huge,
}

/// Memory that all threads share, with each page on some node.
#[derive(Debug)]
pub struct Area {
    mapping: SharedMapping,
    /// The first word used, at a huge page boundary.
    first: usize,
    words: usize,
}

impl Area {
    /// `words` untouched words. If the place says so, they are interleaved over the nodes of the
    /// pinned threads.
    ///
    /// # Errors
    /// [`KernelError::Placement`].
    pub fn new(
        words: usize,
        place: Place,
        pages: Pages,
        pinned: &PinnedThreads,
    ) -> Result<Self, KernelError> {
        let failed = |what| {
            move |cause| KernelError::Placement {
                what,
                cause,
                remedy: "lower --size, or raise the memory limit (ulimit -v, cgroup)",
            }
        };
        // Room to begin at a huge page boundary.
        let bytes = words * size_of::<u64>() + if pages == Pages::Huge { HUGE_BYTES } else { 0 };
        let mut mapping = Mapping::anonymous(bytes).map_err(failed("mapping memory"))?;
        let advice = match pages {
            Pages::Small => libc_advice::NO_HUGE,
            Pages::Huge => libc_advice::HUGE,
        };
        match mapping.advise(advice) {
            // A kernel without huge pages does not know the advice.
            Err(cause) if cause.kind() != io::ErrorKind::InvalidInput => {
                return Err(failed("madvise")(cause));
            }
            _ => {}
        }
        if place == Place::Interleave && pinned.memory().len() > 1 {
            let nodes: NodeSet = pinned.memory_ids();
            mempolicy::bind(&mapping, Mode::Interleave, nodes.as_words(), 0).map_err(|cause| {
                KernelError::Placement {
                    what: "mbind",
                    cause,
                    remedy: "allow mbind (a container's seccomp profile may forbid it)",
                }
            })?;
        }
        let mapping = SharedMapping::from(mapping);
        let first = match pages {
            Pages::Small => 0,
            Pages::Huge => mapping.start().next_multiple_of(HUGE_BYTES) - mapping.start(),
        } / size_of::<u64>();
        Ok(Self { mapping, first, words })
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        &self.mapping.words()[self.first..self.first + self.words]
    }

    /// Bytes that are now in huge pages.
    #[must_use]
    pub fn huge_bytes(&self) -> u64 {
        self.mapping.residency().map_or(0, |residency| residency.huge_bytes)
    }

    /// Moves every page to the node that `target` returns for its position.
    ///
    /// # Errors
    /// [`KernelError::Placement`] and [`KernelError::Stayed`].
    pub fn move_pages(
        &self,
        pinned: &PinnedThreads,
        home: impl Fn(usize) -> usize,
    ) -> Result<(), KernelError> {
        let addresses = addresses(self.words());
        let wanted: Vec<i32> =
            (0..addresses.len()).map(|page| pinned.id(home(page)).0.cast_signed()).collect();
        let mut left: Vec<(usize, i32)> = addresses.into_iter().zip(wanted).collect();
        let pages = left.len();
        for wait in 0..BUSY_TRIES {
            let (addresses, wanted): (Vec<usize>, Vec<i32>) = left.iter().copied().unzip();
            let mut status = Vec::with_capacity(pages);
            for (addresses, wanted) in addresses.chunks(BATCH).zip(wanted.chunks(BATCH)) {
                let batch = mempolicy::move_pages(0, addresses, Some(wanted), MF_MOVE);
                status.extend(batch.map_err(moving)?);
            }
            let failed = || status.iter().filter(|s| **s < 0 && **s != UNTOUCHED && **s != BUSY);
            if let Some(first) = failed().next() {
                let cause = io::Error::from_raw_os_error(-first);
                return Err(KernelError::Stayed { failed: failed().count(), pages, cause });
            }
            let mut status = status.into_iter();
            left.retain(|_| status.next() == Some(BUSY));
            if left.is_empty() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(1 << wait));
        }
        let cause = io::Error::from_raw_os_error(-BUSY);
        Err(KernelError::Stayed { failed: left.len(), pages, cause })
    }

    /// The node of every page; see [`homes`].
    ///
    /// # Errors
    /// [`KernelError::Placement`].
    pub fn homes(&self, pinned: &PinnedThreads) -> Result<Vec<Option<usize>>, KernelError> {
        homes(self.words(), pinned)
    }

    /// Distributes this many random accesses over the nodes of the pages.
    ///
    /// # Errors
    /// As [`Area::homes`].
    pub fn spread(&self, pinned: &PinnedThreads, accesses: f64) -> Result<Vec<f64>, KernelError> {
        Ok(spread(&self.homes(pinned)?, pinned, accesses))
    }

    /// Returns all pages to the kernel. Every word is then 0 and untouched.
    ///
    /// # Errors
    /// [`KernelError::Placement`].
    pub fn discard(&self) -> Result<(), KernelError> {
        self.mapping.discard().map_err(|cause| KernelError::Placement {
            what: "discarding memory",
            cause,
            remedy: "unlock the process's memory (mlockall)",
        })
    }
}

/// Addresses of the pages of a slice of words that begins at a page.
fn addresses(words: &[AtomicU64]) -> Vec<usize> {
    let start = words.as_ptr() as usize;
    (start..start + size_of_val(words)).step_by(page_bytes()).collect()
}

/// The node of every page of a slice that begins at a page; `None` for untouched pages.
///
/// # Errors
/// [`KernelError::Placement`].
pub fn homes(
    words: &[AtomicU64],
    pinned: &PinnedThreads,
) -> Result<Vec<Option<usize>>, KernelError> {
    let mut homes = Vec::new();
    for addresses in addresses(words).chunks(BATCH) {
        let status = mempolicy::move_pages(0, addresses, None, 0).map_err(moving)?;
        homes.extend(
            status.into_iter().map(|node| pinned.position(NodeId(u32::try_from(node).ok()?))),
        );
    }
    Ok(homes)
}

/// Distributes this many random accesses over the nodes of the pages.
#[must_use]
pub fn spread(homes: &[Option<usize>], pinned: &PinnedThreads, accesses: f64) -> Vec<f64> {
    let mut spread = vec![0.0; pinned.nodes()];
    let each = accesses / homes.iter().flatten().count().max(1) as f64;
    homes.iter().flatten().for_each(|node| spread[*node] += each);
    spread
}

/// `-ENOENT`: the page is untouched.
const UNTOUCHED: i32 = -2;
/// `-EBUSY`: the page is briefly in use. The call itself can cause this, when it has just isolated
/// another part of the same huge page.
const BUSY: i32 = -16;
/// The first wait is a millisecond; each further one is twice as long.
const BUSY_TRIES: u32 = 8;

/// The advice of madvise(2); the numbers are the kernel's.
mod libc_advice {
    /// `MADV_HUGEPAGE`.
    pub const HUGE: i32 = 14;
    /// `MADV_NOHUGEPAGE`.
    pub const NO_HUGE: i32 = 15;
}

fn moving(cause: io::Error) -> KernelError {
    KernelError::Placement {
        what: "move_pages",
        cause,
        remedy: "allow move_pages (a container's seccomp profile may forbid it)",
    }
}

/// Bytes of a base page.
#[must_use]
pub fn page_bytes() -> usize {
    usize::try_from(procfs::page_size()).unwrap_or(4096)
}

/// Words of a base page.
#[must_use]
pub fn page_words() -> usize {
    page_bytes() / size_of::<u64>()
}

/// Lines in a range of words, by node.
#[must_use]
pub fn lines(homes: &[Option<usize>], words: Range<usize>, nodes: usize) -> Vec<f64> {
    let mut lines = vec![0.0; nodes];
    let pages = words.start / page_words()..words.end.div_ceil(page_words());
    for page in pages {
        let from = words.start.max(page * page_words());
        let to = words.end.min((page + 1) * page_words());
        if let Some(node) = homes.get(page).copied().flatten() {
            lines[node] += to.saturating_sub(from) as f64 / 8.0;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use numapilot_topology::Machine;

    use super::*;

    #[test]
    fn touched_pages_have_a_home_and_may_be_moved_to_it() {
        let machine = numapilot_topology::read(std::path::Path::new("/")).unwrap();
        let pinned = PinnedThreads::on(&machine, 1).unwrap();
        let area = Area::new(4 * page_words(), Place::Interleave, Pages::Small, &pinned).unwrap();
        assert_eq!(area.words().len(), 4 * page_words());
        area.words()[page_words()].store(1, Relaxed);
        let homes = area.homes(&pinned).unwrap();
        assert!(homes[1].is_some() && homes[0].is_none(), "{homes:?}");
        let to = pinned.memory()[0];
        area.move_pages(&pinned, |_| to).unwrap();
        assert_eq!(area.homes(&pinned).unwrap()[1], Some(to));
    }

    #[test]
    fn huge_areas_begin_at_a_huge_page() {
        let pinned = PinnedThreads::on(&Machine::uniform(1, 1), 1).unwrap();
        let area = Area::new(HUGE_WORDS, Place::FirstTouch, Pages::Huge, &pinned).unwrap();
        assert_eq!(area.words().as_ptr() as usize % HUGE_BYTES, 0);
    }

    #[test]
    fn lines_are_counted_where_their_page_is() {
        let page = page_words();
        let homes = [Some(1), Some(0), None];
        assert_eq!(lines(&homes, 0..3 * page, 2), [page as f64 / 8.0; 2]);
        assert_eq!(lines(&homes, page - 8..page + 16, 2), [2.0, 1.0]);
    }
}

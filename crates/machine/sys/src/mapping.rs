//! An anonymous private mapping that is unmapped when dropped.
//!
//! It provides memory that must be fresh, page aligned and placed by a policy before anything
//! touches it, for measuring a node or filling a data set.

use std::io;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::AtomicU64;

/// Zeroed anonymous memory. No page is touched until the first access.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain memory that only this value owns; the sharing rules are those of its
// slices.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` only gives `&[u8]`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes (rounded up to whole pages by the kernel).
    ///
    /// # Errors
    /// `ENOMEM` when the address space or overcommit limit is exhausted, `EINVAL` for
    /// length 0.
    pub fn anonymous(len: usize) -> io::Result<Self> {
        // SAFETY: a new anonymous mapping at an address the kernel chooses aliases nothing.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { start, len })
    }

    /// Advises the kernel about the whole mapping (`libc::MADV_*`).
    ///
    /// # Errors
    /// Those of madvise(2).
    pub fn advise(&mut self, advice: i32) -> io::Result<()> {
        // SAFETY: the range is ours and `&mut self` excludes readers; discarding advice
        // leaves zero pages, which are valid bytes.
        if unsafe { libc::madvise(self.start.as_ptr().cast(), self.len, advice) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Start address.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false, because mmap(2) refuses length 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: mapped, initialised (zero pages) and not mutably borrowed while `&self` lives.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes, writable.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes the borrow unique.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// The bytes as whole words, without a remainder shorter than a word.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        // SAFETY: mappings are page aligned, every bit pattern is a u64, and the lifetime is
        // that of `as_slice`.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), self.len / size_of::<u64>()) }
    }

    /// The words, writable.
    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and `&mut self` makes the borrow unique.
        unsafe {
            slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len / size_of::<u64>())
        }
    }
}

/// A mapping whose words any number of threads can read and write concurrently.
#[derive(Debug)]
pub struct SharedMapping(Mapping);

impl From<Mapping> for SharedMapping {
    fn from(mapping: Mapping) -> Self {
        Self(mapping)
    }
}

impl SharedMapping {
    /// Address of the first word.
    #[must_use]
    pub fn start(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// The words, without a remainder shorter than a word.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: mappings are page aligned and live as long as `self`, every bit pattern is an
        // AtomicU64, and this type gives out no other reference to the bytes.
        unsafe { slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() / size_of::<u64>()) }
    }

    /// Returns the pages to the kernel. All words are then 0 and untouched.
    ///
    /// # Errors
    /// `EINVAL` if the memory is locked.
    pub fn discard(&self) -> io::Result<()> {
        // SAFETY: the range is ours. For threads that read or write its words, the effect is that
        // of storing 0 into each.
        if unsafe { libc::madvise(self.0.as_ptr().cast(), self.0.len(), libc::MADV_DONTNEED) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// As [`Mapping::residency`].
    ///
    /// # Errors
    /// Those of reading `/proc/self/smaps`.
    pub fn residency(&self) -> io::Result<Residency> {
        self.0.residency()
    }
}

/// The pages that back a part of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// Bytes in pages of any size.
    pub rss_bytes: u64,
    /// Bytes in transparent huge pages.
    pub huge_bytes: u64,
}

impl Mapping {
    /// The pages that back the mapping at this moment. The kernel may have merged it with a
    /// neighbour, so the figures include all areas that overlap it.
    ///
    /// # Errors
    /// Those of reading `/proc/self/smaps`.
    pub fn residency(&self) -> io::Result<Residency> {
        let start = self.as_ptr() as usize;
        let smaps = std::fs::read_to_string("/proc/self/smaps")?;
        Ok(Residency::of(&smaps, start..start + self.len()))
    }
}

impl Residency {
    /// Adds up the areas of an smaps text (proc_pid_smaps(5)) that overlap a range.
    fn of(smaps: &str, range: std::ops::Range<usize>) -> Self {
        let mut sum = Self::default();
        let mut inside = false;
        for line in smaps.lines() {
            let mut words = line.split_whitespace();
            let first = words.next().unwrap_or_default();
            if let Some((from, to)) = first.split_once('-') {
                let area = (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16));
                inside = matches!(area, (Ok(from), Ok(to)) if from < range.end && range.start < to);
                continue;
            }
            let mut bytes = || {
                words.next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0).saturating_mul(1024)
            };
            match first {
                "Rss:" if inside => sum.rss_bytes += bytes(),
                "AnonHugePages:" if inside => sum.huge_bytes += bytes(),
                _ => {}
            }
        }
        sum
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: start and len are those of our own mmap, unmapped exactly once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn only_what_overlaps_is_counted() {
        let smaps = "7f0000000000-7f0000800000 rw-p 00000000 00:00 0\n\
                     Size: 8192 kB\nRss: 8192 kB\nAnonHugePages:      6144 kB\n\
                     7f0000800000-7f0000a00000 rw-p 00000000 00:00 0\nAnonHugePages: 2048 kB\n";
        let area = Residency::of(smaps, 0x7f00_0000_0000..0x7f00_0080_0000);
        assert_eq!(area, Residency { rss_bytes: 8 << 20, huge_bytes: 6 << 20 });
        assert_eq!(Residency::of(smaps, 0x1000..0x2000), Residency::default());
        assert_eq!(Residency::of("", 0..usize::MAX), Residency::default());
    }

    #[test]
    fn threads_share_words() {
        let shared = SharedMapping::from(Mapping::anonymous(4096).unwrap());
        assert_eq!(shared.words().len(), 512);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| shared.words()[511].fetch_add(1, Relaxed));
            }
        });
        assert_eq!(shared.words()[511].load(Relaxed), 4);
        shared.discard().unwrap();
        assert_eq!(shared.words()[511].load(Relaxed), 0);
    }

    #[test]
    fn touched_pages_are_resident() {
        let mut mapping = Mapping::anonymous(1 << 20).unwrap();
        mapping.as_mut_slice().fill(1);
        assert!(mapping.residency().unwrap().rss_bytes >= 1 << 20);
    }
}

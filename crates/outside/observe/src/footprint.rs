//! The memory that processes hold, and the part that they have already freed.
//!
//! Source: proc_pid_smaps(5), Documentation/filesystems/proc.rst. An allocator that frees with
//! `MADV_FREE` leaves the pages resident until the kernel needs them: they count as RSS, and also
//! as `LazyFree`. Huge pages of hugetlbfs are in neither `Rss` nor `Pss`. They have separate lines,
//! which do not tell how many processes share them.

use serde::Serialize;

/// Resident memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Footprint {
    /// Resident bytes, including huge pages of hugetlbfs. Shared pages count for each process.
    pub rss_bytes: u64,
    /// Resident bytes without `shared_hugetlb_bytes`. A page that n processes share counts as one
    /// nth for each.
    pub pss_bytes: u64,
    /// Huge pages of hugetlbfs that are mapped more than once, in bytes. This is the maximum over
    /// the processes, because processes of one program share the same pages.
    pub shared_hugetlb_bytes: u64,
    /// Resident bytes that were freed with `MADV_FREE` and not yet reclaimed.
    pub lazy_free_bytes: u64,
}

impl Footprint {
    /// Adds up the lines of an smaps or smaps_rollup text.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut sum = Self::default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let kib = value.trim().strip_suffix(" kB").and_then(|n| n.trim().parse::<u64>().ok());
            let bytes = kib.unwrap_or(0).saturating_mul(1024);
            let fields: &mut [&mut u64] = match key {
                "Rss" => &mut [&mut sum.rss_bytes],
                "Pss" => &mut [&mut sum.pss_bytes],
                "LazyFree" => &mut [&mut sum.lazy_free_bytes],
                "Private_Hugetlb" => &mut [&mut sum.rss_bytes, &mut sum.pss_bytes],
                "Shared_Hugetlb" => &mut [&mut sum.rss_bytes, &mut sum.shared_hugetlb_bytes],
                _ => continue,
            };
            for field in fields {
                **field = field.saturating_add(bytes);
            }
        }
        sum
    }

    /// The sum of two footprints.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            rss_bytes: self.rss_bytes.saturating_add(other.rss_bytes),
            pss_bytes: self.pss_bytes.saturating_add(other.pss_bytes),
            shared_hugetlb_bytes: self.shared_hugetlb_bytes.max(other.shared_hugetlb_bytes),
            lazy_free_bytes: self.lazy_free_bytes.saturating_add(other.lazy_free_bytes),
        }
    }

    /// The bytes in use: shared pages once, without lazily freed pages.
    #[must_use]
    pub fn held_bytes(self) -> u64 {
        let held = self.pss_bytes.saturating_add(self.shared_hugetlb_bytes);
        held.saturating_sub(self.lazy_free_bytes)
    }
}

#[cfg(test)]
mod tests {
    use numapilot_test_kit::damaged;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lazily_freed_pages_are_not_held() {
        let text = "55d0-7ffc ---p 00000000 00:00 0    [rollup]\nRss:    3000 kB\n\
                    Pss:    2000 kB\nPss_Dirty:  7 kB\nLazyFree:  500 kB\n";
        let footprint = Footprint::parse(text);
        assert_eq!(footprint.rss_bytes, 3000 << 10);
        assert_eq!(footprint.plus(footprint).held_bytes(), 3000 << 10);
    }

    #[test]
    fn huge_pages_count_and_what_processes_share_of_them_counts_once() {
        let text = "Rss: 100 kB\nPss: 50 kB\nShared_Hugetlb: 4096 kB\nPrivate_Hugetlb: 2048 kB\n";
        let one = Footprint::parse(text);
        assert_eq!((one.rss_bytes, one.held_bytes()), (6244 << 10, 6194 << 10));
        assert_eq!(one.plus(one).rss_bytes, (2 * 6244) << 10);
        assert_eq!(one.plus(one).held_bytes(), (2 * 2098 + 4096) << 10);
    }

    proptest! {
        #[test]
        fn a_damaged_file_is_read(text in damaged(
            "55d0-7ffc ---p 00000000 00:00 0    [rollup]\nRss:    3000 kB\nPss:    2000 kB\n\
             Pss_Dirty:  7 kB\nLazyFree:  500 kB\nShared_Hugetlb: 4096 kB\n\
             Private_Hugetlb: 2048 kB\n",
        )) {
            let footprint = Footprint::parse(&text);
            prop_assert!(footprint.held_bytes() <= footprint.rss_bytes.saturating_add(footprint.pss_bytes));
        }
    }
}

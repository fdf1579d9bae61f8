//! The kind of pages in an address range.
//!
//! Source: Documentation/admin-guide/mm/pagemap.rst and include/uapi/linux/fs.h
//! (`PAGEMAP_SCAN`, Linux 6.7).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use crate::check;

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `PAGE_IS_HUGE`: mapped by one entry above the lowest page table.
const PAGE_IS_HUGE: u64 = 1 << 6;

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::c_ulong = 3 << 30
    | (size_of::<ScanArgument>() as libc::c_ulong) << 16
    | (b'f' as libc::c_ulong) << 8
    | 16;

/// Whether a part of a page-aligned address range is a huge page. `pagemap` is `/proc/PID/pagemap`.
///
/// # Errors
/// `ENOTTY` before Linux 6.7, `EINVAL` if the range is not aligned.
pub fn has_huge_page(pagemap: &File, start: u64, end: u64) -> io::Result<bool> {
    let mut found = [PageRegion::default()];
    let mut argument = ScanArgument {
        size: size_of::<ScanArgument>() as u64,
        start,
        end,
        vec: found.as_mut_ptr() as u64,
        vec_len: 1,
        max_pages: 1,
        category_mask: PAGE_IS_HUGE,
        return_mask: PAGE_IS_HUGE,
        ..ScanArgument::default()
    };
    // SAFETY: the argument is a live structure of the stated size, and its `vec` has room for the
    // stated number of regions. The kernel writes nothing else.
    let regions = check(libc::c_long::from(unsafe {
        libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut argument)
    }))?;
    Ok(regions > 0)
}

/// Number of the page frame that is mapped at a page. `None` if there is none, or without
/// `CAP_SYS_ADMIN`.
#[must_use]
pub fn frame(pagemap: &File, page: u64) -> Option<u64> {
    const PRESENT: u64 = 1 << 63;
    const FRAME: u64 = (1 << 55) - 1;
    let mut entry = [0u8; 8];
    pagemap.read_exact_at(&mut entry, page.checked_mul(8)?).ok()?;
    let entry = u64::from_ne_bytes(entry);
    Some(entry & FRAME).filter(|frame| entry & PRESENT != 0 && *frame != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Mapping;

    #[test]
    fn ordinary_pages_are_not_huge() {
        let mut map = Mapping::anonymous(8192).unwrap();
        map.as_mut_slice().fill(1);
        let file = File::open("/proc/self/pagemap").unwrap();
        let start = map.as_ptr() as u64;
        match has_huge_page(&file, start, start + 8192) {
            Err(e) if e.raw_os_error() == Some(libc::ENOTTY) => {
                eprintln!("skipped: PAGEMAP_SCAN needs Linux 6.7");
            }
            found => assert!(!found.unwrap()),
        }
        assert!(has_huge_page(&file, start + 1, start + 2).is_err());
        assert_eq!(frame(&file, 0), None);
        match frame(&file, start / 4096) {
            None => eprintln!("skipped: page frames are shown only with CAP_SYS_ADMIN"),
            first => assert_ne!(first, frame(&file, start / 4096 + 1)),
        }
    }

    #[test]
    fn huge_pages_are_found() {
        const HUGE: u64 = 2 << 20;
        let mut map = Mapping::anonymous(4 << 20).unwrap();
        let advised = map.advise(libc::MADV_HUGEPAGE);
        map.as_mut_slice().fill(1);
        let residency = map.residency().unwrap();
        if advised.is_err() || residency.huge_bytes < HUGE {
            eprintln!("skipped: no transparent huge pages here");
            return;
        }
        let file = File::open("/proc/self/pagemap").unwrap();
        let start = map.as_ptr() as u64;
        match has_huge_page(&file, start, start + (4 << 20)) {
            Err(e) if e.raw_os_error() == Some(libc::ENOTTY) => {
                eprintln!("skipped: PAGEMAP_SCAN needs Linux 6.7");
            }
            found => assert!(found.unwrap()),
        }
    }
}

//! NUMA memory policies and page moves.
//!
//! Source: set_mempolicy(2), mbind(2), move_pages(2), migrate_pages(2) and
//! Documentation/admin-guide/mm/numa_memory_policy.rst. Weighted interleave (mode 6) exists since
//! Linux 6.9.

use std::io;

use crate::check;
use crate::mapping::Mapping;

/// The modes of a memory policy, with the kernel's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Mode {
    /// No own policy: that of the next wider scope applies.
    Default = 0,
    /// One preferred node; other nodes when it is full.
    Preferred = 1,
    /// Only the given nodes.
    Bind = 2,
    /// Pages from the given nodes in turn.
    Interleave = 3,
    /// The node of the CPU that first touches the page.
    Local = 4,
    /// Several preferred nodes; other nodes when they are full (Linux 5.15).
    PreferredMany = 5,
    /// Pages from the nodes in turn, in proportion to their weights (Linux 6.9).
    WeightedInterleave = 6,
}

impl Mode {
    /// The mode with this kernel number, without flags.
    #[must_use]
    pub fn from_raw(raw: i32) -> Option<Self> {
        use Mode::{
            Bind, Default, Interleave, Local, Preferred, PreferredMany, WeightedInterleave,
        };
        [Default, Preferred, Bind, Interleave, Local, PreferredMany, WeightedInterleave]
            .into_iter()
            .find(|m| *m as i32 == raw)
    }
}

/// `MPOL_F_STATIC_NODES`: node ids are physical and not remapped when the cpuset changes.
pub const F_STATIC_NODES: i32 = 1 << 15;
/// `MPOL_F_RELATIVE_NODES`: node ids are relative to the cpuset.
pub const F_RELATIVE_NODES: i32 = 1 << 14;
/// `MPOL_F_NUMA_BALANCING`: with `Bind`, lets AutoNUMA sample pages and move them within the nodes
/// (Linux 5.12; with `PreferredMany` since 6.11).
pub const F_NUMA_BALANCING: i32 = 1 << 13;

/// `MPOL_MF_STRICT`: reports pages that violate the policy.
pub const MF_STRICT: u32 = 1;
/// `MPOL_MF_MOVE`: moves the pages that only this process maps.
pub const MF_MOVE: u32 = 2;
/// `MPOL_MF_MOVE_ALL`: moves shared pages too (requires `CAP_SYS_NICE`).
pub const MF_MOVE_ALL: u32 = 4;

/// Mask pointer and bit count for the kernel. The count is one too high, because the kernel
/// decrements `maxnode` before it uses it.
fn raw_mask(nodes: &[u64]) -> (*const u64, usize) {
    match raw_count(nodes) {
        0 => (std::ptr::null(), 0),
        bits => (nodes.as_ptr(), bits),
    }
}

/// The bit count for the kernel; 0 without nodes.
pub(crate) fn raw_count(nodes: &[u64]) -> usize {
    if nodes.iter().all(|word| *word == 0) { 0 } else { nodes.len() * 64 + 1 }
}

/// Sets the policy of the calling thread, which is inherited over fork and exec.
///
/// `flags` is any of the `F_*` constants.
///
/// # Errors
/// `EINVAL` for a mode that this kernel lacks, a node without memory or a node outside the cpuset;
/// `ENOSYS`/`EPERM` without NUMA support or under a seccomp filter.
pub fn set_mempolicy(mode: Mode, flags: i32, nodes: &[u64]) -> io::Result<()> {
    let (mask, bits) = raw_mask(nodes);
    // SAFETY: mask is null or points to `bits - 1` bits that the kernel only reads.
    check(unsafe { libc::syscall(libc::SYS_set_mempolicy, mode as i32 | flags, mask, bits) })
        .map(drop)
}

/// The policy of the calling thread: the raw mode with flags, and the node mask.
///
/// # Errors
/// `ENOSYS`/`EPERM` without NUMA support or under a seccomp filter.
pub fn get_mempolicy() -> io::Result<(i32, Vec<u64>)> {
    let mut mode = 0i32;
    let nodes = get_nodes(&raw mut mode, 0)?;
    Ok((mode, nodes))
}

/// The nodes on which the caller may allocate (`MPOL_F_MEMS_ALLOWED`), as mask words.
///
/// # Errors
/// `ENOSYS`/`EPERM` without NUMA support or under a seccomp filter.
pub fn mems_allowed() -> io::Result<Vec<u64>> {
    const F_MEMS_ALLOWED: u32 = 1 << 2;
    get_nodes(std::ptr::null_mut(), F_MEMS_ALLOWED)
}

fn get_nodes(mode: *mut i32, flags: u32) -> io::Result<Vec<u64>> {
    // The kernel refuses masks shorter than its MAX_NUMNODES, which is at most 1024 today.
    let mut nodes = vec![0u64; 64];
    // SAFETY: mode is null or valid for one write; the mask has the stated number of bits.
    check(unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            mode,
            nodes.as_mut_ptr(),
            nodes.len() * 64,
            0usize,
            flags,
        )
    })?;
    Ok(nodes)
}

/// Sets the policy of a mapping before its pages are touched (or moves them, with `MF_*`).
///
/// # Errors
/// As [`set_mempolicy`]; `EIO` with `MF_STRICT` if pages could not be moved.
pub fn bind(mapping: &Mapping, mode: Mode, nodes: &[u64], mf_flags: u32) -> io::Result<()> {
    let (mask, bits) = raw_mask(nodes);
    // SAFETY: the range is a live mapping of ours; a policy changes the placement, not the
    // contents.
    check(unsafe {
        libc::syscall(
            libc::SYS_mbind,
            mapping.as_ptr(),
            mapping.len(),
            mode as i32,
            mask,
            bits,
            mf_flags,
        )
    })
    .map(drop)
}

/// Moves pages of process `pid` (0 = the caller), or queries their nodes.
///
/// `pages` are virtual addresses. `destinations` has one node for each page, or is `None` for a
/// query. Returns a status for each page: its node, or a negative errno (`-ENOENT` untouched,
/// `-EFAULT` zero page or unmapped, `-EACCES` shared, `-EBUSY` pinned).
///
/// # Errors
/// `ESRCH` if the process has ended, `EPERM` without the right to trace it, `EACCES` if a
/// destination is outside its cpuset, `EINVAL` for lists of unequal length.
pub fn move_pages(
    pid: i32,
    pages: &[usize],
    destinations: Option<&[i32]>,
    mf_flags: u32,
) -> io::Result<Vec<i32>> {
    if destinations.is_some_and(|d| d.len() != pages.len()) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // If the kernel stops early, an unwritten entry is -ENOENT and not node 0.
    let mut status = vec![-libc::ENOENT; pages.len()];
    // SAFETY: all three arrays have `pages.len()` entries. The kernel looks up the addresses in the
    // target's page table; they are not dereferenced here.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid,
            pages.len(),
            pages.as_ptr(),
            destinations.map_or(std::ptr::null(), <[i32]>::as_ptr),
            status.as_mut_ptr(),
            mf_flags,
        )
    })?;
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_touched_page_has_a_node_and_an_untouched_one_none() {
        let mut map = Mapping::anonymous(8192).unwrap();
        map.as_mut_slice()[0] = 1;
        let start = map.as_ptr() as usize;
        let status = move_pages(0, &[start, start + 4096], None, 0).unwrap();
        assert!(status[0] >= 0, "{status:?}");
        assert_eq!(status[1], -libc::ENOENT);
    }

    #[test]
    fn policy_is_read_back() {
        // The policy belongs to a thread, and each test has its own thread.
        let allowed = mems_allowed().unwrap();
        set_mempolicy(Mode::Interleave, 0, &allowed).unwrap();
        let (mode, nodes) = get_mempolicy().unwrap();
        assert_eq!(Mode::from_raw(mode), Some(Mode::Interleave));
        assert_eq!(nodes, allowed);
        set_mempolicy(Mode::Default, 0, &[]).unwrap();
        assert_eq!(get_mempolicy().unwrap().0, Mode::Default as i32);
    }

    #[test]
    fn lists_of_unequal_length_are_refused() {
        assert!(move_pages(0, &[0, 0], Some(&[0]), 0).is_err());
    }
}

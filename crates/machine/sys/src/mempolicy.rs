//! NUMA memory policies and page moves.
//!
//! Source: set_mempolicy(2), mbind(2), move_pages(2), migrate_pages(2) and
//! Documentation/admin-guide/mm/numa_memory_policy.rst. Weighted interleave (mode 6) is
//! in kernels from 6.9 on.

use std::io;

use crate::check;
use crate::mapping::Mapping;

/// Where pages come from; the numbers are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Mode {
    /// No policy of its own: falls back to the next wider scope.
    Default = 0,
    /// One preferred node, others when it is full.
    Preferred = 1,
    /// Only the given nodes.
    Bind = 2,
    /// Pages in turn over the given nodes.
    Interleave = 3,
    /// The node of the CPU that touches the page.
    Local = 4,
    /// A set of preferred nodes, others when they are full (5.15).
    PreferredMany = 5,
    /// Pages in turn, each node in proportion to its weight (6.9).
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

/// `MPOL_F_STATIC_NODES`: node ids are physical and are not remapped with the cpuset.
pub const F_STATIC_NODES: i32 = 1 << 15;
/// `MPOL_F_RELATIVE_NODES`: node ids count inside the cpuset.
pub const F_RELATIVE_NODES: i32 = 1 << 14;
/// `MPOL_F_NUMA_BALANCING`: with `Bind`, lets AutoNUMA sample and, within the nodes,
/// optimise (5.12; `PreferredMany` from 6.11 on).
pub const F_NUMA_BALANCING: i32 = 1 << 13;

/// `MPOL_MF_STRICT`: report pages that violate the policy.
pub const MF_STRICT: u32 = 1;
/// `MPOL_MF_MOVE`: move the pages this process alone maps.
pub const MF_MOVE: u32 = 2;
/// `MPOL_MF_MOVE_ALL`: move shared pages too (needs `CAP_SYS_NICE`).
pub const MF_MOVE_ALL: u32 = 4;

/// Mask pointer and bit count as the kernel wants them: one more bit than there are,
/// because `maxnode` is decremented before use.
fn raw_mask(nodes: &[u64]) -> (*const u64, usize) {
    if nodes.iter().all(|w| *w == 0) {
        (std::ptr::null(), 0)
    } else {
        (nodes.as_ptr(), nodes.len() * 64 + 1)
    }
}

/// Sets the policy of the calling thread; it is inherited over fork and exec.
///
/// `flags` is any of the `F_*` constants.
///
/// # Errors
/// `EINVAL` for a mode this kernel lacks, a node without memory or one outside the
/// cpuset, `ENOSYS`/`EPERM` without NUMA support or under a seccomp filter.
pub fn set_mempolicy(mode: Mode, flags: i32, nodes: &[u64]) -> io::Result<()> {
    let (mask, bits) = raw_mask(nodes);
    // SAFETY: mask is null or points to `bits - 1` bits that the kernel only reads.
    check(unsafe { libc::syscall(libc::SYS_set_mempolicy, mode as i32 | flags, mask, bits) })
        .map(drop)
}

/// Policy of the calling thread: raw mode with flags, and node mask words.
///
/// # Errors
/// `ENOSYS`/`EPERM` without NUMA support or under a seccomp filter.
pub fn get_mempolicy() -> io::Result<(i32, Vec<u64>)> {
    let mut mode = 0i32;
    let nodes = get_nodes(&raw mut mode, 0)?;
    Ok((mode, nodes))
}

/// Nodes the caller may allocate on (`MPOL_F_MEMS_ALLOWED`), as mask words.
///
/// # Errors
/// `ENOSYS`/`EPERM` without NUMA support or under a seccomp filter.
pub fn mems_allowed() -> io::Result<Vec<u64>> {
    const F_MEMS_ALLOWED: u32 = 1 << 2;
    get_nodes(std::ptr::null_mut(), F_MEMS_ALLOWED)
}

fn get_nodes(mode: *mut i32, flags: u32) -> io::Result<Vec<u64>> {
    // The kernel refuses masks shorter than its MAX_NUMNODES: 1024 at the most today.
    let mut nodes = vec![0u64; 64];
    // SAFETY: mode is null or valid for one write; the mask has as many bits as stated.
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
/// As [`set_mempolicy`]; `EIO` with `MF_STRICT` when pages could not follow.
pub fn bind(mapping: &Mapping, mode: Mode, nodes: &[u64], mf_flags: u32) -> io::Result<()> {
    let (mask, bits) = raw_mask(nodes);
    // SAFETY: the range is a live mapping of ours; a policy changes placement, never contents.
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

/// Moves pages of process `pid` (0 = the caller) or asks where they are.
///
/// `pages` are virtual addresses; `destinations` has one node per page, or is `None` to
/// query. Returns one status per page: its node, or a negative errno (`-ENOENT`
/// untouched, `-EFAULT` zero page or unmapped, `-EACCES` shared, `-EBUSY` pinned).
///
/// # Errors
/// `ESRCH` when the process is gone, `EPERM` without the right to trace it, `EACCES`
/// when a destination is outside its cpuset, `EINVAL` for lists of unequal length.
pub fn move_pages(
    pid: i32,
    pages: &[usize],
    destinations: Option<&[i32]>,
    mf_flags: u32,
) -> io::Result<Vec<i32>> {
    if destinations.is_some_and(|d| d.len() != pages.len()) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // -ENOENT where the kernel stops early, so that an unwritten entry never reads as node 0.
    let mut status = vec![-libc::ENOENT; pages.len()];
    // SAFETY: all three arrays have `pages.len()` entries; addresses are only looked up in
    // the target's page table, never dereferenced here.
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
        // The policy is per thread and the test harness gives each test a thread.
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

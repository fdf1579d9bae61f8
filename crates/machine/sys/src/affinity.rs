//! CPU affinity of threads, for any number of CPUs.
//!
//! Source: sched_setaffinity(2). glibc's `cpu_set_t` ends at 1024 CPUs, so the raw calls are used
//! with masks of the length that the caller needs.

use std::io;

use crate::check;

/// Number of words in the largest mask for reading: 64 Ki CPUs, eight times the largest `NR_CPUS`
/// of a mainline kernel.
const MAX_WORDS: usize = 1024;

/// Restricts thread `tid` (0 = the caller) to the CPUs whose bits are set.
///
/// # Errors
/// `EINVAL` if no CPU of the mask is online and in the thread's cpuset, `EPERM` if the thread
/// belongs to another user, `ESRCH` if it has ended.
pub fn set(tid: i32, mask: &[u64]) -> io::Result<()> {
    // SAFETY: the pointer and the length in bytes describe the caller's slice, which the
    // kernel only reads.
    check(unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, tid, size_of_val(mask), mask.as_ptr())
    })
    .map(drop)
}

/// The CPUs on which thread `tid` (0 = the caller) may run, as mask words.
///
/// # Errors
/// `ESRCH` if the thread has ended.
pub fn get(tid: i32) -> io::Result<Vec<u64>> {
    // SAFETY: the kernel writes at most the given number of bytes there.
    let (mut mask, bytes) = read(|mask, bytes| unsafe {
        libc::syscall(libc::SYS_sched_getaffinity, tid, bytes, mask)
    })?;
    mask.truncate(usize::try_from(bytes).unwrap_or(0).div_ceil(size_of::<u64>()));
    Ok(mask)
}

/// The CPUs on which the C library says that the calling thread may run, as mask words. A library in
/// `LD_PRELOAD` that places threads answers with the CPUs of all of them; [`get`] gives the kernel's
/// answer.
///
/// # Errors
/// As the kernel's.
pub fn by_c_library() -> io::Result<Vec<u64>> {
    // SAFETY: the C library writes at most the given number of bytes there, and `cpu_set_t` has the
    // alignment of a word.
    let (mask, _) = read(|mask, bytes| unsafe {
        libc::c_long::from(libc::sched_getaffinity(0, bytes, mask.cast()))
    })?;
    Ok(mask)
}

/// A mask that `call` writes, given a pointer to zeroed words and their length in bytes, with its
/// result.
fn read(call: impl Fn(*mut u64, usize) -> libc::c_long) -> io::Result<(Vec<u64>, libc::c_long)> {
    let mut words = 16;
    loop {
        let mut mask = vec![0u64; words];
        match check(call(mask.as_mut_ptr(), words * size_of::<u64>())) {
            Ok(result) => return Ok((mask, result)),
            // The kernel has more CPU ids than the mask has bits.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) && words < MAX_WORDS => words *= 2,
            Err(e) => return Err(e),
        }
    }
}

/// The CPU and node on which the caller runs at this moment.
#[must_use]
pub fn current_cpu_and_node() -> (u32, u32) {
    let (mut cpu, mut node) = (0u32, 0u32);
    // SAFETY: both pointers are to live locals; the third argument has been unused since Linux
    // 2.6.24.
    unsafe {
        libc::syscall(libc::SYS_getcpu, &raw mut cpu, &raw mut node, std::ptr::null_mut::<u8>());
    }
    (cpu, node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read_back() {
        let before = get(0).unwrap();
        let (word, bits) =
            before.iter().enumerate().find(|(_, w)| **w != 0).map(|(i, w)| (i, *w)).unwrap();
        let mut one = vec![0; before.len()];
        one[word] = 1 << bits.trailing_zeros();
        set(0, &one).unwrap();
        assert_eq!(get(0).unwrap(), one);
        let (cpu, _) = current_cpu_and_node();
        assert_eq!(cpu as usize, word * 64 + bits.trailing_zeros() as usize);
        set(0, &before).unwrap();
    }

    #[test]
    fn an_empty_mask_is_refused() {
        assert_eq!(set(0, &[0]).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}

//! The system calls for memory, time, waiting and files to write; `numapilot-syscall` has those that
//! other libraries use as well.
//!
//! Every call is optional. If the kernel or a filter refuses it, the allocator continues with less
//! (without a policy, pages are placed by first touch; without advice, they are small).

use core::ffi::CStr;

pub use numapilot_syscall::caller::page_size;
use numapilot_syscall::file::{CURRENT_DIRECTORY, read_file};
pub use numapilot_syscall::{Refused, call};

/// Readable.
const READ: usize = 1;
/// Readable and writable.
const READ_WRITE: usize = 3;
const PRIVATE_ANONYMOUS_NORESERVE: usize = 0x2 | 0x20 | 0x4000;
const MREMAP_MAYMOVE_FIXED_DONTUNMAP: usize = 1 | 2 | 4;

/// Advice on whether debuggers write a range into a core file (`VM_DONTDUMP`; the kernel itself
/// writes only memory that was touched).
const DONT_DUMP: usize = 16;
const DO_DUMP: usize = 17;

/// Reserves address space that must not be touched yet; it counts for no limit but RLIMIT_AS.
/// Debuggers do not write it into core files, which would take its whole length.
pub fn reserve(bytes: usize) -> Result<usize, Refused> {
    let arguments = [0, bytes, 0, PRIVATE_ANONYMOUS_NORESERVE, usize::MAX, 0];
    // SAFETY: a new private mapping at an address of the kernel's choice; the advice changes no
    // contents.
    unsafe {
        let start = call(libc::SYS_mmap, arguments)?;
        let _ = call(libc::SYS_madvise, [start, bytes, DONT_DUMP, 0, 0, 0]);
        Ok(start)
    }
}

/// Returns address space.
///
/// # Safety
/// The range is a mapping of ours that is not in use.
pub unsafe fn unreserve(start: usize, bytes: usize) {
    // SAFETY: by contract; a failure leaves it reserved.
    let _ = unsafe { call(libc::SYS_munmap, [start, bytes, 0, 0, 0, 0]) };
}

/// Makes reserved space readable and writable, and a part of core files.
///
/// # Safety
/// The range lies in a reservation of ours.
pub unsafe fn commit(start: usize, bytes: usize) -> Result<(), Refused> {
    // SAFETY: by contract; the advice changes no contents.
    unsafe {
        call(libc::SYS_mprotect, [start, bytes, READ_WRITE, 0, 0, 0])?;
        let _ = call(libc::SYS_madvise, [start, bytes, DO_DUMP, 0, 0, 0]);
    }
    Ok(())
}

/// Makes reserved space readable: zeroes, which take no memory and count for no limit.
///
/// # Safety
/// The range lies in a reservation of ours.
pub unsafe fn make_readable(start: usize, bytes: usize) -> Result<(), Refused> {
    // SAFETY: by contract.
    unsafe { call(libc::SYS_mprotect, [start, bytes, READ, 0, 0, 0]) }.map(drop)
}

/// Makes a range inaccessible, or readable and writable again.
///
/// # Safety
/// The range is ours and not in use.
pub unsafe fn protect(start: usize, bytes: usize, accessible: bool) -> Result<(), Refused> {
    is_whole(start, bytes)?;
    let protection = if accessible { READ_WRITE } else { 0 };
    // SAFETY: by contract.
    unsafe { call(libc::SYS_mprotect, [start, bytes, protection, 0, 0, 0]) }.map(drop)
}

/// Eight of the random bytes that the kernel gives every program (AT_RANDOM).
pub fn random_seed() -> u64 {
    // SAFETY: takes a constant.
    let bytes = unsafe { libc::getauxval(libc::AT_RANDOM) } as *const u64;
    if bytes.is_null() {
        return now_ms();
    }
    // SAFETY: the entry points to 16 bytes that stay.
    unsafe { bytes.read_unaligned() }
}

/// Whether a range consists of whole pages. The kernel rounds lengths up, into what follows.
fn is_whole(start: usize, bytes: usize) -> Result<(), Refused> {
    let whole = (start | bytes).is_multiple_of(page_size());
    whole.then_some(()).ok_or(Refused(libc::EINVAL))
}

/// Fills a range with zeroes. Whole pages are returned to the system, which provides zeroes at the
/// next touch; bytes on pages with other contents are overwritten.
///
/// # Safety
/// The range is ours and committed, and its contents are not needed.
pub unsafe fn discard(start: usize, bytes: usize) -> Result<(), Refused> {
    const DONT_NEED: usize = 4;
    let (end, page) = (start + bytes, page_size());
    let first = start.next_multiple_of(page).min(end);
    let last = (end - end % page).max(first);
    // SAFETY: by contract; the edges lie in pages that are there in any case.
    unsafe {
        if first < last {
            call(libc::SYS_madvise, [first, last - first, DONT_NEED, 0, 0, 0])?;
        }
        (start as *mut u8).write_bytes(0, first - start);
        (last as *mut u8).write_bytes(0, end - last);
    }
    Ok(())
}

/// Asks for huge pages in a range; a refusal changes nothing.
///
/// # Safety
/// The range is ours.
pub unsafe fn ask_for_huge(start: usize, bytes: usize) {
    const HUGE_PAGE: usize = 14;
    // SAFETY: by contract; the advice changes no contents.
    let _ = unsafe { call(libc::SYS_madvise, [start, bytes, HUGE_PAGE, 0, 0, 0]) };
}

/// Asks for small pages in a range until [`ask_for_huge`] is called for it, even if the machine
/// gives huge pages without being asked; a refusal changes nothing.
///
/// # Safety
/// The range is ours.
pub unsafe fn ask_for_small(start: usize, bytes: usize) {
    const NO_HUGE_PAGE: usize = 15;
    // SAFETY: by contract; the advice changes no contents.
    let _ = unsafe { call(libc::SYS_madvise, [start, bytes, NO_HUGE_PAGE, 0, 0, 0]) };
}

/// Whether the machine may have huge pages at all. False if it does not say so.
pub fn allows_huge_pages() -> bool {
    huge_pages_are_set_to(&[b"[always]", b"[madvise]"])
}

/// Whether the machine gives huge pages without being asked. False if it does not say so.
pub fn gives_huge_pages_unasked() -> bool {
    huge_pages_are_set_to(&[b"[always]"])
}

fn huge_pages_are_set_to(choices: &[&[u8]]) -> bool {
    let mut text = [0; 64];
    let text = read_file(c"/sys/kernel/mm/transparent_hugepage/enabled", &mut text);
    let is_set = |text: &[u8], choice: &[u8]| text.windows(choice.len()).any(|part| part == choice);
    text.is_ok_and(|text| choices.iter().any(|choice| is_set(text, choice)))
}

/// Replaces the small pages of a range by a huge page (Linux 6.1), even if the machine allows none.
///
/// # Errors
/// The kernel's error, for example if no huge page is free; nothing has changed then.
///
/// # Safety
/// The range is ours; it is one huge page.
pub unsafe fn collapse(start: usize, bytes: usize) -> Result<(), Refused> {
    const COLLAPSE: usize = 25;
    // SAFETY: by contract; the contents stay.
    unsafe { call(libc::SYS_madvise, [start, bytes, COLLAPSE, 0, 0, 0]) }.map(drop)
}

/// How many bytes of a range of whole pages, 512 at most, are in memory.
///
/// # Safety
/// The range is ours.
pub unsafe fn resident(start: usize, bytes: usize) -> Result<usize, Refused> {
    let mut pages = [0_u8; 512];
    let count = bytes / page_size();
    is_whole(start, bytes)?;
    let pages = pages.get_mut(..count).ok_or(Refused(libc::EINVAL))?;
    // SAFETY: the kernel writes a byte for each page, and the buffer has as many bytes.
    unsafe { call(libc::SYS_mincore, [start, bytes, pages.as_mut_ptr() as usize, 0, 0, 0]) }?;
    Ok(pages.iter().filter(|&&page| page & 1 == 1).count() * page_size())
}

/// Writes a zero, so that the page exists.
///
/// # Safety
/// The word is accessible and not in use: it may be zero from here on.
pub unsafe fn touch(address: usize) {
    // SAFETY: by contract. Volatile, because no code reads it.
    unsafe { (address as *mut u64).write_volatile(0) };
}

/// Maps memory of zeroes in place of the current mapping of a range: readable and writable, with no
/// advice and no policy.
///
/// # Safety
/// The range is ours, and its contents are not needed. After a refusal it may be unmapped.
pub unsafe fn map_anew(start: usize, bytes: usize) -> Result<(), Refused> {
    const FIXED: usize = 0x10;
    is_whole(start, bytes)?;
    let flags = PRIVATE_ANONYMOUS_NORESERVE | FIXED;
    // SAFETY: by contract.
    unsafe { call(libc::SYS_mmap, [start, bytes, READ_WRITE, flags, usize::MAX, 0]) }.map(drop)
}

/// The same, provided that no part of the range is mapped (Linux 4.17).
///
/// # Safety
/// The range is ours.
pub unsafe fn map_where_nothing_is(start: usize, bytes: usize) -> Result<(), Refused> {
    const FIXED_NOREPLACE: usize = 0x10_0000;
    let flags = PRIVATE_ANONYMOUS_NORESERVE | FIXED_NOREPLACE;
    // SAFETY: replaces nothing.
    let mapped = unsafe { call(libc::SYS_mmap, [start, bytes, READ_WRITE, flags, usize::MAX, 0]) }?;
    if mapped != start {
        // SAFETY: just mapped, elsewhere.
        unsafe { unreserve(mapped, bytes) };
        return Err(Refused(libc::EEXIST));
    }
    Ok(())
}

/// Whether all of a range of whole pages is mapped.
///
/// # Safety
/// The range is ours.
pub unsafe fn is_mapped(start: usize, bytes: usize) -> bool {
    let step = 512 * page_size();
    (0..bytes).step_by(step).all(|offset| {
        // SAFETY: by contract.
        let there = unsafe { resident(start + offset, step.min(bytes - offset)) };
        // If the call itself is refused, no part is known to be missing.
        there != Err(Refused(libc::ENOMEM))
    })
}

/// Whether a range lies in one mapping.
///
/// # Safety
/// The range is ours, and so is what follows it, so it has no room to grow.
pub unsafe fn is_one_mapping(start: usize, bytes: usize) -> bool {
    let longer = bytes + page_size();
    // SAFETY: by contract. When asked to grow a range in place, the kernel first checks whether it
    // is one mapping (EFAULT), and then finds no room.
    match unsafe { call(libc::SYS_mremap, [start, bytes, longer, 0, 0, 0]) } {
        Err(Refused(number)) => number != libc::EFAULT,
        Ok(_) => {
            // SAFETY: the range that it grew by is not in use.
            unsafe { unreserve(start + bytes, page_size()) };
            true
        }
    }
}

/// Moves the pages of one range to another without copying. The old range stays mapped and becomes
/// empty. Needs Linux 5.7. After a refusal the new range may be unmapped.
///
/// # Safety
/// Both ranges are committed, ours, disjoint and `bytes` long. The old one is one mapping, and the
/// contents of the new one are not needed.
pub unsafe fn move_pages(from: usize, to: usize, bytes: usize) -> Result<(), Refused> {
    is_whole(from | to, bytes)?;
    let arguments = [from, bytes, bytes, MREMAP_MAYMOVE_FIXED_DONTUNMAP, to, 0];
    // SAFETY: by contract.
    unsafe { call(libc::SYS_mremap, arguments) }.map(drop)
}

/// CPU on which the caller runs; `None` if it is unknown. The C library makes a system call only if
/// the kernel shares the number in no other way.
pub fn current_cpu() -> Option<usize> {
    // SAFETY: takes nothing. On failure it sets `errno`, which belongs to the program.
    let cpu = unsafe {
        let errno = *libc::__errno_location();
        let cpu = libc::sched_getcpu();
        if cpu < 0 {
            *libc::__errno_location() = errno;
        }
        cpu
    };
    usize::try_from(cpu).ok()
}

/// Largest address space that the process may have, in bytes; `None` without a limit.
pub fn address_space_limit() -> Option<usize> {
    const ADDRESS_SPACE: usize = 9;
    limit_of(ADDRESS_SPACE)
}

/// Whether the address space of the process, or its data, is limited.
pub fn has_memory_limit() -> bool {
    const DATA: usize = 2;
    address_space_limit().or_else(|| limit_of(DATA)).is_some()
}

fn limit_of(resource: usize) -> Option<usize> {
    let mut limit = [0u64; 2];
    let arguments = [0, resource, 0, limit.as_mut_ptr() as usize, 0, 0];
    // SAFETY: the kernel writes two 64-bit words.
    unsafe { call(libc::SYS_prlimit64, arguments) }.ok()?;
    (limit[0] != u64::MAX).then_some(limit[0] as usize)
}

/// Milliseconds of the coarse monotonic clock: exact to a timer tick.
pub fn now_ms() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC_COARSE) / 1_000_000
}

/// Nanoseconds of the monotonic clock.
pub fn now_ns() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC)
}

/// A monotonic clock, in nanoseconds.
fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec. The C library reads the kernel's shared page, without a system
    // call. These clocks cannot fail, so `errno` does not change.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time of the calling thread in nanoseconds.
pub fn thread_cpu_ns() -> Result<u64, Refused> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let clock = libc::CLOCK_THREAD_CPUTIME_ID as usize;
    // SAFETY: the kernel writes one timespec.
    unsafe { call(libc::SYS_clock_gettime, [clock, &raw mut time as usize, 0, 0, 0, 0]) }?;
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Sleeps; a signal may end it early.
pub fn sleep_ms(milliseconds: u64) {
    let time = [(milliseconds / 1000) as i64, (milliseconds % 1000) as i64 * 1_000_000];
    // SAFETY: the kernel reads two 64-bit words.
    let _ = unsafe { call(libc::SYS_nanosleep, [time.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

const CLOSE_ON_EXEC: usize = libc::O_CLOEXEC as usize;

/// Creates a file that only its owner may read and write. Fails if there is a file or a link with
/// this name. Returns its descriptor.
pub fn create_file(path: &CStr) -> Result<i32, Refused> {
    const WRITE_ONLY: usize = 0o1;
    const CREATE_NEW: usize = 0o100 | 0o200;
    const OWNER: usize = 0o600;
    let flags = WRITE_ONLY | CREATE_NEW | CLOSE_ON_EXEC;
    let arguments = [CURRENT_DIRECTORY, path.as_ptr() as usize, flags, OWNER, 0, 0];
    // SAFETY: a terminated string.
    unsafe { call(libc::SYS_openat, arguments) }.map(|file| file as i32)
}

/// Renames a file, replacing the file that has that name.
pub fn rename(from: &CStr, to: &CStr) -> Result<(), Refused> {
    let (from, to) = (from.as_ptr() as usize, to.as_ptr() as usize);
    // SAFETY: two terminated strings.
    unsafe { call(libc::SYS_renameat, [CURRENT_DIRECTORY, from, CURRENT_DIRECTORY, to, 0, 0]) }
        .map(drop)
}

/// Removes one of our files.
pub fn remove_file(path: &CStr) {
    // SAFETY: a terminated string.
    let _ = unsafe {
        call(libc::SYS_unlinkat, [CURRENT_DIRECTORY, path.as_ptr() as usize, 0, 0, 0, 0])
    };
}

/// Writes all of `text` to a descriptor.
pub fn write(descriptor: i32, mut text: &[u8]) -> Result<(), Refused> {
    while !text.is_empty() {
        let arguments = [descriptor as usize, text.as_ptr() as usize, text.len(), 0, 0, 0];
        // SAFETY: the kernel reads at most the length of the text.
        match unsafe { call(libc::SYS_write, arguments) } {
            Ok(written) => text = text.get(written..).unwrap_or_default(),
            Err(Refused(libc::EINTR)) => {}
            Err(refused) => return Err(refused),
        }
    }
    Ok(())
}

//! How many mappings the allocator adds to those of the process, and the limit that it keeps.
//!
//! The kernel describes memory by mappings: neighbouring ranges with the same properties share one.
//! A range that gets a property of its own (huge pages, no access, pages that were moved there)
//! splits the mapping around it. A process may have `vm.max_map_count` of them, 65,530 by default.
//! Beyond that every mmap of the process fails, and with it thread creation and dlopen
//! (Documentation/admin-guide/sysctl/vm.rst). So code that gives a range a property of its own asks
//! here first, and does without it if the answer is no. Code that makes the range equal to its
//! neighbours again reports this here.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use numapilot_syscall::file::read_file;

/// The share of the system's limit that the allocator may use.
const PART: u32 = 16;
/// The most that it uses, whatever the system's limit, because page faults search all mappings.
const MOST: u32 = 4096;
/// Linux's default limit; assumed if the system does not report its own.
const USUAL_LIMIT: u32 = 65_530;
/// Ranges of at least this many bytes gain the most; the second half of the limit is reserved for
/// them.
const LONG: usize = 32 << 20;

/// Mappings added so far.
static ADDED: AtomicU32 = AtomicU32::new(0);
/// The limit; 0 until it is known.
static LIMIT: AtomicU32 = AtomicU32::new(0);
/// The process was forked. A range that is mapped anew then stays a mapping of its own: the kernel
/// does not merge it with mappings that come from the parent (mm/vma.c, is_mergeable_anon_vma).
static FORKED: AtomicBool = AtomicBool::new(false);

/// Counts mappings that a range of this many bytes is about to add. Returns false if that would be
/// too many; the range must then stay as it is.
pub fn add(mappings: u32, bytes: usize) -> bool {
    let limit = if bytes >= LONG { limit() } else { limit() / 2 };
    let raised = |added: u32| added.checked_add(mappings).filter(|&sum| sum <= limit);
    ADDED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raised).is_ok()
}

/// Counts mappings that a range no longer adds, because it is equal to its neighbours again.
pub fn remove(mappings: u32) {
    ADDED.fetch_sub(mappings, Ordering::Relaxed);
}

/// Whether a range that is mapped anew shares its neighbours' mapping. A range whose protection or
/// advice becomes theirs always does.
pub fn can_merge() -> bool {
    !FORKED.load(Ordering::Relaxed)
}

/// Called in the child of a fork.
pub fn forked() {
    FORKED.store(true, Ordering::Relaxed);
}

/// Reads the system's limit when the library is loaded, because later the program may no longer be
/// allowed to open files.
pub fn prepare() {
    limit();
}

fn limit() -> u32 {
    match LIMIT.load(Ordering::Relaxed) {
        0 => {
            let limit = limit_from(system_limit().unwrap_or(USUAL_LIMIT));
            LIMIT.store(limit, Ordering::Relaxed);
            limit
        }
        known => known,
    }
}

/// The most that the allocator may add under this limit of the system.
fn limit_from(system: u32) -> u32 {
    (system / PART).clamp(1, MOST)
}

fn system_limit() -> Option<u32> {
    let mut buffer = [0; 32];
    let text = read_file(c"/proc/sys/vm/max_map_count", &mut buffer).ok()?;
    core::str::from_utf8(text).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn the_limit_is_a_part_of_the_systems() {
        assert_eq!(limit_from(USUAL_LIMIT), 4095);
        assert_eq!(limit_from(1000), 62);
        assert_eq!(limit_from(1 << 20), MOST);
        assert_eq!(limit_from(0), 1);
    }

    #[test]
    fn the_system_tells_its_limit() {
        if !std::path::Path::new("/proc/sys/vm/max_map_count").exists() {
            std::println!("skipped: this system does not tell vm.max_map_count");
            return;
        }
        assert!(system_limit().is_some_and(|limit| limit > 0));
    }
}

//! What the kernel knows of the caller.

use crate::{Refused, call};

/// The number of the calling process. After vfork(2) it is not that of the memory's owner.
#[must_use]
pub fn process_id() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { call(libc::SYS_getpid, [0; 6]) }.map_or(0, |id| id as i32)
}

/// The number of the calling thread.
#[must_use]
pub fn thread_id() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { call(libc::SYS_gettid, [0; 6]) }.map_or(0, |id| id as i32)
}

/// The CPU on which the caller runs and the ID of its node, by a system call.
///
/// # Errors
/// A filter forbids the call.
pub fn cpu_and_node() -> Result<(u32, u32), Refused> {
    let (mut cpu, mut node) = (0u32, 0u32);
    let arguments = [&raw mut cpu as usize, &raw mut node as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes two unsigned ints.
    unsafe { call(libc::SYS_getcpu, arguments) }.map(|_| (cpu, node))
}

/// Bytes of a page of this system: 4096, on some aarch64 kernels 16384 or 65536.
#[must_use]
pub fn page_size() -> usize {
    // SAFETY: takes a constant.
    unsafe { libc::getauxval(libc::AT_PAGESZ) as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern crate std;

    #[test]
    fn the_caller_is_known() {
        assert_eq!(process_id().unsigned_abs(), std::process::id());
        // The first thread of a test binary runs no test.
        assert_ne!(thread_id(), process_id());
        assert!(std::fs::exists(std::format!("/proc/self/task/{}", thread_id())).unwrap());
        let (cpu, node) = cpu_and_node().unwrap();
        let path = std::format!("/sys/devices/system/cpu/cpu{cpu}");
        assert!(std::fs::exists(&path).unwrap());
        // A kernel without NUMA support shows no nodes.
        assert!(
            node == 0
                || std::fs::exists(std::format!("/sys/devices/system/node/node{node}")).unwrap()
        );
        assert!(page_size().is_power_of_two());
    }
}

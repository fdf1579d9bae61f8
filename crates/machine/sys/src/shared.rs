//! A file that is mapped shared, as 64-bit words.
//!
//! The words are atomic because other processes write them at any time: the emulator maps a lab's
//! PMU, and programs in the guest map it through `/sys/bus/pci`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// A shared mapping of the beginning of a file.
#[derive(Debug)]
pub struct SharedWords {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the memory is only accessed through atomics, which any thread may use.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps as many whole words as the file holds, for reading and writing.
    ///
    /// # Errors
    /// Those of mmap(2): `EACCES` for a file that is not open for writing, `ENODEV` for one that
    /// cannot be mapped, `EINVAL` for an empty one.
    pub fn map(file: &File) -> io::Result<Self> {
        let words = usize::try_from(file.metadata()?.len()).unwrap_or(0) / size_of::<u64>();
        // SAFETY: a new mapping at an address the kernel chooses aliases nothing of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                words * size_of::<u64>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { start, words })
    }
}

/// Wakes all threads, in any process, that wait with futex(2) on the low half of a shared word.
pub fn wake_all(word: &AtomicU64) {
    let low = std::ptr::from_ref(word).cast::<u32>();
    // SAFETY: the kernel looks up the address and reads nothing there. It is no error if no thread
    // waits.
    unsafe { libc::syscall(libc::SYS_futex, low, libc::FUTEX_WAKE, i32::MAX) };
}

impl AsRef<[AtomicU64]> for SharedWords {
    fn as_ref(&self) -> &[AtomicU64] {
        // SAFETY: mapped and page aligned while `self` lives; any bit pattern is an AtomicU64, and
        // other processes write through shared memory too.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: start and length are those of our own mmap, unmapped exactly once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * size_of::<u64>()) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn both_sides_see_what_is_written() {
        let file = rustix::fs::memfd_create("shared", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let file = File::from(file);
        assert!(SharedWords::map(&file).is_err());
        file.set_len(4100).unwrap();
        let one = SharedWords::map(&file).unwrap();
        let other = SharedWords::map(&file).unwrap();
        assert_eq!(one.as_ref().len(), 512);
        one.as_ref()[7].store(42, Ordering::Relaxed);
        assert_eq!(other.as_ref()[7].load(Ordering::Relaxed), 42);
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, 56).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), 42);
    }
}

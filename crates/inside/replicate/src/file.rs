//! A file with a copy on every node, until a program opens it for writing.
//!
//! The page cache has one copy of a file, on the nodes of the threads that read it first.
//! `FileCopies` has one on every node. A read lease ensures that no copy outlives the contents that
//! it was made from.

use core::ffi::{CStr, c_void};
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Release},
};

use numapilot_syscall::Refused;
use numapilot_syscall::caller::page_size;
use numapilot_syscall::file::{File, fill, status};

use crate::copies::Copies;
use crate::error::Error;
use crate::kernel;
use crate::lease::Lease;
use crate::replicated::{Reader, Replicated};

/// What the lease's thread and the readers share.
struct Shared {
    lease: Lease,
    bytes: Replicated<[u8]>,
    /// The empty value that replaces the copies.
    nothing: core::cell::UnsafeCell<Option<Copies<[u8]>>>,
    /// 1 while the copies match the file; 0 in the child of a fork, which gets no notification.
    current: NonNull<AtomicU32>,
}

/// The contents of a file on every node, until a program opens the file for writing.
///
/// ```
/// use numapilot_replicate::FileCopies;
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("table");
/// # std::fs::write(&path, "abc")?;
/// # use std::os::unix::ffi::OsStrExt;
/// # let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
/// let table = match FileCopies::open(&path) {
///     Ok(table) => table,
///     // A program writes to it, or the file system gives no leases.
///     Err(why) => return Ok(eprintln!("{why}")),
/// };
/// let mut reader = table.reader()?;
/// match reader.read() {
///     Some(bytes) => assert_eq!(bytes, b"abc"),
///     None => eprintln!("it is being written: open it again later"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FileCopies(NonNull<Shared>);

// SAFETY: threads may share the inner part: what is not atomic is written before it is shared, or
// by the lease's thread alone.
unsafe impl Send for FileCopies {}
// SAFETY: as above.
unsafe impl Sync for FileCopies {}

impl FileCopies {
    /// Copies a regular file. Follows symbolic links.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::NotAFile`], [`Error::Written`], [`Error::NoLease`],
    /// [`Error::NoThread`], [`Error::NoMemory`].
    pub fn open(path: &CStr) -> Result<Self, Error> {
        let file = File::open(path).map_err(unreadable)?;
        regular_size(&file)?;
        let nothing = Copies::from_slice(&[])?;
        let before = Replicated::new(Copies::from_slice(&[])?);
        let (page, bytes) = (page_size(), shared_bytes());
        let start = kernel::map(bytes).map_err(|_| Error::NoMemory { bytes, copies: 1 })?;
        // SAFETY: the mapping's last page.
        let current = unsafe { start.add(bytes - page) };
        kernel::wipe_on_fork(current.as_ptr(), page);
        let shared = start.cast::<Shared>();
        // SAFETY: new memory of that size, page aligned.
        unsafe {
            shared.as_ptr().write(Shared {
                lease: Lease::new(file, shared.cast(), ends),
                bytes: before,
                nothing: core::cell::UnsafeCell::new(Some(nothing)),
                current: current.cast(),
            });
        }
        // SAFETY: written above; it stays there until it is dropped, which gives the lease back.
        let lease = unsafe { NonNull::from(&shared.as_ref().lease) };
        // SAFETY: as above.
        if let Err(error) = unsafe { Lease::take(lease) } {
            // SAFETY: the thread has ended, and nothing else has a reference.
            unsafe { free(shared) };
            return Err(error);
        }
        let copies = Self(shared);
        copies.fill()?;
        Ok(copies)
    }

    /// Copies the file under its lease, and starts to watch it.
    fn fill(&self) -> Result<(), Error> {
        let shared = self.shared();
        let file = shared.lease.file();
        let size = regular_size(file)?;
        shared.bytes.publish(Copies::filled(size, |place| {
            match fill(place, |offset, rest| file.read_at(offset, rest)) {
                Ok(read) if read == place.len() => Ok(()),
                Ok(_) => Err(Error::File { errno: libc::EIO }),
                Err(refused) => Err(unreadable(refused)),
            }
        })?);
        shared.current().store(1, Release);
        shared.lease.watch();
        Ok(())
    }

    /// A reader, for one thread.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn reader(&self) -> Result<FileReader<'_>, Error> {
        let shared = self.shared();
        Ok(FileReader { current: shared.current(), bytes: shared.bytes.reader()? })
    }

    /// Whether the copies still match the file.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.shared().current().load(Acquire) == 1
    }

    fn shared(&self) -> &Shared {
        // SAFETY: live as long as `self`.
        unsafe { self.0.as_ref() }
    }
}

impl Shared {
    fn current(&self) -> &AtomicU32 {
        // SAFETY: in the mapping that contains `self`.
        unsafe { self.current.as_ref() }
    }
}

/// Called before another program writes to the file: drops the copies, then lets the writer
/// continue.
fn ends(shared: NonNull<c_void>) {
    // SAFETY: live until the thread that calls this is joined.
    let shared = unsafe { shared.cast::<Shared>().as_ref() };
    shared.current().store(0, Release);
    // SAFETY: only this function accesses it, and it is called once.
    if let Some(nothing) = unsafe { (*shared.nothing.get()).take() } {
        shared.bytes.publish(nothing);
    }
}

fn shared_bytes() -> usize {
    let page = page_size();
    size_of::<Shared>().next_multiple_of(page) + page
}

/// # Safety
/// Nothing uses it any more.
unsafe fn free(shared: NonNull<Shared>) {
    // SAFETY: by contract.
    unsafe {
        shared.drop_in_place();
        kernel::unmap(shared.cast(), shared_bytes());
    }
}

impl Drop for FileCopies {
    fn drop(&mut self) {
        self.shared().lease.give_back();
        // SAFETY: the thread is gone, and readers borrow `self`.
        unsafe { free(self.0) };
    }
}

impl fmt::Debug for FileCopies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCopies").field("is_current", &self.is_current()).finish_non_exhaustive()
    }
}

fn unreadable(Refused(errno): Refused) -> Error {
    Error::File { errno }
}

/// The size of a regular file.
fn regular_size(file: &File) -> Result<usize, Error> {
    let about = status(file.descriptor()).map_err(unreadable)?;
    if about.st_mode & libc::S_IFMT != libc::S_IFREG {
        return Err(Error::NotAFile);
    }
    usize::try_from(about.st_size).map_err(|_| Error::TooLarge)
}

/// A thread's reader of [`FileCopies`].
#[derive(Debug)]
pub struct FileReader<'a> {
    current: &'a AtomicU32,
    bytes: Reader<'a, [u8]>,
}

impl FileReader<'_> {
    /// The contents of the file, from the copy nearest to the calling thread. Returns `None` once a
    /// program has opened the file for writing, and in the child of a fork. A reference stays valid
    /// for as long as it lives.
    #[inline]
    pub fn read(&mut self) -> Option<&[u8]> {
        let bytes = self.bytes.read();
        (self.current.load(Acquire) == 1).then_some(bytes)
    }

    /// Releases the copies until the next read.
    pub fn rest(&mut self) {
        self.bytes.rest();
    }
}

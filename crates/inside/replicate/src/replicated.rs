//! A value on every node that can be replaced as a whole while threads read it.

use core::fmt;
use core::ptr::NonNull;

use crate::copies::{Copies, Current, Version};
use crate::error::Error;
use crate::kernel;
use crate::slots::{Chunk, Slot, Slots};
use crate::swap::Swap;

/// A value with a copy on every node. It is read without a system call or a lock, and replaced as a
/// whole.
///
/// ```
/// use numapilot_replicate::{Copies, Replicated};
///
/// let rates = Replicated::new(Copies::from_slice(&[1.0, 1.1])?);
/// std::thread::scope(|scope| {
///     scope.spawn(|| -> Result<(), numapilot_replicate::Error> {
///         let mut reader = rates.reader()?;
///         for _ in 0..1000 {
///             let now = reader.read();
///             // Both are of one version, even if another is published meanwhile.
///             assert_eq!(now[1] / now[0], 1.1);
///         }
///         Ok(())
///     });
///     rates.publish(Copies::from_slice(&[2.0, 2.2])?);
///     Ok::<(), numapilot_replicate::Error>(())
/// })?;
/// # Ok::<(), numapilot_replicate::Error>(())
/// ```
pub struct Replicated<T: ?Sized> {
    swap: Swap<Version<T>>,
    slots: Slots<Version<T>>,
}

// SAFETY: it owns its versions, and any thread may drop them.
unsafe impl<T: ?Sized + Send> Send for Replicated<T> {}
// SAFETY: a shared reference gives `&T`, and drops versions on the thread that replaces them. Pins
// and versions change owners by the protocol of `swap`.
unsafe impl<T: ?Sized + Send + Sync> Sync for Replicated<T> {}

impl<T: ?Sized> Replicated<T> {
    /// A value that begins with these copies.
    #[must_use]
    pub fn new(first: Copies<T>) -> Self {
        Self { swap: Swap::new(first.into_raw()), slots: Slots::new() }
    }

    /// Replaces the value on all nodes at once: a reader gets either the old or the new one. Never
    /// waits. Frees earlier versions that no reader pins; pinned ones are freed by a later call, or
    /// with `self`.
    pub fn publish(&self, next: Copies<T>) {
        // SAFETY: the copies belonged to the caller; the slots contain all readers.
        let free = unsafe { self.swap.replace(next.into_raw(), || self.slots.pins()) };
        for version in free {
            // SAFETY: made by `into_raw`, and no reader can have it.
            drop(unsafe { Copies::from_raw(version) });
        }
    }

    /// A reader, for one thread.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn reader(&self) -> Result<Reader<'_, T>, Error> {
        let bytes = size_of::<Chunk<Version<T>>>();
        let slot = self.slots.take_slot(|| {
            let chunk = kernel::map(bytes).map_err(|_| Error::NoMemory { bytes, copies: 1 })?;
            let chunk = chunk.cast::<Chunk<Version<T>>>().as_ptr();
            // SAFETY: new memory of that size, page aligned.
            unsafe { chunk.write(Chunk::new()) };
            Ok(chunk)
        })?;
        Ok(Reader { of: self, slot })
    }
}

impl<T: ?Sized> Drop for Replicated<T> {
    fn drop(&mut self) {
        for version in self.swap.take_all() {
            // SAFETY: made by `into_raw`; readers borrow `self`, so there are none.
            drop(unsafe { Copies::from_raw(version) });
        }
        for chunk in self.slots.take_all() {
            if let Some(chunk) = NonNull::new(chunk) {
                // SAFETY: mapped by `reader`, and nothing uses it any more.
                unsafe { kernel::unmap(chunk.cast(), size_of::<Chunk<Version<T>>>()) };
            }
        }
    }
}

impl<T: ?Sized> fmt::Debug for Replicated<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicated").finish_non_exhaustive()
    }
}

/// A thread's reader of a [`Replicated`] value.
///
/// It pins the version that it read last, so that reading costs no fence. A thread that stops
/// reading therefore keeps one old version in memory, unless it calls [`Reader::rest`].
pub struct Reader<'a, T: ?Sized> {
    of: &'a Replicated<T>,
    slot: &'a Slot<Version<T>>,
}

impl<T: ?Sized> Reader<'_, T> {
    /// The current value, from the copy nearest to the calling thread. It does not change for as
    /// long as the reference lives. The next call may return another version.
    #[inline]
    pub fn read(&mut self) -> &T {
        // SAFETY: pinned. Only the next call with `self` may move the pin, and the reference
        // borrows `self` until then.
        unsafe { &*(*self.of.swap.read(&self.slot.pin)).local() }
    }

    /// All copies of the current value.
    pub fn copies(&mut self) -> Option<Current<'_, T>> {
        let version = NonNull::new(self.of.swap.read(&self.slot.pin))?;
        // SAFETY: as for `read`.
        Some(unsafe { Current::of(version) })
    }

    /// Releases the pin until the next read.
    pub fn rest(&mut self) {
        self.slot.pin.release();
    }
}

impl<T: ?Sized> Drop for Reader<'_, T> {
    fn drop(&mut self) {
        self.slot.give_back();
    }
}

impl<T: ?Sized> fmt::Debug for Reader<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

//! A lock of one word that waits in the kernel (Drepper, "Futexes are tricky", mutex 2).
//!
//! A thread that forks takes all locks, so that the child finds no operation half done. The thread
//! may still allocate before it releases them: in fork handlers that run after ours before the
//! fork, and before ours after it. The order of the handlers depends on the order in which
//! libraries are loaded. So locks that this thread takes in that time count as taken already.

use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use numapilot_syscall::futex::{self, Scope};

use crate::os::thread_pointer;

const FREE: u32 = 0;
const HELD: u32 = 1;
const WAITED_FOR: u32 = 2;
/// Spins before waiting in the kernel, because these locks are held for a short time.
const SPINS: u32 = 100;

/// The thread that forks and holds all locks, by its [`thread_pointer::get`]; 0: none.
static FORKER: AtomicUsize = AtomicUsize::new(0);

/// Notes that the caller has taken all locks in order to fork.
pub fn begin_fork() {
    FORKER.store(thread_pointer::get(), Ordering::Relaxed);
}

/// Notes that the caller will release them next, in parent or child.
pub fn end_fork() {
    FORKER.store(0, Ordering::Relaxed);
}

#[inline]
fn is_forker() -> bool {
    let forker = FORKER.load(Ordering::Relaxed);
    forker != 0 && forker == thread_pointer::get()
}

/// Data behind a lock. All zeroes is a valid, free lock of zeroed data.
#[repr(C)]
pub struct Lock<T> {
    word: AtomicU32,
    data: UnsafeCell<T>,
}

// SAFETY: the data is reached only through a guard, of which there is one at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// A free lock.
    pub const fn new(data: T) -> Self {
        Self { word: AtomicU32::new(FREE), data: UnsafeCell::new(data) }
    }

    /// Takes the lock.
    pub fn lock(&self) -> Guard<'_, T> {
        self.acquire();
        Guard { lock: self }
    }

    /// Takes the lock without a guard, for a fork: see [`Self::release`].
    pub fn acquire(&self) {
        for _ in 0..SPINS {
            if self
                .word
                .compare_exchange_weak(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
            spin_loop();
        }
        if is_forker() {
            return;
        }
        while self.word.swap(WAITED_FOR, Ordering::Acquire) != FREE {
            let _ = futex::wait(&self.word, WAITED_FOR, Scope::Process, None);
        }
    }

    /// Releases what [`Self::acquire`] took; also in the child of a fork.
    pub fn release(&self) {
        if is_forker() {
            return;
        }
        if self.word.swap(FREE, Ordering::Release) == WAITED_FOR {
            futex::wake_one(&self.word, Scope::Process);
        }
    }
}

/// The lock is held as long as this lives.
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard proves that the lock is held.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed exclusively.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.lock.release();
    }
}

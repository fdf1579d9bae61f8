//! A value that the first caller makes and that is only read afterwards.

use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering};

const UNTOUCHED: u32 = 0;
const BUSY: u32 = 1;
const READY: u32 = 2;
const FAILED: u32 = 3;

/// A value in static memory, made in place.
pub struct Once<T> {
    phase: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is written by the one thread that moved the phase to BUSY, and read by others
// once it is READY.
unsafe impl<T: Sync> Sync for Once<T> {}

impl<T> Once<T> {
    /// A value that is not made yet. Until then it holds `initial`.
    pub const fn new(initial: T) -> Self {
        Self { phase: AtomicU32::new(UNTOUCHED), value: UnsafeCell::new(initial) }
    }

    /// The value; `None` until it is made.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: READY is stored after the last write.
        (self.phase.load(Ordering::Acquire) == READY).then(|| unsafe { &*self.value.get() })
    }

    /// Makes the value, unless a caller has tried before; waits while another thread makes it.
    /// `make` returns whether it succeeded. `None` if it failed.
    #[cold]
    pub fn get_or_make(&self, make: impl FnOnce(&mut T) -> bool) -> Option<&T> {
        let turn =
            self.phase.compare_exchange(UNTOUCHED, BUSY, Ordering::Acquire, Ordering::Acquire);
        if turn.is_ok() {
            // SAFETY: only this thread moved the phase to BUSY, so no other touches the value.
            let made = make(unsafe { &mut *self.value.get() });
            self.phase.store(if made { READY } else { FAILED }, Ordering::Release);
        }
        while self.phase.load(Ordering::Acquire) == BUSY {
            spin_loop();
        }
        self.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_caller_makes_the_value() {
        let once = Once::new(1);
        assert_eq!(once.get(), None);
        let make = |value: &mut i32| {
            *value += 1;
            true
        };
        assert_eq!(once.get_or_make(make), Some(&2));
        assert_eq!(once.get_or_make(make), Some(&2));
        assert_eq!(once.get(), Some(&2));
    }

    #[test]
    fn a_failure_is_final() {
        let once = Once::new(1);
        assert_eq!(once.get_or_make(|_| false), None);
        assert_eq!(once.get_or_make(|_| true), None);
    }

    #[test]
    fn others_wait_for_the_first() {
        extern crate std;
        static ONCE: Once<usize> = Once::new(0);
        let made = || {
            ONCE.get_or_make(|value| {
                *value = 7;
                true
            })
        };
        std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(made));
            threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), Some(&7)));
        });
    }
}

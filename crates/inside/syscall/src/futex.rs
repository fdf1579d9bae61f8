//! Waiting in the kernel until a word changes.
//!
//! Source: futex(2).

use core::ptr::null;
use core::sync::atomic::AtomicU32;

use crate::{Refused, call};

/// Who may wait on a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Threads of this process only, which is faster (FUTEX_PRIVATE_FLAG).
    Process = 128,
    /// Every process that maps the word.
    Shared = 0,
}

/// Waits until the word is no longer `value`, at most for some seconds if there is a limit. It may
/// return earlier, also if a signal arrives.
///
/// # Errors
/// There is no word at the address, or a filter forbids the call.
pub fn wait(
    word: *const AtomicU32,
    value: u32,
    scope: Scope,
    seconds: Option<u32>,
) -> Result<(), Refused> {
    let operation = libc::FUTEX_WAIT as usize | scope as usize;
    let limit = seconds.map(|seconds| [i64::from(seconds), 0]);
    let limit = limit.as_ref().map_or(null(), |limit| limit.as_ptr());
    let arguments = [word as usize, operation, value as usize, limit as usize, 0, 0];
    // SAFETY: the kernel only reads the word, and the two words of the limit if there is one.
    match unsafe { call(libc::SYS_futex, arguments) } {
        Ok(_) | Err(Refused(libc::EAGAIN | libc::EINTR | libc::ETIMEDOUT)) => Ok(()),
        Err(refused) => Err(refused),
    }
}

/// Wakes one thread that waits on the word, if there is one. The word may be gone: its address is
/// only a name.
pub fn wake_one(word: *const AtomicU32, scope: Scope) {
    let operation = libc::FUTEX_WAKE as usize | scope as usize;
    // SAFETY: the kernel does not access the address. A failure wakes no thread.
    let _ = unsafe { call(libc::SYS_futex, [word as usize, operation, 1, 0, 0, 0]) };
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering;

    use super::*;

    extern crate std;

    #[test]
    fn a_word_that_has_changed_is_not_waited_for() {
        for scope in [Scope::Process, Scope::Shared] {
            assert_eq!(wait(&AtomicU32::new(1), 0, scope, None), Ok(()));
        }
    }

    #[test]
    fn a_limit_ends_the_wait() {
        assert_eq!(wait(&AtomicU32::new(0), 0, Scope::Process, Some(0)), Ok(()));
        let nowhere = wait(core::ptr::null(), 0, Scope::Shared, None);
        assert_eq!(nowhere, Err(Refused(libc::EFAULT)));
    }

    #[test]
    fn a_waiting_thread_is_woken() {
        for scope in [Scope::Process, Scope::Shared] {
            let word = AtomicU32::new(0);
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    while word.load(Ordering::Acquire) == 0 {
                        wait(&word, 0, scope, None).unwrap();
                    }
                });
                word.store(1, Ordering::Release);
                wake_one(&word, scope);
            });
        }
    }
}

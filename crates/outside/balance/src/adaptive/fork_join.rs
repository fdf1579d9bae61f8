//! Fork and join: with a million accesses, each of two tasks takes long enough for a second thread
//! to pay.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};

/// Accesses from which a second thread is started. Starting one takes as long as some thousands of
/// accesses.
pub const MANY: usize = 100_000;

/// Runs both tasks, concurrently if there are `many` accesses and a thread can be started.
pub fn fork_join<A, B: Send>(
    many: bool,
    first: impl FnOnce() -> A,
    mut second: impl FnMut() -> B + Send,
) -> (A, B) {
    if !many {
        return (first(), second());
    }
    // If no thread can be started, the task runs here.
    let second = Mutex::new(second);
    let call = || second.lock().unwrap_or_else(PoisonError::into_inner)();
    thread::scope(|scope| {
        let other = Builder::new().spawn_scoped(scope, call);
        let a = first();
        let b = match other {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => call(),
        };
        (a, b)
    })
}

/// The start of the second half of rows. It does not separate rows that belong together.
pub fn middle<T>(rows: &[T], together: impl Fn(&T, &T) -> bool) -> usize {
    let half = rows.len() / 2;
    half + rows[half..].chunk_by(together).next().map_or(0, <[T]>::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_together_is_in_one_half() {
        let middle = |rows: &[u8]| middle(rows, |a, b| a == b);
        assert_eq!(
            [middle(&[]), middle(&[1]), middle(&[1, 2, 3, 4]), middle(&[1, 1, 1, 2])],
            [0, 1, 3, 3]
        );
    }

    #[test]
    fn both_tasks_are_done_on_one_thread_or_two() {
        for many in [false, true] {
            let own = thread::current().id();
            let (mut first, mut second) = (1, 2);
            let (same, other) = fork_join(
                many,
                || {
                    first += 10;
                    thread::current().id() == own
                },
                || {
                    second += 10;
                    thread::current().id() == own
                },
            );
            assert_eq!((first, second, same, other), (11, 12, true, !many));
        }
    }
}

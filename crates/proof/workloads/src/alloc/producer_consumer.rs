//! `alloc-producer-consumer`: half of the threads allocate and the others free, so every free is
//! remote. Objects pass through one queue in batches. A single thread does both in turn.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use super::Job;
use super::object::Object;
use super::sizes::uniform;

/// Objects of a batch.
const BATCH: usize = 256;
/// Batches in the queue per producer.
const DEPTH: usize = 16;
/// Sizes in bytes.
const SIZES: (u64, u64) = (16, 256);

/// The queue of batches.
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    depth: usize,
}

struct State {
    batches: VecDeque<Vec<Object>>,
    producers: usize,
}

/// Number of threads that allocate; the others free.
fn producers(threads: usize) -> usize {
    threads.div_ceil(2)
}

impl Queue {
    /// An empty queue for `threads` threads.
    pub fn new(threads: usize) -> Self {
        let producers = producers(threads);
        let depth = producers * DEPTH;
        // A consumer must not allocate for the queue itself.
        let state = State { batches: VecDeque::with_capacity(depth), producers };
        Self { state: Mutex::new(state), changed: Condvar::new(), depth }
    }

    fn put(&self, batch: Vec<Object>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |state: &mut State| state.batches.len() >= self.depth;
        let mut state =
            self.changed.wait_while(state, full).unwrap_or_else(PoisonError::into_inner);
        state.batches.push_back(batch);
        self.changed.notify_all();
    }

    /// The next batch; `None` when the last producer has ended.
    fn take(&self) -> Option<Vec<Object>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let empty = |state: &mut State| state.batches.is_empty() && state.producers > 0;
        let mut state =
            self.changed.wait_while(state, empty).unwrap_or_else(PoisonError::into_inner);
        let batch = state.batches.pop_front();
        self.changed.notify_all();
        batch
    }

    fn end(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).producers -= 1;
        self.changed.notify_all();
    }
}

pub fn work(job: &mut Job<'_>, queue: &Queue) {
    let threads = job.options.threads.get();
    if job.worker.index >= producers(threads) {
        while let Some(batch) = queue.take() {
            free(job, batch);
        }
        return;
    }
    let mut draws = job.tally.draws();
    let mut left = job.options.operations;
    while left > 0 {
        let size = left.min(BATCH as u64);
        let mut batch: Vec<Object> = job.tally.list(BATCH);
        for _ in 0..size {
            batch.push(job.tally.allocate(uniform(&mut draws, SIZES.0, SIZES.1)));
        }
        if threads == 1 {
            free(job, batch);
        } else {
            queue.put(batch);
        }
        left -= size;
    }
    queue.end();
}

fn free(job: &mut Job<'_>, mut batch: Vec<Object>) {
    batch.drain(..).for_each(|object| job.tally.free(object));
    job.tally.drop_list(batch);
}

//! `numapilot profile probe`: the program that `check` starts under a plan. It has memory and
//! threads in which the effects can be seen, and waits until it is told to end.

use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;

/// Enough memory for many huge pages, from malloc.
const BYTES: usize = 64 << 20;
const PAGE: usize = 4096;
/// Threads besides the first one.
const THREADS: usize = 3;

/// Uses memory and threads, says so in one line, and ends with standard input.
pub fn run() -> anyhow::Result<ExitCode> {
    let mut memory = vec![0_u8; BYTES];
    memory.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    std::hint::black_box(&memory);
    let end = Barrier::new(THREADS + 1);
    thread::scope(|scope| {
        let waits = || {
            end.wait();
        };
        let started: io::Result<Vec<_>> =
            (0..THREADS).map(|_| thread::Builder::new().spawn_scoped(scope, waits)).collect();
        if let Err(error) = started {
            // The threads that were started wait for all; only an exit ends them.
            eprintln!("numapilot: error: cannot create a thread: {error}; see ulimit -u");
            std::process::exit(1);
        }
        let result = io::stdout().write_all(b"ready\n").and_then(|()| io::stdout().flush());
        let result = result.and_then(|()| io::stdin().read_to_end(&mut Vec::new()));
        end.wait();
        result
    })?;
    Ok(ExitCode::SUCCESS)
}

//! Threads that wake each other take only the time of what they execute, regardless of the host's
//! scheduling delay and of other threads.
//!
//! The test runs itself in the guest.

use std::hint::black_box;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use numapilot_observe::lab::LabPmu;
use numapilot_sys::affinity;

use crate::guests::{Stop, in_a_guest};

const ROUNDS: usize = 501;
/// A wake takes no simulated time. If the woken thread started where the other threads are when the
/// host runs it, it would be five microseconds late.
const MOST_NS: u64 = 2_000;

#[test]
fn a_wake_takes_no_longer_because_the_host_is_busy() {
    let name = "wakes::a_wake_takes_no_longer_because_the_host_is_busy";
    in_a_guest(name, "machine-a", &[], check);
}

fn stay_on(cpu: usize) {
    affinity::set(0, &[1 << cpu]).unwrap();
}

/// Passes each byte on to the next thread.
fn pass_on(mut from: PipeReader, mut to: PipeWriter) {
    let mut byte = [0];
    while from.read_exact(&mut byte).is_ok() {
        to.write_all(&byte).unwrap();
    }
}

fn check(lab: &LabPmu) {
    let stop = AtomicBool::new(false);
    let (mut there, mut back) = (pipe().unwrap(), pipe().unwrap());
    thread::scope(|scope| {
        let end = Stop(&stop);
        // These threads keep the host busy and run ahead as far as they may.
        for cpu in 4..8 {
            let stop = &stop;
            scope.spawn(move || {
                stay_on(cpu);
                while !stop.load(Ordering::Relaxed) {
                    black_box((0..1000).map(black_box).sum::<u64>());
                }
            });
        }
        scope.spawn(move || {
            stay_on(2);
            pass_on(there.0, back.1);
        });
        stay_on(0);
        let mut round = || {
            there.1.write_all(&[1]).unwrap();
            back.0.read_exact(&mut [0]).unwrap();
        };
        // Waits until the other thread is there.
        round();
        let mut times: Vec<u64> = (0..ROUNDS)
            .map(|_| {
                let begin = lab.time_ns();
                round();
                lab.time_ns() - begin
            })
            .collect();
        times.sort_unstable();
        // On a very busy host some woken threads start too late to be waited for.
        let each = times[ROUNDS / 2];
        drop((end, there.1));
        println!("{each} ns for a way there and back, median");
        assert!(each < MOST_NS, "{each} ns");
    });
}

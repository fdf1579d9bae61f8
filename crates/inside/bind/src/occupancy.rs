//! The occupancy table: how many threads are pinned to which CPU, in all processes of a target.
//!
//! A new thread takes the least occupied CPU of its list. Of several, it takes its creator's, or
//! else the first one: once all CPUs are taken, a thread that waits for its successor does not need
//! its CPU, and its memory is there. While no thread ends, that is the round robin of numalloc
//! section 3.2 ("node-interleaved binding": the next thread gets the next node). When threads end
//! it is better: with a plain counter, short-lived threads push long-lived ones onto every second
//! CPU; the table fills the gaps that ended threads leave.
//!
//! The CPU of the main thread of a killed process is given back when later processes start (see
//! [`OccupancyTable::clear_dead`]). Its other threads stay counted, so that later threads avoid their
//! CPUs until the others are as full.
//!
//! The launcher creates the file (all zero is an empty occupancy table), and processes map it
//! shared. All fields are atomics, so a process that dies leaves nothing locked.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::cpus::MAX_CPUS;
use crate::processes::Processes;

pub use crate::processes::Holds;

/// The shared state of a target. It is valid when zeroed and has the same layout in every process.
#[repr(C)]
pub struct OccupancyTable {
    tally: [AtomicU32; EVENTS],
    processes: Processes,
    threads: [AtomicU32; MAX_CPUS],
}

/// Size of the file in bytes.
pub const FILE_BYTES: usize = size_of::<OccupancyTable>();

const EVENTS: usize = 3;

/// Events that are counted for the launcher's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A thread was pinned to a CPU.
    Placed = 0,
    /// A thread was left alone, because the program sets its affinity.
    PinsItself = 1,
    /// The kernel refused a placement: the CPU went offline or left the cpuset.
    Refused = 2,
}

/// Totals over all processes of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// See [`Event::Placed`].
    pub placed: u32,
    /// See [`Event::PinsItself`].
    pub pins_itself: u32,
    /// See [`Event::Refused`].
    pub refused: u32,
}

impl Tally {
    /// Reads the totals from the bytes of the file; `None` when it is too short.
    #[must_use]
    pub fn from_bytes(file: &[u8]) -> Option<Self> {
        let at = |event: Event| {
            let bytes = file.get(event as usize * 4..)?.first_chunk::<4>()?;
            Some(u32::from_ne_bytes(*bytes))
        };
        Some(Self {
            placed: at(Event::Placed)?,
            pins_itself: at(Event::PinsItself)?,
            refused: at(Event::Refused)?,
        })
    }
}

/// [`OccupancyTable::holds`] in a copy of the file, for readers.
#[must_use]
pub fn holds(file: &[u8], pid: u32) -> Option<Holds> {
    Processes::find_in(file.get(core::mem::offset_of!(OccupancyTable, processes)..)?, pid)
}

impl OccupancyTable {
    /// An occupancy table without entries.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            tally: [const { AtomicU32::new(0) }; EVENTS],
            processes: Processes::new(),
            threads: [const { AtomicU32::new(0) }; MAX_CPUS],
        }
    }

    /// Counts an event.
    pub fn count(&self, event: Event) {
        self.tally[event as usize].fetch_add(1, Relaxed);
    }

    /// Takes the least occupied of these CPUs; of several `preferred`, if it is one of them, or
    /// else the first. Returns `None` without CPUs.
    pub fn take_cpu(&self, cpus: &[u16], preferred: Option<u16>) -> Option<u16> {
        loop {
            let mut best: Option<(u16, u32)> = None;
            for &cpu in cpus {
                let Some(count) = self.threads.get(usize::from(cpu)) else { continue };
                let count = count.load(Relaxed);
                let is_tied = |least| count == least && preferred == Some(cpu);
                if best.is_none_or(|(_, least)| count < least || is_tied(least)) {
                    best = Some((cpu, count));
                }
                if count == 0 {
                    break;
                }
            }
            let (cpu, count) = best?;
            // Another thread took it in between: try again.
            let taken = self.threads[usize::from(cpu)].compare_exchange_weak(
                count,
                count.saturating_add(1),
                Relaxed,
                Relaxed,
            );
            if taken.is_ok() {
                return Some(cpu);
            }
        }
    }

    /// Gives back a CPU from [`OccupancyTable::take_cpu`].
    pub fn release_cpu(&self, cpu: u16) {
        if let Some(count) = self.threads.get(usize::from(cpu)) {
            // Never below zero: another process may have damaged the shared file.
            let _ = count.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1));
        }
    }

    /// Number of threads on a CPU.
    #[must_use]
    pub fn occupancy(&self, cpu: u16) -> u32 {
        self.threads.get(usize::from(cpu)).map_or(0, |count| count.load(Relaxed))
    }

    /// What a process holds, if it is registered.
    #[must_use]
    pub fn holds(&self, pid: u32) -> Option<Holds> {
        self.processes.find(pid)
    }

    /// Records what a process holds, replacing an older record of it. The CPU in the older record
    /// is not released. If the table is full of living processes, the process stays unknown and
    /// takes another CPU after `exec`.
    pub fn register(&self, pid: u32, holds: Holds) {
        self.processes.insert(pid, holds);
    }

    /// Clears the records of some dead processes and releases their CPUs. Call it before a process
    /// takes its own CPU: each call checks a few records, so the table does not fill with dead
    /// processes.
    pub fn clear_dead(&self, alive: impl Fn(u32) -> bool) {
        self.processes.sweep(alive, |cpu| self.release_cpu(cpu));
    }

    /// Removes a process and releases its CPU.
    pub fn forget(&self, pid: u32) {
        if let Some(Holds::Cpu(cpu)) = self.processes.remove(pid) {
            self.release_cpu(cpu);
        }
    }
}

impl Default for OccupancyTable {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn without_exits_it_is_round_robin() {
        let table = OccupancyTable::new();
        let cpus = [0, 4, 8, 12];
        let taken: Vec<u16> = (0..6).filter_map(|_| table.take_cpu(&cpus, None)).collect();
        assert_eq!(taken, [0, 4, 8, 12, 0, 4]);
        assert_eq!(table.take_cpu(&[], None), None);
    }

    #[test]
    fn short_lived_threads_do_not_skew_the_long_lived_ones() {
        let table = OccupancyTable::new();
        let cpus = [0, 1, 2, 3];
        let mut long_lived = Vec::new();
        for _ in 0..4 {
            long_lived.push(table.take_cpu(&cpus, None).unwrap());
            let short_lived = table.take_cpu(&cpus, None).unwrap();
            table.release_cpu(short_lived);
        }
        long_lived.sort_unstable();
        assert_eq!(long_lived, cpus);
    }

    #[test]
    fn a_successor_takes_the_cpu_of_its_creator_unless_another_is_less_occupied() {
        let table = OccupancyTable::new();
        let cpus = [0, 1, 2];
        assert_eq!(table.take_cpu(&cpus, Some(2)), Some(0), "no thread has any");
        assert_eq!(table.take_cpu(&cpus, Some(0)), Some(1));
        assert_eq!(table.take_cpu(&cpus, Some(1)), Some(2));
        for _ in 0..3 {
            // All three wait for a successor each, in any order.
            for creator in [1, 2, 0] {
                assert_eq!(table.take_cpu(&cpus, Some(creator)), Some(creator));
            }
            cpus.iter().for_each(|&cpu| table.release_cpu(cpu));
        }
        assert_eq!(table.take_cpu(&[0, 1], Some(2)), Some(0), "not in the list");
    }

    #[test]
    fn lists_of_different_processes_share_the_counts() {
        let table = OccupancyTable::new();
        assert_eq!(table.take_cpu(&[0, 1, 2], None), Some(0));
        assert_eq!(table.take_cpu(&[0, 2], None), Some(2), "the other process has taken CPU 0");
    }

    #[test]
    fn an_exec_keeps_the_cpu_and_an_exit_releases_it() {
        let table = OccupancyTable::new();
        let cpu = table.take_cpu(&[5, 6], None).unwrap();
        table.register(100, Holds::Cpu(cpu));
        assert_eq!(table.holds(100), Some(Holds::Cpu(5)));
        table.forget(100);
        assert_eq!((table.holds(100), table.occupancy(5)), (None, 0));
        table.forget(100);
        assert_eq!(table.occupancy(5), 0);
    }

    #[test]
    fn killed_processes_are_cleared_by_later_ones() {
        let table = OccupancyTable::new();
        let cpus = [0, 1];
        for pid in 1..2000 {
            // Every process was killed before the next one started.
            table.clear_dead(|other| other == pid);
            let cpu = table.take_cpu(&cpus, None).unwrap();
            assert_eq!(cpu, 0, "at process {pid}");
            table.register(pid, Holds::Cpu(cpu));
        }
    }

    #[test]
    fn the_tally_is_read_from_the_file() {
        let table = OccupancyTable::new();
        table.count(Event::Placed);
        table.count(Event::Placed);
        table.count(Event::Refused);
        let bytes: Vec<u8> =
            table.tally.iter().flat_map(|n| n.load(Relaxed).to_ne_bytes()).collect();
        let expected = Tally { placed: 2, pins_itself: 0, refused: 1 };
        assert_eq!(Tally::from_bytes(&bytes), Some(expected));
        assert_eq!(core::mem::offset_of!(OccupancyTable, tally), 0);
        assert_eq!(Tally::from_bytes(&bytes[..11]), None);
    }

    proptest! {
        /// In any order of starts and ends, two CPUs differ by at most one more than the number of
        /// ended threads.
        #[test]
        fn occupancy_stays_level(steps in proptest::collection::vec(any::<bool>(), 0..300), n in 1u16..20) {
            let table = OccupancyTable::new();
            let cpus: Vec<u16> = (0..n).collect();
            let mut running = std::collections::VecDeque::new();
            for start in steps {
                if start {
                    let before: Vec<u32> = cpus.iter().map(|c| table.occupancy(*c)).collect();
                    let cpu = table.take_cpu(&cpus, None).unwrap();
                    prop_assert_eq!(Some(&before[usize::from(cpu)]), before.iter().min());
                    running.push_back(cpu);
                } else if let Some(cpu) = running.pop_front() {
                    table.release_cpu(cpu);
                }
            }
            let total: u32 = cpus.iter().map(|c| table.occupancy(*c)).sum();
            prop_assert_eq!(total as usize, running.len());
        }
    }

    #[test]
    fn threads_that_take_at_once_spread_evenly() {
        let table = OccupancyTable::new();
        let cpus: Vec<u16> = (0..4).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..1000).for_each(|_| assert!(table.take_cpu(&cpus, None).is_some()))
                });
            }
        });
        assert_eq!(cpus.iter().map(|c| table.occupancy(*c)).collect::<Vec<_>>(), [1000; 4]);
    }
}

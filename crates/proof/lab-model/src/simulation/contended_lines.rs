//! Lines that several CPUs contend for: false sharing, locks, flags.
//!
//! The emulator runs each CPU for a quantum before it runs the next one. A line that would move
//! with every access therefore changes owner only once per quantum. So lines that moved there and
//! back within a few quanta are not kept in private caches while the contention lasts, and each
//! access to them is decided here: a CPU keeps the line for as long as the other's request takes to
//! arrive, and then loses it if the other has touched it about as often.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::QUANTUM_PS;

/// Number of lines that are remembered; others overwrite them.
const LINES: usize = 1 << 12;
/// Contention ends when the other CPU has not accessed the line for this time: a few quanta of the
/// usual length.
const OVER_NS: u64 = 5 * QUANTUM_PS / 1000;
/// Contended lines of one CPU at a time.
const OWN: usize = 8;

const CPU_BITS: u32 = 6;
const INTERVAL_BITS: u32 = 18;
const TIME_BITS: u32 = 64 - CPU_BITS - INTERVAL_BITS;

/// A CPU's last access to a line, and its distance from the one before.
#[derive(Clone, Copy, Debug)]
struct Visit {
    cpu: u64,
    time_ns: u64,
    interval_ns: u64,
}

impl Visit {
    fn pack(self) -> u64 {
        let interval = self.interval_ns.min((1 << INTERVAL_BITS) - 1);
        let time = self.time_ns & ((1 << TIME_BITS) - 1);
        time << (CPU_BITS + INTERVAL_BITS) | interval << CPU_BITS | self.cpu
    }

    fn unpack(word: u64) -> Self {
        Self {
            cpu: word & ((1 << CPU_BITS) - 1),
            interval_ns: word >> CPU_BITS & ((1 << INTERVAL_BITS) - 1),
            time_ns: word >> (CPU_BITS + INTERVAL_BITS),
        }
    }
}

#[derive(Debug, Default)]
struct Line {
    line: AtomicU64,
    latest: AtomicU64,
    /// The latest access by a CPU other than that of the latest access.
    other: AtomicU64,
}

/// The latest accesses to lines.
#[derive(Debug)]
pub(crate) struct ContendedLines {
    lines: Box<[Line]>,
}

impl ContendedLines {
    pub(crate) fn new() -> Self {
        Self { lines: (0..LINES).map(|_| Line::default()).collect() }
    }

    /// Records an access. Returns the CPU with which this one contends, and the interval of that
    /// CPU's accesses, if there is contention.
    pub(crate) fn note_access(&self, line: u64, cpu: usize, now_ps: u64) -> Option<(usize, u64)> {
        let entry = &self.lines[(line ^ line >> 12) as usize % LINES];
        let (cpu, time_ns) = (cpu as u64, now_ps / 1000);
        if entry.line.load(Relaxed) != line {
            entry.line.store(line, Relaxed);
            entry.latest.store(Visit { cpu, time_ns, interval_ns: OVER_NS }.pack(), Relaxed);
            entry.other.store(0, Relaxed);
            return None;
        }
        let latest = Visit::unpack(entry.latest.load(Relaxed));
        let other = entry.other.load(Relaxed);
        let mine = |visit: Visit| {
            let interval_ns = time_ns.abs_diff(visit.time_ns);
            Visit { cpu, time_ns, interval_ns }.pack()
        };
        let rival = if latest.cpu == cpu {
            entry.latest.store(mine(latest), Relaxed);
            (other != 0).then(|| Visit::unpack(other))?
        } else {
            let before = Visit::unpack(other);
            let first = Visit { cpu, time_ns, interval_ns: OVER_NS };
            let visit = if other != 0 && before.cpu == cpu { mine(before) } else { first.pack() };
            entry.other.store(latest.pack(), Relaxed);
            entry.latest.store(visit, Relaxed);
            if other == 0 || before.cpu != cpu {
                return None;
            }
            latest
        };
        (rival.time_ns.abs_diff(time_ns) < OVER_NS)
            .then_some((rival.cpu as usize, rival.interval_ns * 1000))
    }
}

/// The lines for which a CPU contends.
#[derive(Debug)]
pub(crate) struct Contention {
    lines: [(u64, u64); OWN],
    next: usize,
    /// Whether there are any. There are mostly none, and every miss checks.
    any: bool,
}

impl Contention {
    pub(crate) fn new() -> Self {
        Self { lines: [(u64::MAX, 0); OWN], next: 0, any: false }
    }

    /// When the CPU last acquired a line that it contends for.
    #[inline]
    pub(crate) fn since_ps(&self, line: u64) -> Option<u64> {
        if !self.any {
            return None;
        }
        self.lines.iter().find(|(of, _)| *of == line).map(|(_, ps)| *ps)
    }

    /// The CPU has acquired a line.
    pub(crate) fn hold(&mut self, line: u64, now_ps: u64) {
        if let Some(fight) = self.lines.iter_mut().find(|(of, _)| *of == line) {
            fight.1 = now_ps;
            return;
        }
        self.any = true;
        self.lines[self.next] = (line, now_ps);
        self.next = (self.next + 1) % OWN;
    }

    /// The contention for a line has ended.
    pub(crate) fn end(&mut self, line: u64) {
        self.lines.iter_mut().filter(|(of, _)| *of == line).for_each(|f| f.0 = u64::MAX);
        self.any = self.lines.iter().any(|(of, _)| *of != u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: u64 = 1000;

    #[test]
    fn a_line_handed_over_once_is_no_contention() {
        let contended_lines = ContendedLines::new();
        assert_eq!(contended_lines.note_access(7, 0, 0), None);
        assert_eq!(contended_lines.note_access(7, 1, 100 * NS), None);
        assert_eq!(contended_lines.note_access(7, 1, 200 * NS).map(|(cpu, _)| cpu), Some(0));
        assert_eq!(contended_lines.note_access(7, 1, 900 * QUANTUM_PS), None);
    }

    #[test]
    fn a_line_that_comes_back_is_one_until_the_other_stays_away() {
        let contended_lines = ContendedLines::new();
        contended_lines.note_access(7, 0, 0);
        contended_lines.note_access(7, 1, 100 * NS);
        assert_eq!(contended_lines.note_access(7, 0, 130 * NS).map(|(cpu, _)| cpu), Some(1));
        assert_eq!(contended_lines.note_access(7, 1, 150 * NS), Some((0, 130 * NS)));
        assert_eq!(contended_lines.note_access(7, 1, 6 * QUANTUM_PS), None);
        assert_eq!(contended_lines.note_access(8, 1, 6 * QUANTUM_PS), None);
    }

    #[test]
    fn a_cpu_remembers_its_contended_lines() {
        let mut contention = Contention::new();
        contention.hold(3, 10);
        contention.hold(3, 20);
        assert_eq!(contention.since_ps(3), Some(20));
        contention.end(3);
        assert_eq!(contention.since_ps(3), None);
    }
}

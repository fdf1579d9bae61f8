//! Counting with `perf_event_open`, one counter at a time.
//!
//! Source: perf_event_open(2). Each counter is read with the time for which it was enabled and the
//! time for which it ran, because the kernel shares a few hardware counters among all events
//! (multiplexing).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use perf_event_open_sys::bindings as abi;

/// An event to count: the three numbers that identify it to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// PMU number: one of the kernel's fixed ones, or the `type` file of a PMU in sysfs.
    pub pmu: u32,
    /// Event selector.
    pub config: u64,
    /// Second selector, for events that have one (Intel's offcore response masks).
    pub config1: u64,
}

impl Event {
    /// Core cycles.
    pub const CYCLES: Self = Self::hardware(abi::PERF_COUNT_HW_CPU_CYCLES);
    /// Retired instructions.
    pub const INSTRUCTIONS: Self = Self::hardware(abi::PERF_COUNT_HW_INSTRUCTIONS);
    /// References to the last cache, as the processor defines them.
    pub const CACHE_REFERENCES: Self = Self::hardware(abi::PERF_COUNT_HW_CACHE_REFERENCES);
    /// Misses of the last cache, as the processor defines them.
    pub const CACHE_MISSES: Self = Self::hardware(abi::PERF_COUNT_HW_CACHE_MISSES);
    /// Loads that missed the data TLB.
    pub const DTLB_LOAD_MISSES: Self = Self {
        pmu: abi::PERF_TYPE_HW_CACHE,
        config: abi::PERF_COUNT_HW_CACHE_DTLB as u64
            | (abi::PERF_COUNT_HW_CACHE_OP_READ as u64) << 8
            | (abi::PERF_COUNT_HW_CACHE_RESULT_MISS as u64) << 16,
        config1: 0,
    };
    /// Context switches; counted by the kernel, without a PMU.
    pub const CONTEXT_SWITCHES: Self = Self::software(abi::PERF_COUNT_SW_CONTEXT_SWITCHES);
    /// Migrations of a thread to another CPU; counted by the kernel, without a PMU.
    pub const CPU_MIGRATIONS: Self = Self::software(abi::PERF_COUNT_SW_CPU_MIGRATIONS);
    /// CPU time in nanoseconds; counted by the kernel with a timer, without a PMU.
    pub const CPU_CLOCK: Self = Self::software(abi::PERF_COUNT_SW_CPU_CLOCK);
    /// Page faults; counted by the kernel, without a PMU.
    pub const PAGE_FAULTS: Self = Self::software(abi::PERF_COUNT_SW_PAGE_FAULTS);

    const fn hardware(config: abi::perf_hw_id) -> Self {
        Self { pmu: abi::PERF_TYPE_HARDWARE, config: config as u64, config1: 0 }
    }

    const fn software(config: abi::perf_sw_ids) -> Self {
        Self { pmu: abi::PERF_TYPE_SOFTWARE, config: config as u64, config1: 0 }
    }

    /// An event of the core PMU, by the processor's own numbers.
    #[must_use]
    pub const fn raw(config: u64, config1: u64) -> Self {
        Self { pmu: abi::PERF_TYPE_RAW, config, config1 }
    }

    /// The attributes with which it is opened.
    pub(crate) fn attributes(self, user_only: bool) -> abi::perf_event_attr {
        let mut attr = abi::perf_event_attr::default();
        attr.type_ = self.pmu;
        attr.size = size_of::<abi::perf_event_attr>() as u32;
        attr.config = self.config;
        attr.config1 = self.config1;
        attr.set_exclude_kernel(u64::from(user_only));
        attr.set_exclude_hv(u64::from(user_only));
        attr
    }

    /// Whether the kernel counts it without hardware.
    #[must_use]
    pub const fn is_software(self) -> bool {
        self.pmu == abi::PERF_TYPE_SOFTWARE
    }
}

/// The threads or CPUs whose events are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The program that the calling thread forks next, from its exec on, with all threads and
    /// processes that it starts. Nothing of the caller itself is counted. Programs that the caller
    /// forks later may or may not be counted: if the first child runs right after its parent on the
    /// same CPU, the kernel gives it the event itself instead of a copy, and then no longer waits
    /// for an exec (`perf_event_context_sched_out`).
    NextExec,
    /// A running thread, and all threads and processes that it starts from now on.
    Thread(i32),
    /// Everything on one CPU.
    Cpu(u32),
}

impl Scope {
    /// Sets the attributes of an event for this scope. Returns the thread id for opening it.
    pub(crate) fn apply(self, attr: &mut abi::perf_event_attr) -> i32 {
        match self {
            Self::NextExec => {
                attr.set_disabled(1);
                attr.set_enable_on_exec(1);
                attr.set_inherit(1);
                0
            }
            Self::Thread(tid) => {
                attr.set_inherit(1);
                tid
            }
            Self::Cpu(_) => -1,
        }
    }
}

/// Opens an event of a thread (0: the caller, -1: any) on one CPU or on all.
pub(crate) fn open(
    mut attr: abi::perf_event_attr,
    tid: i32,
    cpu: Option<u32>,
    group: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    let cpu = match cpu {
        None => -1,
        Some(cpu) => i32::try_from(cpu).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?,
    };
    // SAFETY: attr is a fully initialised attribute structure of the stated size that outlives the
    // call. The group descriptor is open while it is borrowed.
    let fd = unsafe {
        perf_event_open_sys::perf_event_open(
            &raw mut attr,
            tid,
            cpu,
            group.map_or(-1, |group| group.as_raw_fd()),
            abi::PERF_FLAG_FD_CLOEXEC.into(),
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor, which nothing else uses.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A counter. It stops when it is dropped.
#[derive(Debug)]
pub struct Counter {
    file: File,
}

/// A reading of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Number of events while the counter ran.
    pub value: u64,
    /// Time for which it was enabled.
    pub enabled_ns: u64,
    /// Time for which it had a hardware counter.
    pub running_ns: u64,
}

impl Counter {
    /// Opens a counter. With `group`, it is on the hardware at the same times as that counter, so
    /// ratios of the two stay valid under multiplexing.
    ///
    /// `user_only` excludes the kernel's work for the program. An unprivileged user can count
    /// nothing else if `perf_event_paranoid` is 2.
    ///
    /// # Errors
    /// `EACCES`/`EPERM` by `perf_event_paranoid`, ownership or seccomp; `ENOENT`, `EOPNOTSUPP` or
    /// `ENODEV` if this processor or virtual machine has no such event; `ESRCH` if the thread has
    /// ended; `EMFILE` at the limit of open files.
    pub fn open(
        event: Event,
        scope: Scope,
        group: Option<&Self>,
        user_only: bool,
    ) -> io::Result<Self> {
        let mut attr = event.attributes(user_only);
        attr.read_format =
            (abi::PERF_FORMAT_TOTAL_TIME_ENABLED | abi::PERF_FORMAT_TOTAL_TIME_RUNNING) as u64;
        let pid = scope.apply(&mut attr);
        let cpu = match scope {
            Scope::NextExec | Scope::Thread(_) => None,
            Scope::Cpu(cpu) => Some(cpu),
        };
        let descriptor = open(attr, pid, cpu, group.map(|group| group.file.as_fd()))?;
        Ok(Self { file: descriptor.into() })
    }

    /// Reads the counter, summed over all threads and processes that inherited it.
    ///
    /// # Errors
    /// Those of read(2); `UnexpectedEof` for a short read (of a group that lost its hardware).
    pub fn read(&self) -> io::Result<Reading> {
        let mut bytes = [0u8; 24];
        (&self.file).read_exact(&mut bytes)?;
        let word = |i: usize| {
            let mut word = [0u8; 8];
            word.copy_from_slice(&bytes[i * 8..i * 8 + 8]);
            u64::from_ne_bytes(word)
        };
        Ok(Reading { value: word(0), enabled_ns: word(1), running_ns: word(2) })
    }
}

impl Reading {
    /// The count extrapolated to the whole time for which it was enabled, or `None` if the counter
    /// never got hardware.
    #[must_use]
    pub fn scaled(self) -> Option<f64> {
        match (self.enabled_ns, self.running_ns) {
            // The target has not run yet.
            (0, _) => Some(self.value as f64),
            (_, 0) => None,
            (enabled, running) if enabled <= running => Some(self.value as f64),
            (enabled, running) => Some(self.value as f64 * (enabled as f64 / running as f64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Opens the counter. Reports a skipped test for an unprivileged user or under a seccomp
    /// filter.
    fn software(event: Event, scope: Scope) -> Option<Counter> {
        match Counter::open(event, scope, None, false) {
            Ok(counter) => Some(counter),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => {
                eprintln!("skipped: perf_event_open is not permitted here ({e})");
                None
            }
            Err(e) => panic!("{e}"),
        }
    }

    #[test]
    fn the_next_exec_is_counted_and_the_caller_is_not() {
        let Some(counter) = software(Event::PAGE_FAULTS, Scope::NextExec) else { return };
        // Faults of this thread, none of which may be counted.
        let mut pages = crate::mapping::Mapping::anonymous(4096 * 4096).unwrap();
        for byte in pages.as_mut_slice().iter_mut().step_by(4096) {
            *byte = 1;
        }
        assert_eq!(counter.read().unwrap().value, 0);
        assert!(Command::new("true").status().unwrap().success());
        let once = counter.read().unwrap().value;
        assert!(once > 10 && once < 3000, "{once} faults of true(1)");
    }

    #[test]
    fn what_the_next_exec_starts_is_counted_too() {
        let faults_of = |script: &str| {
            let counter = software(Event::PAGE_FAULTS, Scope::NextExec)?;
            assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
            Some(counter.read().unwrap().value)
        };
        let Some(alone) = faults_of(":") else { return };
        let with_children = faults_of("(sleep 0) & (sleep 0); wait").unwrap();
        assert!(alone > 10 && with_children > 2 * alone, "{alone} and {with_children} faults");
    }

    #[test]
    fn a_running_thread_is_counted() {
        let Some(counter) = software(Event::CONTEXT_SWITCHES, Scope::Thread(0)) else { return };
        let before = counter.read().unwrap().value;
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(counter.read().unwrap().value > before);
    }

    #[test]
    fn a_thread_that_is_gone_is_reported() {
        let error =
            Counter::open(Event::CPU_MIGRATIONS, Scope::Thread(i32::MAX), None, false).unwrap_err();
        assert!(
            matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EACCES | libc::EPERM)),
            "{error}"
        );
    }

    #[test]
    fn multiplexed_counts_are_extrapolated() {
        let reading = |value, enabled_ns, running_ns| Reading { value, enabled_ns, running_ns };
        assert_eq!(reading(10, 100, 100).scaled(), Some(10.0));
        assert_eq!(reading(10, 100, 25).scaled(), Some(40.0));
        assert_eq!(reading(0, 100, 0).scaled(), None);
        assert_eq!(reading(0, 0, 0).scaled(), Some(0.0));
    }
}

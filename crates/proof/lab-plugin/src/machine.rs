//! The emulated machine at run time: the actions of QEMU's callbacks, the simulated time that they
//! cause, and the scheduling of CPUs and timers by it.
//!
//! All callbacks and timers run on the CPU thread. Other threads of QEMU, such as its main loop,
//! only ask for the time.

use std::cell::UnsafeCell;
use std::collections::BTreeSet;
use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use numapilot_lab_init::COMPLAINT;
use numapilot_lab_model::{Core, Model, Probe, Regions, Simulation, Way};
use numapilot_lab_pmu::{Mark, Mode, PmuError, Snapshot};
use numapilot_sys::shared::SharedWords;

use crate::arguments::{Pace, StartError};
use crate::cpu_scoreboard::CpuScoreboard;
use crate::internals::{ClockHooks, Internals, current_cpu};
use crate::ports::Ports;
use crate::qemu;
use crate::report::ReportFile;
use crate::schedule::{Schedule, Turn};

/// Duration of `pause`, the hint in each iteration of a spin loop. Intel's Skylake takes 140
/// cycles, its predecessors 10 and AMD's Zen 40 to 65 (Intel, Optimization Reference Manual,
/// 2.4.4).
const PAUSE_PS: u64 = 20_000;
/// Duration of `pause` while the machine boots. Nothing is measured then, and the kernel waits in
/// spin loops: the longer a pause, the fewer iterations are emulated.
const BOOT_PAUSE_PS: u64 = 2_000_000;
/// Duration of reading the time stamp counter while the machine boots, for the same reason.
const BOOT_READ_PS: u64 = 1_000_000;
/// How far the clock lags for QEMU's main loop. The main loop would otherwise run the guest's
/// timers itself, at a moment that depends on the host; the CPU thread must run them.
const MAIN_LOOP_BEHIND_PS: u64 = 10_000_000_000;

/// The longest sleep of an idle, paced machine on the host's clock, so that it notices input soon.
const GLANCE: Duration = Duration::from_millis(2);
/// Length of a quantum while the machine boots. It is long, because nothing is measured then.
const BOOT_QUANTUM_PS: u64 = 50_000_000;

/// The result of an attempt to advance the time of an idle machine to its next timer.
enum Jump {
    /// The machine is not idle any more: a CPU has work, or there is no timer.
    Ends,
    /// A timer ran; it may not have woken a CPU.
    Continues,
    /// The machine is paced, and the next timer expires after this time on the host's clock.
    Waits(Duration),
}

/// The PMU's memory.
#[derive(Debug)]
pub enum Memory {
    /// Shared with the guest.
    Shared(SharedWords),
    /// Private, if the guest has no PMU.
    Own(Vec<AtomicU64>),
}

impl AsRef<[AtomicU64]> for Memory {
    fn as_ref(&self) -> &[AtomicU64] {
        match self {
            Self::Shared(words) => words.as_ref(),
            Self::Own(words) => words,
        }
    }
}

/// A virtual CPU.
#[repr(align(64))]
struct Cpu {
    core: UnsafeCell<Core>,
    scoreboard: OnceLock<&'static CpuScoreboard>,
    /// The address of QEMU's `CPUState`; 0 until QEMU has set up the CPU.
    state: AtomicU64,
}

// SAFETY: `core` is only accessed on the CPU thread, as the contracts of `Machine::cpu` and
// `Machine::passes` require; `Machine::now_ps` checks it. The other fields are atomic.
unsafe impl Sync for Cpu {}

/// A value that only the CPU thread accesses.
struct Own<T>(UnsafeCell<T>);

// SAFETY: only the CPU thread accesses the value, as the contract of `Machine::schedule` requires.
unsafe impl<T> Sync for Own<T> {}

/// The machine; see the module documentation.
pub struct Machine {
    simulation: Simulation<Memory>,
    cpus: Vec<Cpu>,
    schedule: Own<Schedule>,
    /// A copy of the schedule's time, for other threads and for timers.
    time_ps: AtomicU64,
    /// Whether the CPU thread is running timers. They see the schedule's time, not the clock of the
    /// current CPU.
    runs_timers: AtomicBool,
    internals: Internals,
    tsc_khz: u64,
    pace: Pace,
    /// When the machine was started, on the host's clock.
    started: Instant,
    regions: Mutex<Regions>,
    report: ReportFile,
    /// Whether the program has begun.
    has_begun: AtomicBool,
    /// Whether the last report has been written.
    has_ended: AtomicBool,
    /// Whether accesses are modelled and counted.
    counts: bool,
    ports: Ports,
}

static MACHINE: OnceLock<Machine> = OnceLock::new();

/// The machine, once it is installed.
#[inline]
pub fn machine() -> Option<&'static Machine> {
    MACHINE.get()
}

/// Converts picoseconds to QEMU's signed nanoseconds.
pub fn nanoseconds(ps: u64) -> i64 {
    i64::try_from(ps / 1000).unwrap_or(i64::MAX)
}

/// The current access, as a probe for the model.
struct Access<'a> {
    info: qemu::MemInfo,
    address: u64,
    /// Looked up on demand, because most accesses do not need it.
    scoreboard: &'a OnceLock<&'static CpuScoreboard>,
}

impl Probe for Access<'_> {
    fn physical_address(&self) -> Option<u64> {
        // SAFETY: called within the callback that `info` belongs to; the handle is checked for null
        // and used before the callback returns.
        unsafe {
            let handle = qemu::qemu_plugin_get_hwaddr(self.info, self.address);
            (!handle.is_null() && !qemu::qemu_plugin_hwaddr_is_io(handle))
                .then(|| qemu::qemu_plugin_hwaddr_phys_addr(handle))
        }
    }

    fn value(&self) -> u64 {
        // SAFETY: called within the callback that `info` belongs to.
        unsafe { qemu::qemu_plugin_mem_get_value(self.info) }.low
    }

    fn instructions(&self) -> u64 {
        self.scoreboard.get().map_or(0, |scoreboard| scoreboard.instructions())
    }
}

impl Machine {
    /// Sets up the machine. `shared` is the PMU's memory, if accesses are modelled.
    ///
    /// # Errors
    /// [`StartError::Symbol`] if QEMU lacks a function, and [`StartError::File`] if the PMU's
    /// memory is too small.
    pub fn install(
        model: Model,
        report: ReportFile,
        shared: Option<SharedWords>,
        ports: Ports,
        pace: Pace,
    ) -> Result<(), StartError> {
        let internals = Internals::find()?;
        let counts = shared.is_some();
        let words = model.pmu_shape().map_or(0, |s| s.words());
        let own = || Memory::Own((0..words).map(|_| AtomicU64::new(0)).collect());
        let regions = Mutex::new(Regions::new(&model.title));
        let tsc_khz = model.tsc_khz();
        let simulation =
            Simulation::new(model, shared.map_or_else(own, Memory::Shared)).map_err(|error| {
                StartError::File {
                    name: "pmu",
                    path: "memory".into(),
                    cause: PmuError::to_string(&error),
                }
            })?;
        let cpus = (0..)
            .map_while(|cpu| simulation.core(cpu))
            .map(|core| Cpu {
                core: UnsafeCell::new(core),
                scoreboard: OnceLock::new(),
                state: AtomicU64::new(0),
            })
            .collect::<Vec<_>>();
        let schedule = Own(UnsafeCell::new(Schedule::new(cpus.len(), BOOT_QUANTUM_PS)));
        // QEMU installs a plugin once per copy of the library, so no machine is set yet.
        let _ = MACHINE.set(Self {
            simulation,
            cpus,
            schedule,
            time_ps: AtomicU64::new(0),
            runs_timers: AtomicBool::new(false),
            internals,
            tsc_khz,
            pace,
            started: Instant::now(),
            regions,
            report,
            has_begun: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            counts,
            ports,
        });
        Ok(())
    }

    /// The state of a CPU.
    ///
    /// # Safety
    /// The caller is on the CPU thread, and no other borrow of the core is alive. QEMU calls all
    /// callbacks of CPUs on that thread, one after the other.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    unsafe fn cpu(&self, cpu: c_uint) -> Option<(&mut Core, &OnceLock<&'static CpuScoreboard>)> {
        let cpu = self.cpus.get(cpu as usize)?;
        // SAFETY: by contract, no other borrow of this core is alive.
        Some((unsafe { &mut *cpu.core.get() }, &cpu.scoreboard))
    }

    /// As `cpu`, after updating the core's counts of instructions and accesses.
    ///
    /// # Safety
    /// As `cpu`.
    #[allow(clippy::mut_from_ref)]
    unsafe fn cpu_now(&self, cpu: c_uint) -> Option<(&mut Core, Option<&'static CpuScoreboard>)> {
        // SAFETY: by contract.
        let (core, scoreboard) = unsafe { self.cpu(cpu) }?;
        let scoreboard = scoreboard.get().copied();
        if let Some(scoreboard) = scoreboard {
            core.executed(scoreboard.executed());
        }
        Some((core, scoreboard))
    }

    /// Adds a CPU, whose translated code counts in this scoreboard element. The first CPU also
    /// installs the clock: these functions.
    ///
    /// # Errors
    /// [`StartError::Accelerator`] if this QEMU is not as expected.
    ///
    /// # Safety
    /// QEMU is setting up this CPU, on the CPU thread.
    pub unsafe fn add_cpu(
        &self,
        cpu: c_uint,
        scoreboard: &'static CpuScoreboard,
        clock: ClockHooks,
    ) -> Result<(), StartError> {
        let index = cpu as usize;
        let Some(cpu) = self.cpus.get(index) else { return Ok(()) };
        // QEMU sets up each CPU once, and does not move its scoreboard element.
        let _ = cpu.scoreboard.set(scoreboard);
        scoreboard.grant(0);
        let state = self.internals.cpu(index);
        if state.is_null() || state != current_cpu() {
            return Err(StartError::Accelerator);
        }
        cpu.state.store(state.addr() as u64, Relaxed);
        // SAFETY: by contract.
        unsafe {
            self.internals.share_translations(state);
            if index == 0 { self.internals.hook(clock) } else { Ok(()) }
        }
    }

    /// The schedule.
    ///
    /// # Safety
    /// The caller is on the CPU thread, and no other borrow of the schedule is alive.
    #[allow(clippy::mut_from_ref)]
    unsafe fn schedule(&self) -> &mut Schedule {
        // SAFETY: by contract.
        unsafe { &mut *self.schedule.0.get() }
    }

    /// The simulated time in picoseconds. On the CPU thread, it is the clock of the current CPU, or
    /// the time that all CPUs have reached if that CPU is halted or timers are running. On other
    /// threads, it is the latter, less [`MAIN_LOOP_BEHIND_PS`].
    pub fn now_ps(&self) -> u64 {
        let reached = self.time_ps.load(Relaxed);
        let state = current_cpu();
        if state.is_null() {
            return reached.saturating_sub(MAIN_LOOP_BEHIND_PS);
        }
        if self.runs_timers.load(Relaxed) {
            return reached;
        }
        let Some(cpu) = self.executing().and_then(|cpu| self.cpus.get(cpu)) else {
            return reached;
        };
        // SAFETY: only the CPU thread has a current CPU. A callback that borrows the core asks for
        // the time only in the timers that it runs, for which the function has returned above.
        let core = unsafe { &*cpu.core.get() };
        // SAFETY: as above, for the schedule.
        let is_halted = unsafe { (*self.schedule.0.get()).is_halted(core.cpu()) };
        match cpu.scoreboard.get() {
            Some(scoreboard) if !is_halted => core.clock_ps(scoreboard.instructions()).max(reached),
            _ => reached,
        }
    }

    /// The number of the CPU that the calling thread is executing.
    fn executing(&self) -> Option<usize> {
        let state = current_cpu().addr() as u64;
        self.cpus.iter().position(|cpu| state != 0 && cpu.state.load(Relaxed) == state)
    }

    /// The current CPU reads its time stamp counter. While the machine boots, this takes time, so
    /// that the kernel's delay loops, which poll the counter, end after few iterations.
    pub fn read_counter(&self) {
        if self.has_begun.load(Relaxed) || self.runs_timers.load(Relaxed) {
            return;
        }
        let Some(cpu) = self.executing() else { return };
        // SAFETY: a CPU reads its counter on the CPU thread, outside of callbacks.
        if let Some((core, scoreboard)) = unsafe { self.cpu(cpu as c_uint) } {
            let before = core.stall_ps();
            core.stall(BOOT_READ_PS);
            charge(core, before, scoreboard);
        }
    }

    /// The time on the guest's clocks in picoseconds: the simulated time, multiplied by the scale.
    pub fn guest_ps(&self) -> u64 {
        self.now_ps().saturating_mul(self.pace.scale)
    }

    /// Seconds on the guest's clocks per simulated second.
    pub fn scale(&self) -> u64 {
        self.pace.scale
    }

    /// Moves the time that other threads and timers see forward to this simulated time.
    pub fn set_time(&self, ps: u64) {
        self.time_ps.fetch_max(ps, Relaxed);
    }

    /// The frequency of the time stamp counter.
    pub fn tsc_khz(&self) -> u64 {
        self.tsc_khz
    }

    /// Advances the time that all CPUs have reached to `ps`, and runs the timers that have expired.
    fn reach(&self, ps: u64) {
        self.time_ps.store(ps, Relaxed);
        self.runs_timers.store(true, Relaxed);
        self.internals.locked(|| {
            // SAFETY: the lock is held.
            unsafe {
                if self.internals.deadline_ns() == Some(0) {
                    self.internals.run_timers();
                }
            }
        });
        self.runs_timers.store(false, Relaxed);
        self.simulation.pmu().advance_time(ps / 1000);
    }

    /// A pointer to the CPUs' states, for [`passes`](Self::passes).
    pub fn cpus(&self) -> *mut c_void {
        self.cpus.as_ptr().cast_mut().cast()
    }

    /// Whether an access changes nothing in the model, as is true of most. This is the fast path
    /// of every access, so it gets a pointer to the CPUs instead of looking up the machine.
    ///
    /// # Safety
    /// `cpus` is from [`cpus`](Self::cpus) of the installed machine, `cpu` is the number of one of
    /// its CPUs, and the caller is on the CPU thread.
    #[inline]
    pub unsafe fn passes(cpus: *const c_void, cpu: c_uint, address: u64, way: Way) -> bool {
        // SAFETY: by contract, the pointer is valid, as the machine is never dropped. No other
        // borrow of the core is alive at the start of a callback.
        let core = unsafe { &*(*cpus.cast::<Cpu>().add(cpu as usize)).core.get() };
        core.passes(address, way)
    }

    /// Simulates an access that does not pass.
    pub fn access(&self, cpu: c_uint, info: qemu::MemInfo, address: u64, mode: Mode, way: Way) {
        // SAFETY: called from the CPU's memory callback; nothing below calls back.
        let Some((core, scoreboard)) = (unsafe { self.cpu(cpu) }) else { return };
        let access = Access { info, address, scoreboard };
        let before = core.stall_ps();
        core.set_mode(mode);
        self.simulation.access(core, address, way, &access);
        charge(core, before, scoreboard);
    }

    /// Simulates an access of an instruction whose number of accesses is not known at translation.
    pub fn access_element(
        &self,
        cpu: c_uint,
        info: qemu::MemInfo,
        address: u64,
        mode: Mode,
        way: Way,
    ) {
        // SAFETY: as in `access`.
        let Some((core, scoreboard)) = (unsafe { self.cpu(cpu) }) else { return };
        let access = Access { info, address, scoreboard };
        let before = core.stall_ps();
        core.set_mode(mode);
        self.simulation.access_element(core, address, way, &access);
        charge(core, before, scoreboard);
    }

    /// A CPU has used up its budget, or runs for the first time since it halted. The schedule
    /// grants it a new budget or lets the next CPU run.
    pub fn budget(&self, cpu: c_uint) {
        // SAFETY: called from the CPU's execution callback.
        let Some((core, Some(scoreboard))) = (unsafe { self.cpu_now(cpu) }) else { return };
        // SAFETY: this is the CPU thread; the timers that `reach` runs do not borrow the schedule.
        let schedule = unsafe { self.schedule() };
        core.skip_to(schedule.now_ps());
        let has_others = !schedule.is_alone(core.cpu()) || self.is_another_due(core.cpu());
        let turn = schedule.account(core.cpu(), core.now_ps(), has_others, |ps| self.reach(ps));
        core.skip_to(schedule.now_ps());
        self.simulation.publish(core);
        match turn {
            Turn::Until(ps) => {
                let left = core.instructions_in(ps.saturating_sub(core.now_ps())) + 1;
                scoreboard.grant(left);
            }
            Turn::Leave => {
                scoreboard.grant(0);
                // SAFETY: the current CPU exists.
                unsafe { self.internals.exit(current_cpu()) };
            }
        }
    }

    /// Whether another CPU has work, when the schedule has them all as halted.
    fn is_another_due(&self, cpu: usize) -> bool {
        self.internals.locked(|| {
            let mut others = (0..self.cpus.len()).filter(|other| *other != cpu);
            // SAFETY: the CPUs exist, and the lock is held.
            others.any(|other| unsafe { !self.internals.is_idle(self.internals.cpu(other)) })
        })
    }

    /// A CPU executes `hlt`. If all CPUs are halted now, time advances to the next timer.
    pub fn halt(&self, cpu: c_uint) {
        // SAFETY: called from the CPU's execution callback.
        let Some((core, Some(scoreboard))) = (unsafe { self.cpu_now(cpu) }) else { return };
        self.simulation.publish(core);
        scoreboard.grant(0);
        // SAFETY: as in `budget`.
        let schedule = unsafe { self.schedule() };
        if schedule.halt(core.cpu(), core.now_ps()) {
            self.jump(schedule);
        }
    }

    /// Advances time from timer to timer until a CPU has work. Some timers wake no CPU, for example
    /// those of QEMU itself.
    fn jump(&self, schedule: &mut Schedule) {
        loop {
            // Between timers, the lock is released for QEMU's main loop.
            match self.internals.locked(|| self.jump_once(schedule)) {
                Jump::Ends => return,
                Jump::Continues => {}
                Jump::Waits(time) => thread::sleep(time.min(GLANCE)),
            }
        }
    }

    /// Advances time to the next timer and runs it, unless a CPU has work. QEMU's lock must be
    /// held.
    fn jump_once(&self, schedule: &mut Schedule) -> Jump {
        let current = current_cpu();
        let is_idle = |cpu: usize| {
            let state = self.internals.cpu(cpu);
            // SAFETY: the CPUs exist, and the lock is held. The current CPU is not halted yet, but
            // is about to.
            unsafe {
                if state == current {
                    !self.internals.has_work(state)
                } else {
                    self.internals.is_idle(state)
                }
            }
        };
        if !(0..self.cpus.len()).all(is_idle) {
            return Jump::Ends;
        }
        self.runs_timers.store(true, Relaxed);
        self.time_ps.store(schedule.now_ps(), Relaxed);
        // SAFETY: the lock is held.
        let deadline = unsafe { self.internals.deadline_ns() };
        let jump = match deadline {
            None => Jump::Ends,
            Some(ns) => {
                let by_ps = ns.saturating_mul(1000).saturating_add(1000).div_ceil(self.pace.scale);
                match self.ahead_of_host(schedule.now_ps() + by_ps) {
                    Some(time) => Jump::Waits(time),
                    None => {
                        schedule.jump(by_ps);
                        self.time_ps.store(schedule.now_ps(), Relaxed);
                        // SAFETY: as above.
                        unsafe { self.internals.run_timers() };
                        self.simulation.pmu().advance_time(schedule.now_ps() / 1000);
                        Jump::Continues
                    }
                }
            }
        };
        self.runs_timers.store(false, Relaxed);
        jump
    }

    /// How long the host's clock takes to reach this simulated time; `None` if it has, or if the
    /// machine is not paced.
    fn ahead_of_host(&self, ps: u64) -> Option<Duration> {
        let guest = Duration::from_nanos(ps.saturating_mul(self.pace.scale) / 1000);
        let ahead = guest.checked_sub(self.started.elapsed())?;
        (self.pace.paced && !ahead.is_zero()).then_some(ahead)
    }

    /// A CPU executes `pause` in a spin loop.
    pub fn pause(&self, cpu: c_uint, mode: Mode) {
        // SAFETY: called from the CPU's execution callback.
        let Some((core, scoreboard)) = (unsafe { self.cpu(cpu) }) else { return };
        let before = core.stall_ps();
        core.set_mode(mode);
        let has_begun = self.has_begun.load(Relaxed);
        core.stall(if has_begun { PAUSE_PS } else { BOOT_PAUSE_PS });
        charge(core, before, scoreboard);
    }

    /// The program is about to begin: accesses are modelled from now on. The blocks that were
    /// translated during boot lack the callbacks for that, so they are discarded.
    pub fn begin(&self) {
        self.has_begun.store(true, Relaxed);
        if let Err(error) = self.check() {
            eprintln!("{COMPLAINT}{error}");
            // Nothing was counted yet, so there is no report to write.
            std::process::exit(1);
        }
        // SAFETY: called from a callback of the current CPU.
        unsafe { self.internals.flush_translations(current_cpu()) }
        // SAFETY: this is the CPU thread, in a callback that has no other borrow.
        unsafe { self.schedule() }.set_quantum(self.pace.quantum_ps);
    }

    /// Checks, on the CPU thread, that QEMU's virtual clock shows the simulated time, that the time
    /// has advanced since the start, and that every CPU was set up.
    fn check(&self) -> Result<(), StartError> {
        let (shown, expected) = (self.internals.now_ns(), nanoseconds(self.guest_ps()));
        if shown != expected || expected == 0 {
            return Err(StartError::Clock { shown, expected });
        }
        let states: BTreeSet<u64> = self.cpus.iter().map(|cpu| cpu.state.load(Relaxed)).collect();
        if states.len() != self.cpus.len() || states.contains(&0) {
            return Err(StartError::Accelerator);
        }
        Ok(())
    }

    /// The guest flushes a CPU's TLB.
    pub fn flush_tlb(&self, cpu: c_uint) {
        // SAFETY: called from the CPU's execution callback.
        if let Some((core, _)) = unsafe { self.cpu(cpu) } {
            core.flush_tlb();
        }
    }

    /// A CPU executes a mark: a region of interest begins or ends.
    pub fn mark(&self, cpu: c_uint, mark: Mark) {
        // SAFETY: called from the CPU's execution callback.
        let Some((core, _)) = (unsafe { self.cpu_now(cpu) }) else { return };
        self.simulation.publish(core);
        let pmu = self.simulation.pmu();
        let counters = Snapshot::take(pmu);
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        if regions.mark(mark, &pmu.mark_name(), core.now_ps(), counters) {
            drop(regions);
            self.write_report();
        }
    }

    /// Whether accesses are modelled and counted. If not, time depends on instructions only.
    pub fn counts(&self) -> bool {
        self.counts
    }

    /// Process 1 of the guest calls the host.
    pub fn call(&self) {
        self.ports.serve(|| self.end());
    }

    /// Writes the last report: when the program ends or, if it has not ended, when QEMU ends.
    pub fn end(&self) {
        if !self.has_ended.swap(true, Relaxed) {
            self.write_report();
        }
    }

    /// Writes a report of all counts so far.
    fn write_report(&self) {
        let pmu = self.simulation.pmu();
        let regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let report = regions.report(pmu.time_ns() * 1000, &Snapshot::take(pmu));
        if let Err(error) = self.report.write(&report) {
            eprintln!("numapilot: cannot write the lab's report: {error}");
        }
    }
}

/// Charges the CPU's budget with the stalls since `before_ps`, so that it does not run beyond its
/// quantum.
#[inline]
fn charge(core: &Core, before_ps: u64, scoreboard: &OnceLock<&'static CpuScoreboard>) {
    let stalled_ps = core.stall_ps() - before_ps;
    if stalled_ps > 0
        && let Some(scoreboard) = scoreboard.get()
    {
        scoreboard.charge(core.instructions_in(stalled_ps));
    }
}

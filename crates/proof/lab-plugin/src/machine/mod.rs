//! The emulated machine at run time: the actions of QEMU's callbacks, the simulated time that they
//! cause, and the scheduling of CPUs and timers by it.
//!
//! All callbacks and timers run on the CPU thread. Other threads of QEMU, such as its main loop,
//! only ask for the time.

mod pmu_memory;
mod probe;
mod reports;
mod time;

use std::cell::UnsafeCell;
use std::collections::BTreeSet;
use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use numapilot_lab_init::COMPLAINT;
use numapilot_lab_model::{Core, Model, Regions, Simulation, Way};
use numapilot_lab_pmu::{Mode, PmuError};
use numapilot_sys::shared::SharedWords;

use crate::arguments::{Pace, StartError};
use crate::cpu_scoreboard::{CpuScoreboard, Place};
use crate::internals::{ClockHooks, CpuState, Internals, Requests, current_cpu};
use crate::ports::Ports;
use crate::qemu;
use crate::report::ReportFile;
use crate::schedule::Schedule;
use pmu_memory::Memory;
use probe::Access;
pub use time::nanoseconds;

/// Duration of `pause`, the hint in each iteration of a spin loop. Intel's Skylake takes 140
/// cycles, its predecessors 10 and AMD's Zen 40 to 65 (Intel, Optimization Reference Manual,
/// 2.4.4).
const PAUSE_PS: u64 = 20_000;
/// Duration of `pause` while the machine boots. Nothing is measured then, and the kernel waits in
/// spin loops: the longer a pause, the fewer iterations are emulated.
const BOOT_PAUSE_PS: u64 = 2_000_000;
/// Length of a quantum while the machine boots. It is long, because nothing is measured then.
const BOOT_QUANTUM_PS: u64 = 50_000_000;

/// A virtual CPU.
#[repr(align(64))]
struct Cpu {
    core: UnsafeCell<Core>,
    scoreboard: Place,
    /// QEMU's `CPUState`; null until QEMU has set up the CPU.
    state: AtomicPtr<c_void>,
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
    /// Where QEMU keeps the pending interrupts of each CPU, once the first CPU is set up.
    requests: OnceLock<Requests>,
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
                scoreboard: Place::default(),
                state: AtomicPtr::new(ptr::null_mut()),
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
            requests: OnceLock::new(),
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
    unsafe fn cpu(&self, cpu: c_uint) -> Option<(&mut Core, &Place)> {
        let cpu = self.cpus.get(cpu as usize)?;
        // SAFETY: by contract, no other borrow of this core is alive.
        Some((unsafe { &mut *cpu.core.get() }, &cpu.scoreboard))
    }

    /// As `cpu`, after updating the core's counts of instructions and accesses.
    ///
    /// # Safety
    /// As `cpu`.
    #[allow(clippy::mut_from_ref)]
    unsafe fn cpu_now(&self, cpu: c_uint) -> Option<(&mut Core, Option<&CpuScoreboard>)> {
        // SAFETY: by contract.
        let (core, scoreboard) = unsafe { self.cpu(cpu) }?;
        let scoreboard = scoreboard.get();
        if let Some(scoreboard) = scoreboard {
            core.executed(scoreboard.executed());
        }
        Some((core, scoreboard))
    }

    /// Adds a CPU. `scoreboard_of` finds the scoreboard element of each CPU that was added. The first
    /// CPU also installs the clock: these functions.
    ///
    /// # Errors
    /// [`StartError::Accelerator`] if this QEMU is not as expected.
    ///
    /// # Safety
    /// QEMU is setting up this CPU, on the CPU thread.
    pub unsafe fn add_cpu(
        &self,
        cpu: c_uint,
        scoreboard_of: fn(c_uint) -> *mut CpuScoreboard,
        clock: ClockHooks,
    ) -> Result<(), StartError> {
        let index = cpu as usize;
        let Some(added) = self.cpus.get(index) else { return Ok(()) };
        for (number, other) in (0..=cpu).zip(&self.cpus) {
            // SAFETY: QEMU has set up these CPUs, and no callback of one of them is running.
            unsafe { other.scoreboard.set(scoreboard_of(number)) };
        }
        let scoreboard = added.scoreboard.get().ok_or(StartError::Accelerator)?;
        scoreboard.grant(0);
        let state = self.internals.cpu(index);
        if state.is_null() || state != current_cpu() {
            return Err(StartError::Accelerator);
        }
        added.state.store(state, Relaxed);
        // SAFETY: by contract.
        unsafe { self.internals.share_translations(state) };
        if index > 0 {
            return Ok(());
        }
        // SAFETY: by contract, and the lock is held.
        let requests = self.internals.locked(|| unsafe { self.internals.find_requests(state) })?;
        let _ = self.requests.set(requests);
        // SAFETY: by contract.
        unsafe { self.internals.hook(clock) }
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
        self.simulate(cpu, info, address, mode, |simulation, core, access| {
            simulation.access(core, address, way, access);
        });
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
        self.simulate(cpu, info, address, mode, |simulation, core, access| {
            simulation.access_element(core, address, way, access);
        });
    }

    /// Runs the model for an access, and charges the CPU's budget with the stall.
    #[inline]
    fn simulate(
        &self,
        cpu: c_uint,
        info: qemu::MemInfo,
        address: u64,
        mode: Mode,
        run: impl FnOnce(&Simulation<Memory>, &mut Core, &Access<'_>),
    ) {
        // SAFETY: called from the CPU's memory callback; nothing below calls back.
        let Some((core, scoreboard)) = (unsafe { self.cpu(cpu) }) else { return };
        let before = core.stall_ps();
        core.set_mode(mode);
        run(&self.simulation, core, &Access { info, address, scoreboard });
        charge(core, before, scoreboard);
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
        let states: BTreeSet<CpuState> =
            self.cpus.iter().map(|cpu| cpu.state.load(Relaxed)).collect();
        if states.len() != self.cpus.len() || states.contains(&ptr::null_mut()) {
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

    /// Whether accesses are modelled and counted. If not, time depends on instructions only.
    pub fn counts(&self) -> bool {
        self.counts
    }
}

/// Charges the CPU's budget with the stalls since `before_ps`, so that it does not run beyond its
/// quantum.
#[inline]
fn charge(core: &Core, before_ps: u64, scoreboard: &Place) {
    let stalled_ps = core.stall_ps() - before_ps;
    if stalled_ps > 0
        && let Some(scoreboard) = scoreboard.get()
    {
        scoreboard.charge(core.instructions_in(stalled_ps));
    }
}

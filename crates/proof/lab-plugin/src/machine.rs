//! The emulated machine at run time: the actions of QEMU's execution callbacks.

use std::cell::UnsafeCell;
use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use numapilot_lab_model::{Core, Model, Probe, Regions, Simulation, Way};
use numapilot_lab_pmu::{Mark, PmuError, Snapshot};
use numapilot_sys::shared::SharedWords;

use crate::apic;
use crate::cpu_scoreboard::{BUDGET, CpuScoreboard};
use crate::qemu;
use crate::report::ReportFile;
use crate::turnstile::{Left, Turnstile};

/// The number of instructions that a CPU may execute while it is ahead, before it waits again:
/// enough to take an interrupt.
const ALLOWANCE: u64 = 64;
/// Iterations of a waiting loop in the kernel after which its CPU yields the host's processor for
/// longer, and checks whether CPUs at the turnstile owe it an answer.
const SPINS: u64 = 16;
/// The duration of such a pause.
const NAP: Duration = Duration::from_micros(20);

/// The PMU's memory: shared with the guest, or private.
#[derive(Debug)]
pub enum Memory {
    Shared(SharedWords),
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
    /// Iterations of the kernel's waiting loops since the CPU entered the kernel.
    spins: AtomicU64,
}

// SAFETY: `core` is only reached through `Machine::cpu`, on the CPU's own thread.
unsafe impl Sync for Cpu {}

/// The machine.
pub struct Machine {
    simulation: Simulation<Memory>,
    cpus: Vec<Cpu>,
    /// The IDs of the CPUs' local APICs.
    apic_ids: Vec<u32>,
    turnstile: Turnstile,
    regions: Mutex<Regions>,
    report: ReportFile,
}

static MACHINE: OnceLock<Machine> = OnceLock::new();

/// The machine, once it is installed.
#[inline]
pub fn machine() -> Option<&'static Machine> {
    MACHINE.get()
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
        // SAFETY: called within the callback that `info` belongs to; the handle is used
        // before that returns, and checked for null.
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
    /// Sets up the machine. `shared` is the PMU's memory, if the guest shares it.
    pub fn install(
        model: Model,
        apic_ids: Vec<u32>,
        report: ReportFile,
        shared: Option<SharedWords>,
    ) -> Result<(), PmuError> {
        let words = model.pmu_shape().map_or(0, |s| s.words());
        let own = || Memory::Own((0..words).map(|_| AtomicU64::new(0)).collect());
        let regions = Mutex::new(Regions::new(&model.title));
        let simulation = Simulation::new(model, shared.map_or_else(own, Memory::Shared))?;
        let cpus = (0..)
            .map_while(|cpu| simulation.core(cpu))
            .map(|core| Cpu {
                core: UnsafeCell::new(core),
                scoreboard: OnceLock::new(),
                spins: AtomicU64::new(0),
            })
            .collect::<Vec<_>>();
        let turnstile = Turnstile::new(cpus.len());
        // A second plugin of the same file would be a second library with its own static, so
        // nothing is installed yet.
        let _ = MACHINE.set(Self { simulation, cpus, apic_ids, turnstile, regions, report });
        Ok(())
    }

    /// The state of a CPU.
    ///
    /// # Safety
    /// Only on the thread that runs the CPU, and not while another borrow of its core is alive.
    /// QEMU calls the callbacks of a CPU on that thread, one after the other.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    unsafe fn cpu(&self, cpu: c_uint) -> Option<(&mut Core, &OnceLock<&'static CpuScoreboard>)> {
        let cpu = self.cpus.get(cpu as usize)?;
        // SAFETY: the caller is the only one to reach this core now.
        Some((unsafe { &mut *cpu.core.get() }, &cpu.scoreboard))
    }

    /// As `cpu`, after updating the core's instruction count.
    ///
    /// # Safety
    /// As `cpu`.
    #[allow(clippy::mut_from_ref)]
    unsafe fn cpu_now(&self, cpu: c_uint) -> Option<(&mut Core, Option<&'static CpuScoreboard>)> {
        // SAFETY: passed on to the caller.
        let (core, scoreboard) = unsafe { self.cpu(cpu) }?;
        let scoreboard = scoreboard.get().copied();
        if let Some(scoreboard) = scoreboard {
            core.executed(scoreboard.executed());
        }
        Some((core, scoreboard))
    }

    /// Adds a CPU that counts in this scoreboard.
    pub fn add_cpu(&self, cpu: c_uint, scoreboard: &'static CpuScoreboard) {
        if let Some(cpu) = self.cpus.get(cpu as usize) {
            // A CPU is set up once, and its scoreboard does not move.
            let _ = cpu.scoreboard.set(scoreboard);
            scoreboard.set_budget(BUDGET);
        }
    }

    /// A pointer to the CPUs, for [`passes`](Self::passes).
    pub fn cpus(&self) -> *mut c_void {
        self.cpus.as_ptr().cast_mut().cast()
    }

    /// Whether an access of user mode tells the model nothing, as most do. Only what this decision
    /// needs is read before.
    ///
    /// # Safety
    /// `cpus` is from [`cpus`](Self::cpus) of the installed machine, `cpu` is one of QEMU's CPUs,
    /// whose number matches, and this is its thread.
    #[inline]
    pub unsafe fn passes(cpus: *const c_void, cpu: c_uint, address: u64, way: Way) -> bool {
        // SAFETY: the caller vouches for the place; the machine stays. Nobody else reaches the core
        // now, as in `cpu`.
        let core = unsafe { &*(*cpus.cast::<Cpu>().add(cpu as usize)).core.get() };
        core.passes(address, way)
    }

    /// An access of user mode that does not pass the filter.
    pub fn access(&self, cpu: c_uint, info: qemu::MemInfo, address: u64, way: Way) {
        // SAFETY: called from the CPU's memory callback, which calls nothing that comes back.
        let Some((core, scoreboard)) = (unsafe { self.cpu(cpu) }) else { return };
        let access = Access { info, address, scoreboard };
        self.simulation.access(core, address, way, &access);
    }

    /// An access of an instruction whose number of accesses is not known in advance.
    pub fn access_element(&self, cpu: c_uint, info: qemu::MemInfo, address: u64, way: Way) {
        // SAFETY: as in `access`.
        let Some((core, scoreboard)) = (unsafe { self.cpu(cpu) }) else { return };
        let access = Access { info, address, scoreboard };
        self.simulation.access_element(core, address, way, &access);
    }

    /// A CPU has used up its budget of user instructions, or runs user code for the first time
    /// after idling or after the kernel.
    pub fn budget(&self, cpu: c_uint) {
        // SAFETY: called from the CPU's execution callback.
        let Some((core, scoreboard)) = (unsafe { self.cpu_now(cpu) }) else { return };
        self.simulation.enter_user(core);
        let floor = || self.simulation.floor_ps();
        self.turnstile.advance(floor);
        let left = self.turnstile.wait(core.cpu(), core.now_ps(), floor);
        if let Left::Tired { until_ps } = left {
            self.simulation.give_up(until_ps);
            self.turnstile.advance(floor);
        }
        if let Some(scoreboard) = scoreboard {
            scoreboard.set_budget(if left == Left::Level { 0 } else { BUDGET - ALLOWANCE });
        }
    }

    /// A CPU switches between user mode and the kernel.
    pub fn enter_kernel(&self, cpu: c_uint) {
        // SAFETY: called from the CPU's execution callback.
        let Some((core, scoreboard)) = (unsafe { self.cpu_now(cpu) }) else { return };
        if let Some(scoreboard) = scoreboard {
            scoreboard.set_budget(BUDGET);
        }
        self.cpus[core.cpu()].spins.store(0, Relaxed);
        self.simulation.enter_kernel(core);
        self.turnstile.advance(|| self.simulation.floor_ps());
    }

    /// A CPU waits in a loop in the kernel, for a lock or for answers to its interrupts. Each
    /// iteration is expensive in QEMU, and the CPU that it waits for makes better use of the host's
    /// processor.
    pub fn spin(&self, cpu: c_uint) {
        let Some(cpu) = self.cpus.get(cpu as usize) else { return };
        let spins = cpu.spins.load(Relaxed) + 1;
        cpu.spins.store(spins, Relaxed);
        if spins % SPINS != 0 {
            return thread::yield_now();
        }
        self.turnstile.open();
        thread::sleep(NAP);
    }

    /// A CPU halts.
    pub fn idle(&self, cpu: c_uint) {
        // SAFETY: called from the CPU's idle callback, on its thread.
        if let Some((core, _)) = unsafe { self.cpu_now(cpu) } {
            self.simulation.sleep(core);
            self.turnstile.advance(|| self.simulation.floor_ps());
        }
    }

    /// An idle CPU continues in the kernel.
    pub fn resume(&self, cpu: c_uint) {
        self.enter_kernel(cpu);
    }

    /// A CPU in the kernel sends an interrupt: the CPUs that it wakes continue from its clock,
    /// however long the host takes to run them.
    pub fn interrupt(&self, cpu: c_uint, command: u64) {
        let sender = cpu as usize;
        for (cpu, apic_id) in self.apic_ids.iter().enumerate() {
            if apic::reaches(command, *apic_id, cpu == sender) {
                self.simulation.wake(cpu, sender);
            }
        }
    }

    /// The guest flushes a CPU's TLB.
    pub fn flush_tlb(&self, cpu: c_uint) {
        // SAFETY: called from the CPU's execution callback.
        if let Some((core, _)) = unsafe { self.cpu(cpu) } {
            core.flush_tlb();
        }
    }

    /// A CPU executes a mark.
    pub fn mark(&self, cpu: c_uint, mark: Mark) {
        // SAFETY: called from the CPU's execution callback.
        let Some((core, _)) = (unsafe { self.cpu_now(cpu) }) else { return };
        self.simulation.enter_user(core);
        let pmu = self.simulation.pmu();
        let counters = Snapshot::take(pmu);
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        if regions.mark(mark, &pmu.mark_name(), core.now_ps(), counters) {
            drop(regions);
            self.write_report();
        }
    }

    /// Writes the report of the run so far.
    pub fn write_report(&self) {
        let pmu = self.simulation.pmu();
        let regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let report = regions.report(pmu.time_ns() * 1000, &Snapshot::take(pmu));
        if let Err(error) = self.report.write(&report) {
            eprintln!("numapilot: cannot write the lab's report: {error}");
        }
    }
}

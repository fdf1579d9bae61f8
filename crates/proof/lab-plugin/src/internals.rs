//! Functions of QEMU that are not part of its plugin interface: the clock, QEMU's lock, timers, and
//! the virtual CPUs.
//!
//! Builds with loadable modules, such as Debian's, export these functions. The plugin looks them up
//! by name and refuses a QEMU that lacks one. [`Internals::hook`] checks the layout of the only
//! structure that the plugin changes, and [`Internals::find_requests`] finds the only member of
//! another one that it reads.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use crate::arguments::StartError;

/// A virtual CPU, as QEMU refers to it (`CPUState`).
pub type CpuState = *mut c_void;

/// `QEMU_CLOCK_VIRTUAL`.
const VIRTUAL: c_int = 1;
/// `QEMU_TIMER_ATTR_ALL`.
const ALL_TIMERS: c_int = -1;
/// `CF_PARALLEL`: blocks are translated for CPUs on several threads.
const PARALLEL: u32 = 0x8000;
/// Number of words of the accelerator's table that are searched.
const TABLE_WORDS: usize = 80;
/// Number of words of a `CPUState` that are searched.
const STATE_WORDS: usize = 512;
/// `CPU_INTERRUPT_HARD`: an interrupt controller has an interrupt for the CPU.
const HARD: c_int = 2;
/// A kind of interrupt that does not exist.
const NO_INTERRUPT: c_int = 1 << 30;

/// The accelerator's functions for the virtual clock (`AccelOpsClass` in QEMU's
/// `include/system/accel-ops.h`). Between the two is the member that sets the clock, which QEMU
/// does not use if it is null. TCG leaves all three null.
#[derive(Clone, Copy)]
pub struct ClockHooks {
    /// Returns the virtual clock in nanoseconds.
    pub clock: extern "C" fn() -> i64,
    /// Returns the time stamp counter.
    pub ticks: extern "C" fn() -> i64,
}

/// The position of the pending interrupts in a `CPUState`.
#[derive(Clone, Copy)]
pub struct Requests(usize);

macro_rules! internals {
    ($($field:ident = $name:literal: $kind:ty;)*) => {
        /// The functions; see the module documentation.
        pub struct Internals {
            $($field: $kind,)*
        }

        impl Internals {
            /// Finds the functions in the program that has loaded this plugin.
            ///
            /// # Errors
            /// [`StartError::Symbol`] with the name of a missing function.
            pub fn find() -> Result<Self, StartError> {
                Ok(Self {
                    // SAFETY: QEMU 10.0's function of this name has this type; `hook` refuses a
                    // QEMU whose accelerator's table is laid out differently.
                    $($field: unsafe { std::mem::transmute::<*mut c_void, $kind>(symbol($name)?) },)*
                })
            }
        }
    };
}

internals! {
    accelerator = c"cpus_get_accel": unsafe extern "C" fn() -> *mut *mut c_void;
    lock = c"bql_lock_impl": unsafe extern "C" fn(*const c_char, c_int);
    unlock = c"bql_unlock": unsafe extern "C" fn();
    is_locked = c"bql_locked": unsafe extern "C" fn() -> bool;
    cpu = c"qemu_get_cpu": unsafe extern "C" fn(c_int) -> CpuState;
    exit = c"cpu_exit": unsafe extern "C" fn(CpuState);
    set_flags = c"tcg_cflags_set": unsafe extern "C" fn(CpuState, u32);
    interrupt = c"tcg_handle_interrupt": unsafe extern "C" fn(CpuState, c_int);
    reset_interrupt = c"cpu_reset_interrupt": unsafe extern "C" fn(CpuState, c_int);
    has_work = c"cpu_has_work": unsafe extern "C" fn(CpuState) -> bool;
    is_idle = c"cpu_thread_is_idle": unsafe extern "C" fn(CpuState) -> bool;
    run_timers = c"qemu_clock_run_timers": unsafe extern "C" fn(c_int) -> bool;
    now = c"qemu_clock_get_ns": unsafe extern "C" fn(c_int) -> i64;
    deadline = c"qemu_clock_deadline_ns_all": unsafe extern "C" fn(c_int, c_int) -> i64;
    flush_translations = c"tb_flush": unsafe extern "C" fn(CpuState);
}

// SAFETY: the fields are addresses of functions, which are valid on every thread.
unsafe impl Send for Internals {}
// SAFETY: as above.
unsafe impl Sync for Internals {}

/// The address of a symbol of QEMU.
fn symbol(name: &CStr) -> Result<*mut c_void, StartError> {
    // SAFETY: the name ends with a zero byte.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if address.is_null() {
        return Err(StartError::Symbol { name: name.to_string_lossy().into_owned() });
    }
    Ok(address)
}

/// The virtual CPU that the calling thread is executing; null on threads other than the CPU thread.
pub fn current_cpu() -> CpuState {
    thread_local! {
        /// Address of this thread's instance of QEMU's variable.
        static PLACE: Cell<*const CpuState> = const { Cell::new(ptr::null()) };
    }
    PLACE.with(|place| {
        if place.get().is_null() {
            // For a thread-local symbol, dlsym returns the address of this thread's instance.
            place.set(symbol(c"current_cpu").map_or(ptr::null(), |address| address.cast()));
        }
        // SAFETY: null, or the calling thread's variable, which lives as long as the thread.
        unsafe { place.get().as_ref() }.map_or(ptr::null_mut(), |cpu| *cpu)
    })
}

impl Internals {
    /// Replaces QEMU's virtual clock and time stamp counter by the hooks.
    ///
    /// # Errors
    /// [`StartError::Accelerator`] if the accelerator's table is not laid out as expected.
    ///
    /// # Safety
    /// QEMU has chosen its accelerator, as it has when it sets up a CPU.
    pub unsafe fn hook(&self, hooks: ClockHooks) -> Result<(), StartError> {
        // SAFETY: by contract.
        let table = unsafe { (self.accelerator)() };
        let word = |index: usize| {
            // SAFETY: the searched words belong to the table, or to the data of the program that
            // follows it.
            unsafe { table.add(index) }
        };
        // SAFETY: as above.
        let found = (0..TABLE_WORDS)
            .find(|index| unsafe { *word(*index) } == self.interrupt as *mut c_void);
        let first = found.ok_or(StartError::Accelerator)? + 1;
        let words = [first, first + 1, first + 2].map(word);
        // SAFETY: as above.
        if words.iter().any(|word| unsafe { !(**word).is_null() }) {
            return Err(StartError::Accelerator);
        }
        let [clock, _, ticks] = words;
        let values = [(clock, hooks.clock as *const ()), (ticks, hooks.ticks as *const ())];
        for (word, value) in values {
            // SAFETY: the words are members of the table, each of the type of its hook. QEMU reads
            // them when it asks for the time.
            unsafe { word.write(value.cast_mut().cast()) };
        }
        Ok(())
    }

    /// The virtual CPU with this number; null if there is none.
    pub fn cpu(&self, cpu: usize) -> CpuState {
        // SAFETY: the function accepts every number and returns null if there is no such CPU.
        unsafe { (self.cpu)(cpu as c_int) }
    }

    /// Requests that the CPU leave translated code, so that the next CPU runs.
    ///
    /// # Safety
    /// The CPU exists.
    pub unsafe fn exit(&self, cpu: CpuState) {
        // SAFETY: by contract.
        unsafe { (self.exit)(cpu) }
    }

    /// Makes QEMU translate the blocks of a CPU as for several threads. With one thread for all
    /// CPUs, QEMU would otherwise make the number of the translating CPU a constant of the block,
    /// although other CPUs execute the same block.
    ///
    /// # Safety
    /// QEMU is setting up this CPU.
    pub unsafe fn share_translations(&self, cpu: CpuState) {
        // SAFETY: by contract.
        unsafe { (self.set_flags)(cpu, PARALLEL) }
    }

    /// Discards all translation blocks, so that QEMU translates them again.
    ///
    /// # Safety
    /// The caller is on the CPU thread, and the CPU is the current one.
    pub unsafe fn flush_translations(&self, cpu: CpuState) {
        // SAFETY: by contract.
        unsafe { (self.flush_translations)(cpu) }
    }

    /// Runs a function while holding QEMU's lock.
    pub fn locked<T>(&self, run: impl FnOnce() -> T) -> T {
        // SAFETY: any thread may ask whether it holds the lock.
        let held = unsafe { (self.is_locked)() };
        if !held {
            // SAFETY: the thread does not hold the lock, and the name ends with a zero byte.
            unsafe { (self.lock)(c"numapilot".as_ptr(), 0) };
        }
        let result = run();
        if !held {
            // SAFETY: the lock was taken above.
            unsafe { (self.unlock)() };
        }
        result
    }

    /// Whether a CPU has work that ends a halt, such as a pending interrupt.
    ///
    /// # Safety
    /// The CPU exists, and the caller holds QEMU's lock.
    pub unsafe fn has_work(&self, cpu: CpuState) -> bool {
        // SAFETY: by contract.
        unsafe { (self.has_work)(cpu) }
    }

    /// Finds the word with a CPU's pending interrupts (`interrupt_request` in QEMU's
    /// `include/hw/core/cpu.h`): the only one that changes when an interrupt is requested and
    /// withdrawn.
    ///
    /// # Errors
    /// [`StartError::Accelerator`] if there is no such word.
    ///
    /// # Safety
    /// QEMU is setting up this CPU, and the caller holds QEMU's lock.
    pub unsafe fn find_requests(&self, cpu: CpuState) -> Result<Requests, StartError> {
        let words = || {
            let words = cpu.cast::<u32>();
            // SAFETY: the searched words belong to the CPU's state, which is longer.
            (0..STATE_WORDS).map(move |index| unsafe { words.add(index).read_volatile() })
        };
        let before: Vec<u32> = words().collect();
        // SAFETY: by contract; the CPU ignores a kind that does not exist.
        unsafe { (self.interrupt)(cpu, NO_INTERRUPT) };
        let requested: Vec<u32> = words().collect();
        // SAFETY: as above.
        unsafe { (self.reset_interrupt)(cpu, NO_INTERRUPT) };
        let bit = NO_INTERRUPT as u32;
        let mut found = (0..STATE_WORDS)
            .zip(words())
            .filter(|&(index, after)| {
                (before[index] | bit, before[index]) == (requested[index], after)
                    && after & bit == 0
            })
            .map(|(index, _)| index);
        match (found.next(), found.next()) {
            (Some(index), None) => Ok(Requests(index)),
            _ => Err(StartError::Accelerator),
        }
    }

    /// Whether an interrupt controller has an interrupt for a CPU, even if the CPU does not accept
    /// it at present.
    ///
    /// # Safety
    /// The CPU exists, and the caller holds QEMU's lock.
    pub unsafe fn is_interrupted(&self, cpu: CpuState, Requests(index): Requests) -> bool {
        // SAFETY: `find_requests` has read this word, and all CPUs have the same layout.
        unsafe { cpu.cast::<u32>().add(index).read_volatile() & HARD as u32 != 0 }
    }

    /// Whether a CPU is halted and has no work.
    ///
    /// # Safety
    /// As [`has_work`](Self::has_work).
    pub unsafe fn is_idle(&self, cpu: CpuState) -> bool {
        // SAFETY: by contract.
        unsafe { (self.is_idle)(cpu) }
    }

    /// The time of QEMU's virtual clock, in nanoseconds.
    pub fn now_ns(&self) -> i64 {
        // SAFETY: any thread may ask for the time.
        unsafe { (self.now)(VIRTUAL) }
    }

    /// Nanoseconds until the next timer of the virtual clock expires; `None` without a timer.
    ///
    /// # Safety
    /// The caller holds QEMU's lock.
    pub unsafe fn deadline_ns(&self) -> Option<u64> {
        // SAFETY: by contract.
        u64::try_from(unsafe { (self.deadline)(VIRTUAL, ALL_TIMERS) }).ok()
    }

    /// Runs the expired timers of the virtual clock.
    ///
    /// # Safety
    /// The caller holds QEMU's lock.
    pub unsafe fn run_timers(&self) {
        // SAFETY: by contract.
        unsafe { (self.run_timers)(VIRTUAL) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_the_functions_is_refused() {
        let error = Internals::find().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.starts_with("this QEMU does not export cpus_get_accel;"), "{error}");
        assert!(error.contains("numapilot lab setup"), "{error}");
    }
}

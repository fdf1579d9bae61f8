//! The state of this process: its CPU list, the occupancy table, and the CPU slot of each thread.

use core::cell::UnsafeCell;
use core::ptr::null;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use libc::{c_int, c_void};
use numapilot_bind::cpus::{CpuList, CpuMask, MAX_CPUS};
use numapilot_bind::occupancy::{Event, Holds, OccupancyTable};
use numapilot_syscall::caller;

use crate::{kernel, openmp};

/// The state of a process in which threads are placed.
pub struct State {
    /// CPUs in the order in which threads take them.
    pub cpus: CpuList,
    /// The same CPUs as a mask: those on which a placed thread could run if it were not placed.
    pub mask: CpuMask,
    /// Whether OpenMP runtimes are given the CPUs of the list as places.
    pub guides_openmp: bool,
    /// The table that is shared with the other processes of the target, once it is mapped.
    pub occupancy: Option<&'static OccupancyTable>,
    /// The id of this process. It differs from `getpid()` in a child of `vfork`.
    pub pid: AtomicI32,
    /// Number of threads of this process on each CPU, without the main thread.
    threads: [AtomicU32; MAX_CPUS],
    key: libc::pthread_key_t,
}

/// The CPU to which a thread is pinned, as stored in its thread-specific value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CpuSlot {
    /// Unknown: created by a raw `clone`, or refused by the kernel.
    None,
    /// Pinned to this CPU by the library.
    Cpu(u16),
    /// Placed by the program, like all threads that it creates.
    ItsOwn,
}

impl CpuSlot {
    fn encode(self) -> *mut c_void {
        let value = match self {
            Self::None => 0,
            Self::Cpu(cpu) => usize::from(cpu) + 1,
            Self::ItsOwn => usize::MAX,
        };
        value as *mut c_void
    }

    fn decode(value: *const c_void) -> Self {
        match value as usize {
            0 => Self::None,
            usize::MAX => Self::ItsOwn,
            cpu => u16::try_from(cpu - 1).map_or(Self::None, Self::Cpu),
        }
    }
}

const UNTOUCHED: u32 = 0;
const BUSY: u32 = 1;
const READY: u32 = 2;
const OFF: u32 = 3;

struct StateCell {
    phase: AtomicU32,
    state: UnsafeCell<State>,
}

// SAFETY: written only by the thread that moved `phase` to BUSY, and read only after READY, through
// shared references.
unsafe impl Sync for StateCell {}

/// Used until the shared table is mapped. All statics are zero, so they take no room in the file.
static UNSHARED: OccupancyTable = OccupancyTable::new();

static STATE: StateCell = StateCell {
    phase: AtomicU32::new(UNTOUCHED),
    state: UnsafeCell::new(State {
        cpus: CpuList::new(),
        mask: CpuMask::new(),
        guides_openmp: false,
        occupancy: None,
        pid: AtomicI32::new(0),
        threads: [const { AtomicU32::new(0) }; MAX_CPUS],
        key: 0,
    }),
};

/// The state, if it is initialised and threads are placed in this process.
pub fn ready() -> Option<&'static State> {
    let is_ready = STATE.phase.load(Ordering::Acquire) == READY;
    // SAFETY: READY is stored after the last write.
    is_ready.then(|| unsafe { &*STATE.state.get() })
}

/// Initialises the state, which becomes ready if `fill` returns `Some`. Returns `None` to every
/// caller but the first, also when `fill` itself calls.
pub fn fill_once(fill: impl FnOnce(&mut State) -> Option<()>) -> Option<&'static State> {
    if STATE.phase.load(Ordering::Relaxed) != UNTOUCHED {
        return None;
    }
    let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
    STATE.phase.compare_exchange(UNTOUCHED, BUSY, acquire, relaxed).ok()?;
    // SAFETY: only this thread moved the phase to BUSY, so no other accesses the state.
    let state = unsafe { &mut *STATE.state.get() };
    let phase = if fill(state).is_some() { READY } else { OFF };
    STATE.phase.store(phase, Ordering::Release);
    ready()
}

/// The CPUs on which a thread of this process could run if it were not placed: a bit for each of
/// `MAX_CPUS`, which do not change. Null if threads are not placed. Other libraries that the
/// launcher preloads call it, from threads that the C library does not know, so it calls no
/// function.
#[unsafe(no_mangle)]
pub extern "C" fn numapilot_bind_cpus() -> *const u64 {
    ready().map_or(null(), |state| state.mask.as_words().as_ptr())
}

impl State {
    /// The table that is shared with the other processes of the target.
    pub fn occupancy(&self) -> &'static OccupancyTable {
        self.occupancy.unwrap_or(&UNSHARED)
    }

    /// Creates the key of the threads' slots. Returns whether that succeeded.
    pub fn create_key(&mut self) -> bool {
        // SAFETY: the key outlives the call; the destructor has the required signature.
        unsafe { libc::pthread_key_create(&raw mut self.key, Some(thread_ends)) == 0 }
    }

    /// The slot of the calling thread.
    pub fn slot(&self) -> CpuSlot {
        // SAFETY: the key was created before the state was READY and is never deleted.
        CpuSlot::decode(unsafe { libc::pthread_getspecific(self.key) })
    }

    /// Records the slot of the calling thread.
    pub fn set_slot(&self, slot: CpuSlot) {
        // SAFETY: as above; the value is a number, not an address. If there is no memory for it,
        // the CPU is given back when the process ends, not when the thread ends.
        unsafe { libc::pthread_setspecific(self.key, slot.encode()) };
    }

    /// Takes a CPU for a thread that the caller creates.
    pub fn take_for_thread(&self) -> Option<u16> {
        let own = match self.slot() {
            CpuSlot::Cpu(cpu) => Some(cpu),
            CpuSlot::None | CpuSlot::ItsOwn => None,
        };
        let cpu = self.occupancy().take_cpu(self.cpus.as_slice(), own)?;
        self.threads.get(usize::from(cpu))?.fetch_add(1, Ordering::Relaxed);
        Some(cpu)
    }

    /// Whether this mask, with which `caller` (a return address) restricts a thread, is the place of an
    /// OpenMP runtime that follows the order.
    pub fn is_openmp_place(&self, mask: &CpuMask, caller: usize) -> bool {
        let is_listed = |cpu| self.cpus.as_slice().contains(&cpu);
        self.guides_openmp && mask.only().is_some_and(is_listed) && openmp::has_code_at(caller)
    }

    /// Gives back a CPU from [`State::take_for_thread`]. Does nothing after
    /// [`State::give_back_all`].
    pub fn give_back(&self, cpu: u16) {
        let Some(count) = self.threads.get(usize::from(cpu)) else { return };
        if count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
            self.occupancy().release_cpu(cpu);
        }
    }

    /// Gives back the CPUs of the threads that still run at the end of the process.
    pub fn give_back_all(&self) {
        for cpu in self.cpus.as_slice() {
            while self.threads.get(usize::from(*cpu)).is_some_and(|n| n.load(Ordering::Relaxed) > 0)
            {
                self.give_back(*cpu);
            }
        }
    }

    /// Clears the thread counts in a forked child, because the threads belong to the parent.
    pub fn forget_threads(&self) {
        for cpu in self.cpus.as_slice() {
            if let Some(count) = self.threads.get(usize::from(*cpu)) {
                count.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Gives back the CPU to which the calling thread was pinned.
    pub fn unpin(&self, cpu: u16) {
        if self.is_main_thread() {
            self.occupancy().forget(self.pid());
        } else {
            self.give_back(cpu);
        }
    }

    /// Takes a CPU for the main thread, which must be the caller, and pins it there.
    pub fn pin_main_thread(&self) -> CpuSlot {
        let Some(cpu) = self.occupancy().take_cpu(self.cpus.as_slice(), None) else {
            return CpuSlot::None;
        };
        if kernel::set_affinity(&CpuMask::single(cpu)) {
            self.occupancy().count(Event::Placed);
            return CpuSlot::Cpu(cpu);
        }
        self.occupancy().release_cpu(cpu);
        self.occupancy().count(Event::Refused);
        // At least move it off the CPU of the thread that created this process.
        kernel::set_affinity(&self.mask);
        CpuSlot::None
    }

    /// Registers the slot of this process's main thread in the occupancy table.
    pub fn register(&self, slot: CpuSlot) {
        let holds = match slot {
            CpuSlot::None => return,
            CpuSlot::Cpu(cpu) => Holds::Cpu(cpu),
            CpuSlot::ItsOwn => Holds::ItsOwn,
        };
        self.occupancy().register(self.pid(), holds);
    }

    /// The id of this process, in the type of the occupancy table.
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed).unsigned_abs()
    }

    /// Whether the caller is the main thread.
    pub fn is_main_thread(&self) -> bool {
        caller::thread_id() == self.pid.load(Ordering::Relaxed)
    }

    /// Whether the caller is this process and not a child that shares its memory (`vfork`).
    pub fn is_here(&self) -> bool {
        caller::process_id() == self.pid.load(Ordering::Relaxed)
    }
}

/// Runs when a thread ends, also when it is cancelled.
extern "C" fn thread_ends(value: *mut c_void) {
    if let (Some(state), CpuSlot::Cpu(cpu)) = (ready(), CpuSlot::decode(value)) {
        state.unpin(cpu);
    }
}

/// The error that pthread functions return.
pub const OUT_OF_RESOURCES: c_int = libc::EAGAIN;

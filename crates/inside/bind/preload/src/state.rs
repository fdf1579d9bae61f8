//! What this process knows: its CPU list, the ledger, and where each thread sits.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::ptr::null;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use libc::{c_int, c_void};
use numapilot_bind::cpus::{CpuList, CpuMask, MAX_CPUS};
use numapilot_bind::env::{BIND_CPUS, BIND_LEDGER};
use numapilot_bind::ledger::{Event, Holds, Ledger};

use crate::{agent, kernel, next, process, rehome};

/// The state of a process in which threads are placed.
pub struct State {
    /// CPUs in the order in which threads take them.
    pub cpus: CpuList,
    /// The same as a mask: what a placed thread could use if it were not placed.
    pub mask: CpuMask,
    ledger: Option<&'static Ledger>,
    /// The process this is; differs from `getpid()` in a child of `vfork`.
    pub pid: AtomicI32,
    /// Threads of this process that hold a CPU, by CPU, without the main thread.
    threads: [AtomicU32; MAX_CPUS],
    key: libc::pthread_key_t,
}

/// Where a thread sits, as it is kept in its thread-specific value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    /// Not known to us: made by a raw `clone`, or refused by the kernel.
    None,
    /// On this CPU, by us.
    Cpu(u16),
    /// Where the program wants it, and whatever it creates as well.
    ItsOwn,
}

impl Seat {
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

struct Slot {
    phase: AtomicU32,
    state: UnsafeCell<State>,
}

// SAFETY: written only by the thread that moved `phase` to BUSY, read only once it is
// READY, by shared reference.
unsafe impl Sync for Slot {}

/// Stands in until the shared one is mapped. All statics are zeroes, so that they take no
/// room in the file.
static UNSHARED: Ledger = Ledger::new();

static SLOT: Slot = Slot {
    phase: AtomicU32::new(UNTOUCHED),
    state: UnsafeCell::new(State {
        cpus: CpuList::new(),
        mask: CpuMask::new(),
        ledger: None,
        pid: AtomicI32::new(0),
        threads: [const { AtomicU32::new(0) }; MAX_CPUS],
        key: 0,
    }),
};

/// The state, when threads are placed in this process. The constructors of other libraries
/// may create threads before ours runs, hence no other place relies on ours having run.
pub fn get() -> Option<&'static State> {
    match SLOT.phase.load(Ordering::Acquire) {
        // SAFETY: READY is stored after the last write.
        READY => Some(unsafe { &*SLOT.state.get() }),
        UNTOUCHED => init(),
        // BUSY: a call from within our own initialisation passes through.
        _ => None,
    }
}

/// The CPUs that a thread of this process could use if it were not placed, a bit for each of
/// `MAX_CPUS`, which stay as they are; null where threads are not placed. For the other libraries
/// that the launcher preloads, from threads that the C library does not know: it calls nothing.
#[unsafe(no_mangle)]
pub extern "C" fn numapilot_bind_cpus() -> *const u64 {
    if SLOT.phase.load(Ordering::Acquire) != READY {
        return null();
    }
    // SAFETY: READY is stored after the last write.
    unsafe { &*SLOT.state.get() }.mask.as_words().as_ptr()
}

extern "C" fn constructor() {
    next::find_all();
    get();
    rehome::watch_forks();
    agent::start_if_wanted();
}

extern "C" fn destructor() {
    if SLOT.phase.load(Ordering::Acquire) == READY
        && let Some(state) = get()
    {
        process::ends(state);
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = destructor;

fn init() -> Option<&'static State> {
    let turn = SLOT.phase.compare_exchange(UNTOUCHED, BUSY, Ordering::Acquire, Ordering::Relaxed);
    if turn.is_err() {
        return None;
    }
    // SAFETY: this thread alone moved the phase to BUSY: nobody else touches the state.
    let state = unsafe { &mut *SLOT.state.get() };
    let ready = kernel::keeping_errno(|| fill(state)).is_some();
    SLOT.phase.store(if ready { READY } else { OFF }, Ordering::Release);
    if !ready {
        return None;
    }
    // SAFETY: no write follows; the exclusive reference above is not used again.
    let state: &'static State = unsafe { &*SLOT.state.get() };
    kernel::keeping_errno(|| process::begins(state));
    Some(state)
}

/// `None`: threads are not placed in this process.
fn fill(state: &mut State) -> Option<()> {
    let list = variable(BIND_CPUS)?;
    if let Err(error) = state.cpus.parse(list.to_bytes()) {
        return complain(&[BIND_CPUS, ": ", error.message(), "; threads are not placed\n"]);
    }
    state.ledger = Some(process::map_ledger(variable(BIND_LEDGER))?);
    // SAFETY: the key is a live static; the destructor has the signature it must have.
    if unsafe { libc::pthread_key_create(&raw mut state.key, Some(thread_ends)) } != 0 {
        return None;
    }
    state.pid.store(kernel::getpid(), Ordering::Relaxed);
    process::narrow(state);
    if state.cpus.as_slice().is_empty() {
        return complain(&[
            BIND_CPUS,
            ": this process may run on none of these CPUs; threads are not placed\n",
        ]);
    }
    state.mask = state.cpus.mask();
    process::watch_forks();
    Some(())
}

/// A variable, unless the process has rights its caller lacks.
pub fn variable(name: &str) -> Option<&'static CStr> {
    let mut buffer = [0u8; 64];
    buffer.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    // SAFETY: takes a number and cannot fail.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    // SAFETY: the name is followed by zeroes; the value lives as long as the environment,
    // which nobody changes while a library is loaded.
    unsafe {
        let value = libc::getenv(buffer.as_ptr().cast());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    }
}

/// Says why a variable cannot be used.
pub fn complain(parts: &[&str]) -> Option<()> {
    let mut line = [0u8; 256];
    let mut end = 0;
    for part in ["numapilot: "].iter().chain(parts) {
        let next = (end + part.len()).min(line.len());
        let room = line.get_mut(end..next)?;
        room.copy_from_slice(part.as_bytes().get(..room.len())?);
        end = next;
    }
    // SAFETY: pointer and length are those of a live array. Nothing can be done about an
    // error.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), end) };
    None
}

impl State {
    /// Shared with the other processes of the target.
    pub fn ledger(&self) -> &'static Ledger {
        self.ledger.unwrap_or(&UNSHARED)
    }

    /// Where the calling thread sits.
    pub fn seat(&self) -> Seat {
        // SAFETY: the key was created before the state was READY and is never deleted.
        Seat::decode(unsafe { libc::pthread_getspecific(self.key) })
    }

    /// Records where the calling thread sits.
    pub fn set_seat(&self, seat: Seat) {
        // SAFETY: as above; the value is a number, not an address. Without memory for it
        // the CPU is given back at the end of the process instead of the thread.
        unsafe { libc::pthread_setspecific(self.key, seat.encode()) };
    }

    /// Takes a CPU for a new thread.
    pub fn take_for_thread(&self) -> Option<u16> {
        let cpu = self.ledger().take(self.cpus.as_slice())?;
        self.threads.get(usize::from(cpu))?.fetch_add(1, Ordering::Relaxed);
        Some(cpu)
    }

    /// Gives back what [`State::take_for_thread`] took; nothing after
    /// [`State::give_back_all`].
    pub fn give_back(&self, cpu: u16) {
        let Some(count) = self.threads.get(usize::from(cpu)) else { return };
        if count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
            self.ledger().release(cpu);
        }
    }

    /// Gives back what the threads hold that still run at the end of the process.
    pub fn give_back_all(&self) {
        for cpu in self.cpus.as_slice() {
            while self.threads.get(usize::from(*cpu)).is_some_and(|n| n.load(Ordering::Relaxed) > 0)
            {
                self.give_back(*cpu);
            }
        }
    }

    /// In a forked child: the threads are the parent's.
    pub fn forget_threads(&self) {
        for cpu in self.cpus.as_slice() {
            if let Some(count) = self.threads.get(usize::from(*cpu)) {
                count.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Gives back the CPU on which the calling thread sat.
    pub fn stand_up(&self, cpu: u16) {
        if kernel::gettid() == self.pid.load(Ordering::Relaxed) {
            self.ledger().forget(self.pid());
        } else {
            self.give_back(cpu);
        }
    }

    /// Takes a CPU for the main thread, which calls, and goes there.
    pub fn sit_down(&self) -> Seat {
        let Some(cpu) = self.ledger().take(self.cpus.as_slice()) else { return Seat::None };
        if kernel::set_affinity(&CpuMask::single(cpu)) {
            self.ledger().count(Event::Placed);
            return Seat::Cpu(cpu);
        }
        self.ledger().release(cpu);
        self.ledger().count(Event::Refused);
        // At least off the CPU of the thread that made this one.
        kernel::set_affinity(&self.mask);
        Seat::None
    }

    /// Tells the ledger how the main thread of this process sits.
    pub fn register(&self, seat: Seat) {
        let holds = match seat {
            Seat::None => return,
            Seat::Cpu(cpu) => Holds::Cpu(cpu),
            Seat::ItsOwn => Holds::ItsOwn,
        };
        self.ledger().register(self.pid(), holds);
    }

    /// The process of this state, as the ledger counts them.
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed).unsigned_abs()
    }

    /// Whether the caller is this process and not a child that borrowed its memory
    /// (`vfork`).
    pub fn is_here(&self) -> bool {
        kernel::getpid() == self.pid.load(Ordering::Relaxed)
    }
}

/// Runs at the end of a thread, cancelled or not.
extern "C" fn thread_ends(value: *mut c_void) {
    if let (Some(state), Seat::Cpu(cpu)) = (get(), Seat::decode(value)) {
        state.stand_up(cpu);
    }
}

/// What pthread functions return.
pub const OUT_OF_RESOURCES: c_int = libc::EAGAIN;

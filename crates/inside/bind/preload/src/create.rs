//! New threads: `pthread_create` and `thrd_create`.
//!
//! The *creator* pins the new thread before its first instruction. A thread that pins itself must
//! first run on its creator's CPU, so it waits until the creator leaves that CPU; the creator can
//! move it while it is still queued. glibc does the same for a thread with an affinity attribute.
//! Using that attribute would mean copying attributes that this library does not know in full, so
//! they are passed on unchanged.
//!
//! ```text
//!  creator                          new thread
//!  take a CPU
//!  create ------------------------> trampoline: wait until placed
//!  pin it, note its slot
//!  PLACED ------------------------> free the cell, run the program's function
//! ```
//!
//! The new thread frees the cell with function and argument before the program's function runs, so
//! neither cancelling nor detaching can leak it. The creator does not access it after PLACED. There
//! is no cancellation point in between.

use core::mem::transmute;
use core::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_void, cpu_set_t, pthread_attr_t, pthread_t};
use numapilot_bind::cpus::CpuMask;
use numapilot_bind::occupancy::Event;
use numapilot_syscall::futex::{self, Scope};

use crate::init;
use crate::kernel::keeping_errno;
use crate::next::{PTHREAD_CREATE, PTHREAD_SETAFFINITY, Start, StartC11, THRD_CREATE};
use crate::state::{CpuSlot, OUT_OF_RESOURCES, State};

const CREATED: u32 = 0;
const WAITING: u32 = 1;
const PLACED: u32 = 2;

/// The data that the creator passes to the new thread.
struct Cell {
    turn: AtomicU32,
    slot: CpuSlot,
    /// A [`Start`] or a [`StartC11`]; the trampoline knows which.
    start: *const c_void,
    argument: *mut c_void,
}

/// # Safety
/// As pthread_create(3).
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    // Adds the return address, which Rust does not show, as the fifth argument.
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!("mov r8, [rsp]", "jmp {}", sym create_for);
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!("mov x4, x30", "b {}", sym create_for);
}

/// # Safety
/// As pthread_create(3). `caller` is its return address.
unsafe extern "C" fn create_for(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
    caller: usize,
) -> c_int {
    let Some(next) = PTHREAD_CREATE.get() else { return OUT_OF_RESOURCES };
    let Some(state) = init::state() else {
        // SAFETY: the caller's arguments, unchanged.
        return unsafe { next(thread, attributes, start, argument) };
    };
    // SAFETY: the caller vouches for the attributes.
    let chosen = unsafe { affinity_of(attributes) };
    let create = |new: &mut pthread_t, cell| {
        // SAFETY: the caller vouches for the attributes; the trampoline takes the cell.
        unsafe { next(new, attributes, trampoline, cell) }
    };
    let chosen = chosen.filter(|mask| !state.is_openmp_place(mask, caller));
    let slot = slot_of_new(state, chosen.is_some());
    let (result, new) = create_in_slot(state, slot, start as *const c_void, argument, create);
    if result == 0 {
        // SAFETY: the caller vouches for the pointer.
        unsafe { *thread = new.id };
        new.let_go();
    }
    result
}

/// pthread_create(3) for the other libraries that the launcher preloads. The thread does not belong
/// to the program: it takes no CPU slot and may run on all CPUs of the program's threads.
///
/// # Safety
/// As pthread_create(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn numapilot_bind_create_unplaced(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    let Some(next) = PTHREAD_CREATE.get() else { return OUT_OF_RESOURCES };
    let create = |new: &mut pthread_t, start, cell| {
        // SAFETY: the caller vouches for the attributes; the trampoline takes the cell.
        unsafe { next(new, attributes, start, cell) }
    };
    let mut id = 0;
    let result = match init::state() {
        None => create(&mut id, start, argument),
        Some(state) => {
            let start = start as *const c_void;
            let create = |new: &mut pthread_t, cell| create(new, trampoline, cell);
            let (result, new) = create_in_slot(state, CpuSlot::None, start, argument, create);
            id = new.id;
            if result == 0 {
                new.let_go();
            }
            result
        }
    };
    if result == 0 {
        // SAFETY: the caller vouches for the pointer.
        unsafe { *thread = id };
    }
    result
}

/// # Safety
/// As thrd_create(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(
    thread: *mut pthread_t,
    start: StartC11,
    argument: *mut c_void,
) -> c_int {
    /// `thrd_error` of threads.h.
    const THRD_ERROR: c_int = 2;
    let Some(next) = THRD_CREATE.get() else { return THRD_ERROR };
    let Some(state) = init::state() else {
        // SAFETY: the caller's arguments, unchanged.
        return unsafe { next(thread, start, argument) };
    };
    let create = |new: &mut pthread_t, cell| {
        // SAFETY: the trampoline takes the cell.
        unsafe { next(new, trampoline_c11, cell) }
    };
    let slot = slot_of_new(state, false);
    let (result, new) = create_in_slot(state, slot, start as *const c_void, argument, create);
    if result == 0 {
        // SAFETY: the caller vouches for the pointer.
        unsafe { *thread = new.id };
        new.let_go();
    } else if result == OUT_OF_RESOURCES {
        return THRD_ERROR;
    }
    result
}

/// A created thread that waits for its creator.
struct New {
    id: pthread_t,
    cell: *mut Cell,
}

impl New {
    /// Lets the thread run. The creator must not use it afterwards, because it may end at once.
    fn let_go(self) {
        // SAFETY: the cell exists; only an address is taken.
        let turn = unsafe { &raw const (*self.cell).turn };
        // SAFETY: the new thread frees the cell only once it has seen PLACED.
        let before = unsafe { (*turn).swap(PLACED, Ordering::Release) };
        if before == WAITING {
            // The cell may be gone by now; waking uses only its address.
            futex::wake_one(turn, Scope::Process);
        }
    }
}

/// The slot of a thread that the caller creates. `has_affinity` tells whether the program has put one
/// into its attributes.
fn slot_of_new(state: &State, has_affinity: bool) -> CpuSlot {
    // A thread that is created by one that pins itself inherits that affinity, as the program
    // intended.
    if has_affinity || state.slot() == CpuSlot::ItsOwn {
        return CpuSlot::ItsOwn;
    }
    state.take_for_thread().map_or(CpuSlot::None, CpuSlot::Cpu)
}

/// Creates a thread with `create` and pins it to its slot, which is given back on failure.
fn create_in_slot(
    state: &'static State,
    slot: CpuSlot,
    start: *const c_void,
    argument: *mut c_void,
    create: impl FnOnce(&mut pthread_t, *mut c_void) -> c_int,
) -> (c_int, New) {
    // SAFETY: malloc takes any size. The C library allocates memory for a thread too, so calling an
    // allocator that creates threads is fine here.
    let cell: *mut Cell = keeping_errno(|| unsafe { libc::malloc(size_of::<Cell>()) }).cast();
    let mut new = New { id: 0, cell };
    if cell.is_null() {
        give_back(state, slot);
        return (OUT_OF_RESOURCES, new);
    }
    // SAFETY: malloc returned memory for one cell, aligned for any type.
    unsafe { cell.write(Cell { turn: AtomicU32::new(CREATED), slot, start, argument }) };
    let result = create(&mut new.id, cell.cast());
    if result != 0 {
        give_back(state, slot);
        // SAFETY: no thread was created that could have freed it.
        keeping_errno(|| unsafe { libc::free(cell.cast()) });
        return (result, new);
    }
    match slot {
        CpuSlot::Cpu(cpu) if pin(new.id, &CpuMask::single(cpu)) => {
            state.occupancy().count(Event::Placed)
        }
        CpuSlot::Cpu(cpu) => {
            state.give_back(cpu);
            state.occupancy().count(Event::Refused);
            // At least move it off its creator's CPU.
            pin(new.id, &state.mask);
            // SAFETY: the new thread reads the slot only once it has seen PLACED.
            unsafe { (*cell).slot = CpuSlot::None };
        }
        CpuSlot::ItsOwn => state.occupancy().count(Event::PinsItself),
        // It must not stay on the CPU slot of its creator.
        CpuSlot::None => {
            pin(new.id, &state.mask);
        }
    }
    (0, new)
}

fn give_back(state: &State, slot: CpuSlot) {
    if let CpuSlot::Cpu(cpu) = slot {
        state.give_back(cpu);
    }
}

fn pin(thread: pthread_t, mask: &CpuMask) -> bool {
    let words = mask.as_words();
    PTHREAD_SETAFFINITY.get().is_some_and(|set| {
        // SAFETY: the thread waits in its trampoline, so its id is valid; pointer and
        // length describe the mask, which is only read.
        keeping_errno(|| unsafe {
            set(thread, size_of_val(words), words.as_ptr().cast::<cpu_set_t>()) == 0
        })
    })
}

/// The affinity that the program has put into the attributes. Without one, glibc sets every bit of
/// the mask, whatever its length.
///
/// # Safety
/// Null, or initialised attributes.
unsafe fn affinity_of(attributes: *const pthread_attr_t) -> Option<CpuMask> {
    if attributes.is_null() {
        return None;
    }
    let mut mask = CpuMask::new();
    let words = mask.as_mut_words();
    let size = size_of_val::<[u64]>(words);
    // SAFETY: the attributes are valid by contract; pointer and length describe the mask.
    let result =
        unsafe { libc::pthread_attr_getaffinity_np(attributes, size, words.as_mut_ptr().cast()) };
    let has_one = result == 0 && words.iter().any(|word| *word != u64::MAX);
    has_one.then_some(mask)
}

extern "C" fn trampoline(cell: *mut c_void) -> *mut c_void {
    let (start, argument) = arrive(cell.cast());
    // SAFETY: pthread_create stored a Start there.
    let start: Start = unsafe { transmute(start) };
    start(argument)
}

extern "C" fn trampoline_c11(cell: *mut c_void) -> c_int {
    let (start, argument) = arrive(cell.cast());
    // SAFETY: thrd_create stored a StartC11 there.
    let start: StartC11 = unsafe { transmute(start) };
    start(argument)
}

/// Waits until the creator is done with this thread, and takes over the cell.
fn arrive(cell: *mut Cell) -> (*const c_void, *mut c_void) {
    // SAFETY: the creator wrote it and does not access it after PLACED; this thread frees it.
    let (slot, start, argument) = unsafe {
        wait(&(*cell).turn);
        ((*cell).slot, (*cell).start, (*cell).argument)
    };
    // SAFETY: allocated by malloc; neither thread uses it any more.
    keeping_errno(|| unsafe { libc::free(cell.cast()) });
    if let Some(state) = init::state() {
        state.set_slot(slot);
    }
    (start, argument)
}

fn wait(turn: &AtomicU32) {
    if turn.compare_exchange(CREATED, WAITING, Ordering::Acquire, Ordering::Acquire).is_err() {
        return;
    }
    while turn.load(Ordering::Acquire) != PLACED {
        let _ = futex::wait(turn, WAITING, Scope::Process, None);
    }
}

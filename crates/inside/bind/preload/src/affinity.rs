//! Affinity calls of the program: its own choice takes precedence, and it sees the same CPUs as
//! without this library.
//!
//! When a placed thread reads its affinity, it gets all CPUs of the process, not only the one to
//! which it is pinned: OpenMP and Java runtimes, `nproc` and thread pools derive the number of
//! threads to start from the result. A thread that sets its affinity to all CPUs keeps its CPU
//! slot. A thread that sets particular CPUs gets them and is counted; from then on the library
//! leaves it and the threads that it creates alone.

use core::ptr::{copy_nonoverlapping, write_bytes};
use core::slice;

use libc::{c_int, cpu_set_t, pid_t, pthread_t, size_t};
use numapilot_bind::cpus::CpuMask;
use numapilot_bind::occupancy::Event;
use numapilot_syscall::caller;

use crate::next::{PTHREAD_GETAFFINITY, PTHREAD_SETAFFINITY, SCHED_GETAFFINITY, SCHED_SETAFFINITY};
use crate::state::{CpuSlot, State};
use crate::{init, kernel};

/// # Safety
/// As sched_setaffinity(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_setaffinity(
    pid: pid_t,
    size: size_t,
    set: *const cpu_set_t,
) -> c_int {
    let Some(next) = SCHED_SETAFFINITY.get() else { return no_such_call() };
    // SAFETY: the caller's arguments, unchanged.
    let call = || unsafe { next(pid, size, set) };
    let whom = || match pid {
        0 => Whom::Caller,
        tid if tid == caller::thread_id() => Whom::Caller,
        tid if kernel::is_own_thread(tid) => Whom::Sibling,
        _ => Whom::Stranger,
    };
    // SAFETY: the caller vouches for the set. OpenMP runtimes call the function below.
    unsafe { set_affinity(whom, size, set, 0, call) }
}

/// # Safety
/// As pthread_setaffinity_np(3).
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setaffinity_np(
    thread: pthread_t,
    size: size_t,
    set: *const cpu_set_t,
) -> c_int {
    // Adds the return address, which Rust does not show, as the fourth argument.
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!("mov rcx, [rsp]", "jmp {}", sym set_affinity_of);
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!("mov x3, x30", "b {}", sym set_affinity_of);
}

/// # Safety
/// As pthread_setaffinity_np(3). `caller` is its return address.
unsafe extern "C" fn set_affinity_of(
    thread: pthread_t,
    size: size_t,
    set: *const cpu_set_t,
    caller: usize,
) -> c_int {
    let Some(next) = PTHREAD_SETAFFINITY.get() else { return libc::ENOSYS };
    // SAFETY: the caller's arguments, unchanged.
    let call = || unsafe { next(thread, size, set) };
    let whom = || if is_caller(thread) { Whom::Caller } else { Whom::Sibling };
    // SAFETY: the caller vouches for the set.
    unsafe { set_affinity(whom, size, set, caller, call) }
}

/// # Safety
/// As sched_getaffinity(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_getaffinity(pid: pid_t, size: size_t, set: *mut cpu_set_t) -> c_int {
    let Some(next) = SCHED_GETAFFINITY.get() else { return no_such_call() };
    // SAFETY: the caller's arguments, unchanged.
    let result = unsafe { next(pid, size, set) };
    if result == 0 && (pid == 0 || pid == caller::thread_id()) {
        // SAFETY: the call just wrote `size` bytes there.
        unsafe { widen(size, set) };
    }
    result
}

/// # Safety
/// As pthread_getaffinity_np(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getaffinity_np(
    thread: pthread_t,
    size: size_t,
    set: *mut cpu_set_t,
) -> c_int {
    let Some(next) = PTHREAD_GETAFFINITY.get() else { return libc::ENOSYS };
    // SAFETY: the caller's arguments, unchanged.
    let result = unsafe { next(thread, size, set) };
    if result == 0 && is_caller(thread) {
        // SAFETY: the call just wrote `size` bytes there.
        unsafe { widen(size, set) };
    }
    result
}

/// The thread whose affinity is set.
enum Whom {
    Caller,
    Sibling,
    Stranger,
}

/// # Safety
/// `set` is null or points to `size` bytes.
unsafe fn set_affinity(
    whom: impl FnOnce() -> Whom,
    size: size_t,
    set: *const cpu_set_t,
    caller: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let Some(state) = init::state() else { return call() };
    if set.is_null() || !state.is_here() {
        return call();
    }
    match whom() {
        Whom::Stranger => call(),
        Whom::Sibling => {
            let result = call();
            if result == 0 {
                state.occupancy().count(Event::PinsItself);
            }
            result
        }
        Whom::Caller => {
            // SAFETY: by contract.
            let wish = unsafe { read(size, set) };
            match state.slot() {
                CpuSlot::Cpu(_)
                    if wish.covers(&state.mask) || state.is_openmp_place(&wish, caller) =>
                {
                    0
                }
                slot => {
                    let result = call();
                    if result == 0 {
                        leave(state, slot);
                    }
                    result
                }
            }
        }
    }
}

/// Notes that the calling thread has set its own affinity.
fn leave(state: &State, slot: CpuSlot) {
    if slot == CpuSlot::ItsOwn {
        return;
    }
    if let CpuSlot::Cpu(cpu) = slot {
        state.unpin(cpu);
    }
    state.set_slot(CpuSlot::ItsOwn);
    state.occupancy().count(Event::PinsItself);
    if state.is_main_thread() {
        state.register(CpuSlot::ItsOwn);
    }
}

/// Replaces the one CPU of a placed caller by all CPUs of the process.
///
/// # Safety
/// `set` points to `size` bytes.
unsafe fn widen(size: size_t, set: *mut cpu_set_t) {
    let Some(state) = init::state() else { return };
    // SAFETY: by contract.
    let answer = unsafe { read(size, set) };
    let (CpuSlot::Cpu(cpu), Some(only)) = (state.slot(), answer.only()) else { return };
    if cpu != only {
        return;
    }
    let words = state.mask.as_words();
    let bytes = size.min(size_of_val(words));
    // SAFETY: both buffers have that many bytes and do not overlap. The rest is zeroed, as in the C
    // library.
    unsafe {
        write_bytes(set.cast::<u8>(), 0, size);
        copy_nonoverlapping(words.as_ptr().cast::<u8>(), set.cast::<u8>(), bytes);
    }
}

/// # Safety
/// `set` points to `size` bytes.
unsafe fn read(size: size_t, set: *const cpu_set_t) -> CpuMask {
    let mut mask = CpuMask::new();
    let words = mask.as_mut_words();
    let bytes = size.min(size_of_val::<[u64]>(words));
    // SAFETY: by contract.
    let given = unsafe { slice::from_raw_parts(set.cast::<u8>(), bytes) };
    for (word, chunk) in words.iter_mut().zip(given.chunks(8)) {
        let mut padded = [0u8; 8];
        padded.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        *word = u64::from_ne_bytes(padded);
    }
    mask
}

fn is_caller(thread: pthread_t) -> bool {
    // SAFETY: pthread_self cannot fail.
    thread == unsafe { libc::pthread_self() }
}

/// The result of a function that the C library lacks.
pub fn no_such_call() -> c_int {
    // SAFETY: the location is valid for the calling thread.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

//! Processes of a target: loading, `fork`, `exec`, the end.
//!
//! A forked child takes a CPU of its own at once, because the servers that fork one process
//! per connection (PostgreSQL) are the ones to spread; that a shell's short-lived helpers
//! move as well costs them one system call. `exec` keeps process and CPU: the occupancy table
//! remembers both. A child made by `vfork` or `posix_spawn` runs in its parent's memory or
//! without a fork handler until it calls `exec`; the new program then finds the process
//! unknown and takes a CPU.

use core::ffi::{CStr, c_void};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::Relaxed;

use numapilot_bind::occupancy::{Event, FILE_BYTES, Holds, OccupancyTable};

use crate::kernel;
use crate::state::{self, CpuSlot, State};

/// Maps the occupancy table; without a usable file one that is shared with forked children only.
/// `None` when not even that can be had.
pub fn map_occupancy_table(path: Option<&CStr>) -> Option<&'static OccupancyTable> {
    let file = path.and_then(|path| map_file(path, FILE_BYTES));
    let start = file.or_else(|| map(-1, FILE_BYTES, libc::MAP_ANONYMOUS))?;
    // SAFETY: page aligned, as long as an OccupancyTable, never unmapped, and any bytes are a valid
    // OccupancyTable, whose fields are all atomics.
    Some(unsafe { start.cast().as_ref() })
}

/// Maps a file of the launcher's: regular, of our user, long enough, and not behind a link. It
/// stays mapped.
pub fn map_file(path: &CStr, bytes: usize) -> Option<NonNull<c_void>> {
    // SAFETY: the path is a C string.
    let file =
        unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_NOFOLLOW | libc::O_CLOEXEC) };
    if file < 0 {
        return None;
    }
    // SAFETY: a zeroed stat is a valid value of a struct of integers.
    let mut about: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the file is open and `about` outlives the call.
    let known = unsafe { libc::fstat(file, &raw mut about) } == 0;
    // SAFETY: takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    let usable = known
        && about.st_mode & libc::S_IFMT == libc::S_IFREG
        && about.st_uid == user
        && usize::try_from(about.st_size).is_ok_and(|size| size >= bytes);
    let start = if usable { map(file, bytes, 0) } else { None };
    // SAFETY: opened above and used by nobody else; the mapping does not need it.
    unsafe { libc::close(file) };
    start
}

fn map(file: i32, bytes: usize, flags: i32) -> Option<NonNull<c_void>> {
    // SAFETY: a new mapping where the kernel likes aliases nothing.
    let start = unsafe {
        libc::mmap(
            null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | flags,
            file,
            0,
        )
    };
    if start == libc::MAP_FAILED { None } else { NonNull::new(start) }
}

/// Removes the CPUs from the list that this process may not use (a cpuset, or an affinity
/// that was there before us). An affinity of one CPU of ours was inherited from the placed
/// thread that started this process, and does not count.
pub fn keep_usable_cpus(state: &mut State) {
    let Some(affinity) = kernel::affinity() else { return };
    let inherited = affinity.only().is_some_and(|cpu| state.cpus.as_slice().contains(&cpu));
    let keeps_its_own = matches!(state.occupancy().holds(state.pid()), Some(Holds::ItsOwn));
    if !inherited && !keeps_its_own {
        state.cpus.retain(&affinity);
    }
}

/// Places the main thread of a program that was just loaded.
pub fn place_main_thread(state: &State) {
    state.occupancy().clear_dead(kernel::is_alive);
    let slot = match state.occupancy().holds(state.pid()) {
        // The same process before an exec.
        Some(Holds::ItsOwn) if !is_free(state) => CpuSlot::ItsOwn,
        Some(Holds::Cpu(cpu)) if returns_to(state, cpu) => CpuSlot::Cpu(cpu),
        known => {
            if known.is_some() {
                state.occupancy().forget(state.pid());
            }
            slot_of_new_process(state)
        }
    };
    state.set_slot(slot);
    state.register(slot);
}

/// A child of a program that pins itself has its parent's affinity, as the program meant.
fn slot_of_new_process(state: &State) -> CpuSlot {
    // SAFETY: takes nothing and cannot fail.
    let parent = unsafe { libc::getppid() }.unsigned_abs();
    if state.occupancy().holds(parent) == Some(Holds::ItsOwn) && !is_free(state) {
        state.occupancy().count(Event::PinsItself);
        return CpuSlot::ItsOwn;
    }
    state.pin_main_thread()
}

/// Whether the main thread may run everywhere, so that nobody can have pinned it.
fn is_free(state: &State) -> bool {
    kernel::affinity().is_none_or(|affinity| affinity.covers(&state.mask))
}

fn returns_to(state: &State, cpu: u16) -> bool {
    state.cpus.as_slice().contains(&cpu)
        && (kernel::affinity().and_then(|affinity| affinity.only()) == Some(cpu)
            || kernel::set_affinity(&numapilot_bind::cpus::CpuMask::single(cpu)))
}

/// The process ends by exit(3); what ends it otherwise is cleared by later processes.
pub fn release(state: &State) {
    if state.is_here() {
        state.give_back_all();
        state.occupancy().forget(state.pid());
    }
}

/// Has [`forked`] called in every child of fork(2).
pub fn watch_forks() {
    // SAFETY: the handler has the signature it must have. Without memory for it, children
    // stay where their parent is.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
}

/// In the child of a fork, on its only thread.
extern "C" fn forked() {
    let Some(state) = state::ready() else { return };
    kernel::keeping_errno(|| {
        state.pid.store(kernel::getpid(), Relaxed);
        state.forget_threads();
        // A dead process had the same number.
        state.occupancy().forget(state.pid());
        state.occupancy().clear_dead(kernel::is_alive);
        let slot = match state.slot() {
            CpuSlot::ItsOwn => {
                state.occupancy().count(Event::PinsItself);
                CpuSlot::ItsOwn
            }
            _ => state.pin_main_thread(),
        };
        state.set_slot(slot);
        state.register(slot);
    });
}

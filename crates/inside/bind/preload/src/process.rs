//! Processes of a target: loading, `fork`, `exec` and exit.
//!
//! A forked child takes a CPU of its own at once, because servers that fork a process for each
//! connection (PostgreSQL) have to be spread. The short-lived children of a shell move too, which
//! costs them one system call. `exec` keeps the process, and with it its CPU in the occupancy table.
//! A child of `vfork` or `posix_spawn` runs in its parent's memory, or without a fork handler,
//! until it calls `exec`; the new program then finds that the process is unknown and takes a CPU.

use core::ffi::{CStr, c_void};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::Relaxed;

use numapilot_bind::occupancy::{Event, FILE_BYTES, Holds, OccupancyTable};
use numapilot_syscall::caller;

use crate::kernel;
use crate::state::{self, CpuSlot, State};

/// Maps the occupancy table. Without a usable file, maps one that is shared with forked children
/// only. Returns `None` if that fails too.
pub fn map_occupancy_table(path: Option<&CStr>) -> Option<&'static OccupancyTable> {
    let file = path.and_then(|path| map_file(path, FILE_BYTES));
    let start = file.or_else(|| map(-1, FILE_BYTES, libc::MAP_ANONYMOUS))?;
    // SAFETY: page aligned, as long as an OccupancyTable and never unmapped. Any bytes are a valid
    // OccupancyTable, whose fields are all atomics.
    Some(unsafe { start.cast().as_ref() })
}

/// Maps a file of the launcher. It must be a regular file of this user, long enough, and not a
/// symbolic link. It stays mapped.
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
    // SAFETY: takes no argument and cannot fail.
    let user = unsafe { libc::geteuid() };
    let usable = known
        && about.st_mode & libc::S_IFMT == libc::S_IFREG
        && about.st_uid == user
        && usize::try_from(about.st_size).is_ok_and(|size| size >= bytes);
    let start = if usable { map(file, bytes, 0) } else { None };
    // SAFETY: opened above and not used elsewhere; the mapping does not need it.
    unsafe { libc::close(file) };
    start
}

fn map(file: i32, bytes: usize, flags: i32) -> Option<NonNull<c_void>> {
    // SAFETY: a new mapping at an address that the kernel chooses aliases nothing.
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

/// Removes from the list the CPUs that this process may not use because of its cpuset or an
/// affinity that it had from the start. An affinity of one CPU of the list was inherited from the
/// placed thread that started this process, so it is ignored.
pub fn keep_usable_cpus(state: &mut State) {
    let Some(affinity) = kernel::affinity() else { return };
    let inherited = affinity.only().is_some_and(|cpu| state.cpus.as_slice().contains(&cpu));
    let keeps_its_own = matches!(state.occupancy().holds(state.pid()), Some(Holds::ItsOwn));
    if !inherited && !keeps_its_own {
        state.cpus.retain(&affinity);
    }
}

/// Places the main thread of a program that has just been loaded.
pub fn place_main_thread(state: &State) {
    state.occupancy().clear_dead(kernel::is_alive);
    let slot = match state.occupancy().holds(state.pid()) {
        // This process registered before an exec.
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

/// A child of a program that pins itself keeps its parent's affinity, as the program intended.
fn slot_of_new_process(state: &State) -> CpuSlot {
    // SAFETY: takes no argument and cannot fail.
    let parent = unsafe { libc::getppid() }.unsigned_abs();
    if state.occupancy().holds(parent) == Some(Holds::ItsOwn) && !is_free(state) {
        state.occupancy().count(Event::PinsItself);
        return CpuSlot::ItsOwn;
    }
    state.pin_main_thread()
}

/// Whether the main thread may run on all CPUs, so it is not pinned.
fn is_free(state: &State) -> bool {
    kernel::affinity().is_none_or(|affinity| affinity.covers(&state.mask))
}

fn returns_to(state: &State, cpu: u16) -> bool {
    state.cpus.as_slice().contains(&cpu)
        && (kernel::affinity().and_then(|affinity| affinity.only()) == Some(cpu)
            || kernel::set_affinity(&numapilot_bind::cpus::CpuMask::single(cpu)))
}

/// Releases the CPUs of a process that ends with exit(3). Later processes clean up after one that
/// ends otherwise.
pub fn release(state: &State) {
    if state.is_here() {
        state.give_back_all();
        state.occupancy().forget(state.pid());
    }
}

/// Registers [`forked`] to be called in every child of fork(2).
pub fn watch_forks() {
    // SAFETY: the handler has the required signature. If there is no memory for it, children stay
    // on their parent's CPU.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
}

/// Runs in the child of a fork, on its only thread.
extern "C" fn forked() {
    let Some(state) = state::ready() else { return };
    kernel::keeping_errno(|| {
        state.pid.store(caller::process_id(), Relaxed);
        state.forget_threads();
        // A dead process had the same id.
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

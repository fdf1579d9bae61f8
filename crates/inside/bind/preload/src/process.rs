//! Processes of a target: loading, `fork`, `exec`, the end.
//!
//! A forked child takes a CPU of its own at once, because the servers that fork one process
//! per connection (PostgreSQL) are the ones to spread; that a shell's short-lived helpers
//! move as well costs them one system call. `exec` keeps process and CPU: the ledger
//! remembers both. A child made by `vfork` or `posix_spawn` runs in its parent's memory or
//! without a fork handler until it calls `exec`; the new program then finds the process
//! unknown and takes a CPU.

use core::ffi::{CStr, c_void};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::Relaxed;

use numapilot_bind::ledger::{Event, FILE_BYTES, Holds, Ledger};

use crate::kernel;
use crate::state::{self, Seat, State};

/// Maps the ledger; without a usable file one that is shared with forked children only.
/// `None` when not even that can be had.
pub fn map_ledger(path: Option<&CStr>) -> Option<&'static Ledger> {
    let file = path.and_then(|path| map_file(path, FILE_BYTES));
    let start = file.or_else(|| map(-1, FILE_BYTES, libc::MAP_ANONYMOUS))?;
    // SAFETY: page aligned, as long as a Ledger, never unmapped, and any bytes are a valid
    // Ledger, whose fields are all atomics.
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

/// Takes the CPUs out of the list that this process may not use (a cpuset, or an affinity
/// that was there before us). An affinity of one CPU of ours was inherited from the placed
/// thread that started this process, and does not count.
pub fn narrow(state: &mut State) {
    let Some(affinity) = kernel::affinity() else { return };
    let inherited = affinity.only().is_some_and(|cpu| state.cpus.as_slice().contains(&cpu));
    let keeps_its_own = matches!(state.ledger().holds(state.pid()), Some(Holds::ItsOwn));
    if !inherited && !keeps_its_own {
        state.cpus.retain(&affinity);
    }
}

/// Places the main thread of a program that was just loaded.
pub fn begins(state: &State) {
    state.ledger().clear_dead(kernel::is_alive);
    let seat = match state.ledger().holds(state.pid()) {
        // The same process before an exec.
        Some(Holds::ItsOwn) if !is_free(state) => Seat::ItsOwn,
        Some(Holds::Cpu(cpu)) if returns_to(state, cpu) => Seat::Cpu(cpu),
        known => {
            if known.is_some() {
                state.ledger().forget(state.pid());
            }
            newcomer(state)
        }
    };
    state.set_seat(seat);
    state.register(seat);
}

/// A child of a program that pins itself has its parent's affinity, as the program meant.
fn newcomer(state: &State) -> Seat {
    // SAFETY: takes nothing and cannot fail.
    let parent = unsafe { libc::getppid() }.unsigned_abs();
    if state.ledger().holds(parent) == Some(Holds::ItsOwn) && !is_free(state) {
        state.ledger().count(Event::PinsItself);
        return Seat::ItsOwn;
    }
    state.sit_down()
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
pub fn ends(state: &State) {
    if state.is_here() {
        state.give_back_all();
        state.ledger().forget(state.pid());
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
    let Some(state) = state::get() else { return };
    kernel::keeping_errno(|| {
        state.pid.store(kernel::getpid(), Relaxed);
        state.forget_threads();
        // A dead process had the same number.
        state.ledger().forget(state.pid());
        state.ledger().clear_dead(kernel::is_alive);
        let seat = match state.seat() {
            Seat::ItsOwn => {
                state.ledger().count(Event::PinsItself);
                Seat::ItsOwn
            }
            _ => state.sit_down(),
        };
        state.set_seat(seat);
        state.register(seat);
    });
}

//! The `exec` family and `posix_spawn`: a program that replaces a placed one may use all CPUs.
//!
//! The affinity of a thread survives `exec`. If the new program loads this library, it is placed
//! again before its `main` function. If it does not (it is statically linked, or its environment was
//! emptied), it would count one CPU and start one thread. So the thread may use all CPUs of the
//! target while it becomes another program, or creates the process that does.
//!
//! `execl`, `execlp` and `execle` take a variable number of arguments, which Rust cannot pass on.
//! Their programs, and those of raw system calls, are widened from outside.

use libc::{c_char, c_int, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};
use numapilot_bind::cpus::CpuMask;

use crate::affinity::no_such_call;
use crate::kernel::{affinity, set_affinity};
use crate::next::{
    EXECV, EXECVE, EXECVEAT, EXECVP, EXECVPE, FEXECVE, POSIX_SPAWN, POSIX_SPAWNP, Strings,
};
use crate::state::{CpuSlot, ready};

/// # Safety
/// As execve(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, argv: Strings, env: Strings) -> c_int {
    let Some(next) = EXECVE.get() else { return no_such_call() };
    // SAFETY: the caller's arguments, unchanged.
    on_all_cpus(|| unsafe { next(path, argv, env) })
}

/// # Safety
/// As execveat(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execveat(
    directory: c_int,
    path: *const c_char,
    argv: Strings,
    env: Strings,
    flags: c_int,
) -> c_int {
    let Some(next) = EXECVEAT.get() else { return no_such_call() };
    // SAFETY: the caller's arguments, unchanged.
    on_all_cpus(|| unsafe { next(directory, path, argv, env, flags) })
}

/// # Safety
/// As fexecve(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(file: c_int, argv: Strings, env: Strings) -> c_int {
    let Some(next) = FEXECVE.get() else { return no_such_call() };
    // SAFETY: the caller's arguments, unchanged.
    on_all_cpus(|| unsafe { next(file, argv, env) })
}

/// # Safety
/// As execv(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, argv: Strings) -> c_int {
    let Some(next) = EXECV.get() else { return no_such_call() };
    // SAFETY: the caller's arguments, unchanged.
    on_all_cpus(|| unsafe { next(path, argv) })
}

/// # Safety
/// As execvp(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, argv: Strings) -> c_int {
    let Some(next) = EXECVP.get() else { return no_such_call() };
    // SAFETY: the caller's arguments, unchanged.
    on_all_cpus(|| unsafe { next(file, argv) })
}

/// # Safety
/// As execvpe(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(file: *const c_char, argv: Strings, env: Strings) -> c_int {
    let Some(next) = EXECVPE.get() else { return no_such_call() };
    // SAFETY: the caller's arguments, unchanged.
    on_all_cpus(|| unsafe { next(file, argv, env) })
}

/// # Safety
/// As posix_spawn(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    argv: Strings,
    env: Strings,
) -> c_int {
    let Some(next) = POSIX_SPAWN.get() else { return libc::ENOSYS };
    // SAFETY: the caller's arguments, unchanged.
    on_all_cpus(|| unsafe { next(pid, path, actions, attributes, argv, env) })
}

/// # Safety
/// As posix_spawnp(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    argv: Strings,
    env: Strings,
) -> c_int {
    let Some(next) = POSIX_SPAWNP.get() else { return libc::ENOSYS };
    // SAFETY: the caller's arguments, unchanged.
    on_all_cpus(|| unsafe { next(pid, file, actions, attributes, argv, env) })
}

/// Runs `call` while the calling thread may use all CPUs of the target, and pins it again if the
/// call returns. A thread whose affinity the program has set keeps it. It may run in a child of
/// `vfork`, so it changes no memory that the parent uses, and no `errno`.
fn on_all_cpus(call: impl FnOnce() -> c_int) -> c_int {
    let Some(state) = ready() else { return call() };
    let CpuSlot::Cpu(cpu) = state.slot() else { return call() };
    // A child of `vfork` that has set its affinity has the slot of its parent.
    if affinity().is_none_or(|affinity| affinity.only() != Some(cpu)) {
        return call();
    }
    set_affinity(&state.mask);
    let result = call();
    set_affinity(&CpuMask::single(cpu));
    result
}

//! The functions that this library interposes: the next definition in load order, which dlsym(3)
//! finds with `RTLD_NEXT` (the newest version if a symbol has several).
//!
//! Only `RTLD_NEXT` is used. Since glibc 2.34 the functions of `libpthread.so` are in libc, so a
//! library that opens `libpthread.so` by name finds a stub and ends up calling itself.

use core::ffi::CStr;
use core::mem::transmute_copy;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use libc::{
    c_char, c_int, c_void, cpu_set_t, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t,
    pthread_attr_t, pthread_t, size_t,
};

use crate::kernel::keeping_errno;

/// `start_routine` of pthread_create(3).
pub type Start = extern "C" fn(*mut c_void) -> *mut c_void;
/// `func` of thrd_create(3).
pub type StartC11 = extern "C" fn(*mut c_void) -> c_int;

/// `argv` and `envp` of execve(2).
pub type Strings = *const *const c_char;

type PthreadCreate =
    unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, Start, *mut c_void) -> c_int;
type ThrdCreate = unsafe extern "C" fn(*mut pthread_t, StartC11, *mut c_void) -> c_int;
type SchedSet = unsafe extern "C" fn(pid_t, size_t, *const cpu_set_t) -> c_int;
type SchedGet = unsafe extern "C" fn(pid_t, size_t, *mut cpu_set_t) -> c_int;
type ThreadSet = unsafe extern "C" fn(pthread_t, size_t, *const cpu_set_t) -> c_int;
type ThreadGet = unsafe extern "C" fn(pthread_t, size_t, *mut cpu_set_t) -> c_int;
type Exec = unsafe extern "C" fn(*const c_char, Strings) -> c_int;
type ExecWith = unsafe extern "C" fn(*const c_char, Strings, Strings) -> c_int;
type ExecOpen = unsafe extern "C" fn(c_int, Strings, Strings) -> c_int;
type ExecAt = unsafe extern "C" fn(c_int, *const c_char, Strings, Strings, c_int) -> c_int;
type Spawn = unsafe extern "C" fn(
    *mut pid_t,
    *const c_char,
    *const posix_spawn_file_actions_t,
    *const posix_spawnattr_t,
    Strings,
    Strings,
) -> c_int;

/// A function that is looked up once: when the library is loaded, or at an earlier first use.
pub struct Next<F> {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
    signature: core::marker::PhantomData<F>,
}

impl<F> Next<F> {
    const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(null_mut()), signature: core::marker::PhantomData }
    }

    /// The function, or `None` if the C library has no function of this name.
    pub fn get(&self) -> Option<F> {
        let mut found = self.found.load(Relaxed);
        if found.is_null() {
            // SAFETY: the name is a C string, which is all that dlsym requires.
            found = keeping_errno(|| unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) });
            self.found.store(found, Relaxed);
        }
        // SAFETY: F is the function pointer type of this name (see the statics below), which on
        // Linux has the size of a data pointer.
        (!found.is_null()).then(|| unsafe { transmute_copy(&found) })
    }
}

/// Looks up all of them. The loader's lock can be taken while this library is loaded. Later, a
/// thread that runs constructors may hold the lock and wait for the calling thread.
pub fn find_all() {
    PTHREAD_CREATE.get();
    THRD_CREATE.get();
    SCHED_SETAFFINITY.get();
    SCHED_GETAFFINITY.get();
    PTHREAD_SETAFFINITY.get();
    PTHREAD_GETAFFINITY.get();
    EXECVE.get();
    EXECVEAT.get();
    FEXECVE.get();
    EXECV.get();
    EXECVP.get();
    EXECVPE.get();
    POSIX_SPAWN.get();
    POSIX_SPAWNP.get();
}

/// See pthread_create(3).
pub static PTHREAD_CREATE: Next<PthreadCreate> = Next::new(c"pthread_create");
/// See thrd_create(3).
pub static THRD_CREATE: Next<ThrdCreate> = Next::new(c"thrd_create");
/// See sched_setaffinity(2).
pub static SCHED_SETAFFINITY: Next<SchedSet> = Next::new(c"sched_setaffinity");
/// See sched_getaffinity(2).
pub static SCHED_GETAFFINITY: Next<SchedGet> = Next::new(c"sched_getaffinity");
/// See pthread_setaffinity_np(3).
pub static PTHREAD_SETAFFINITY: Next<ThreadSet> = Next::new(c"pthread_setaffinity_np");
/// See pthread_getaffinity_np(3).
pub static PTHREAD_GETAFFINITY: Next<ThreadGet> = Next::new(c"pthread_getaffinity_np");
/// See execve(2).
pub static EXECVE: Next<ExecWith> = Next::new(c"execve");
/// See execveat(2).
pub static EXECVEAT: Next<ExecAt> = Next::new(c"execveat");
/// See fexecve(3).
pub static FEXECVE: Next<ExecOpen> = Next::new(c"fexecve");
/// See execv(3).
pub static EXECV: Next<Exec> = Next::new(c"execv");
/// See execvp(3).
pub static EXECVP: Next<Exec> = Next::new(c"execvp");
/// See execvpe(3).
pub static EXECVPE: Next<ExecWith> = Next::new(c"execvpe");
/// See posix_spawn(3).
pub static POSIX_SPAWN: Next<Spawn> = Next::new(c"posix_spawn");
/// See posix_spawnp(3).
pub static POSIX_SPAWNP: Next<Spawn> = Next::new(c"posix_spawnp");

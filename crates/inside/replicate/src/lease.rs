//! A read lease on a file, and a thread that waits for its end. The kernel promises to notify the
//! holder before another program writes to the file.
//!
//! Source: fcntl(2), F_SETLEASE. A program that opens the file for writing, or truncates it, waits
//! until the lease is given back (at most /proc/sys/fs/lease-break-time). The kernel notifies by
//! SIGIO. It goes to the waiting thread alone, which blocks it and waits for it, so that it does
//! not interfere with the program's own signals.

use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

use numapilot_bind::address_of;

use crate::error::Error;
use numapilot_syscall::file::File;
use numapilot_syscall::{Refused, call, caller};

const F_SETLEASE: c_int = 1024;
const F_GETLEASE: c_int = 1025;
const F_SETOWN_EX: c_int = 15;
const F_OWNER_TID: c_int = 0;

/// A lease, and a function to call when it ends. It does not move after [`Lease::take`].
pub struct Lease {
    file: File,
    ends: fn(NonNull<c_void>),
    /// Passed to `ends`.
    argument: NonNull<c_void>,
    thread: UnsafeCell<MaybeUninit<libc::pthread_t>>,
    /// Posted when the thread knows whether it has a lease, and when it may continue.
    taken: UnsafeCell<MaybeUninit<libc::sem_t>>,
    ready: UnsafeCell<MaybeUninit<libc::sem_t>>,
    errno: AtomicI32,
    stop: AtomicBool,
    process: libc::pid_t,
}

global_asm!(".weak numapilot_bind_create_unplaced");

/// pthread_create(3).
type Create = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    extern "C" fn(*mut c_void) -> *mut c_void,
    *mut c_void,
) -> c_int;

/// libnumapilot_bind's function, where it is loaded: it creates a thread that occupies no CPU slot.
fn create() -> Create {
    match address_of!("numapilot_bind_create_unplaced") {
        0 => libc::pthread_create,
        // SAFETY: that library's function has this name and signature.
        address => unsafe { core::mem::transmute::<usize, Create>(address) },
    }
}

impl Lease {
    /// A value without a lease. `ends` is called with `argument` on its own thread.
    pub fn new(file: File, argument: NonNull<c_void>, ends: fn(NonNull<c_void>)) -> Self {
        Self {
            file,
            ends,
            argument,
            thread: UnsafeCell::new(MaybeUninit::uninit()),
            taken: UnsafeCell::new(MaybeUninit::uninit()),
            ready: UnsafeCell::new(MaybeUninit::uninit()),
            errno: AtomicI32::new(0),
            stop: AtomicBool::new(false),
            // SAFETY: takes nothing and cannot fail.
            process: unsafe { libc::getpid() },
        }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Takes the lease. `ends` is not called before [`Lease::watch`].
    ///
    /// # Errors
    /// [`Error::NoThread`], [`Error::Written`], [`Error::NoLease`].
    ///
    /// # Safety
    /// `lease` does not move until [`Lease::give_back`], which must be called if this succeeds. No
    /// other call takes the same lease.
    pub unsafe fn take(lease: NonNull<Self>) -> Result<(), Error> {
        // SAFETY: by contract.
        let this = unsafe { lease.as_ref() };
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: each value is initialised by the call before its use. The thread inherits a mask
        // that blocks every signal, and the caller's mask is restored at once.
        let made = unsafe {
            libc::sem_init((*this.taken.get()).as_mut_ptr(), 0, 0);
            libc::sem_init((*this.ready.get()).as_mut_ptr(), 0, 0);
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            let thread = (*this.thread.get()).as_mut_ptr();
            let made = create()(thread, core::ptr::null(), run, lease.as_ptr().cast());
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
            made
        };
        if made != 0 {
            return Err(Error::NoThread { errno: made });
        }
        wait(&this.taken);
        let refused = match this.errno.load(SeqCst) {
            0 => return Ok(()),
            libc::EAGAIN => Error::Written,
            errno => Error::NoLease { errno },
        };
        this.join();
        Err(refused)
    }

    /// From now on `ends` is called when the lease ends, or at once if it already has.
    pub fn watch(&self) {
        post(&self.ready);
    }

    /// Gives the lease back and ends the thread. Does nothing in the child of a fork, which has no
    /// such thread.
    pub fn give_back(&self) {
        if caller::process_id() != self.process {
            return;
        }
        self.stop.store(true, SeqCst);
        post(&self.ready);
        // SAFETY: the thread was created and has not been joined.
        unsafe { libc::pthread_kill((*self.thread.get()).assume_init(), libc::SIGIO) };
        self.join();
    }

    fn join(&self) {
        // SAFETY: the thread was created, and is joined once.
        unsafe { libc::pthread_join((*self.thread.get()).assume_init(), null_mut()) };
    }

    fn fcntl(&self, command: c_int, argument: usize) -> Result<c_int, c_int> {
        let arguments = [self.file.descriptor() as usize, command as usize, argument, 0, 0, 0];
        // SAFETY: the commands used take a number or a structure that outlives the call.
        let result = unsafe { call(libc::SYS_fcntl, arguments) };
        result.map(|value| value as c_int).map_err(|Refused(errno)| errno)
    }

    /// The body of the thread.
    fn keep(&self) {
        // Choose the receiver of SIGIO before one can arrive: by default it is the whole process,
        // which a SIGIO ends.
        let owner = [F_OWNER_TID, caller::thread_id()];
        let taken = self
            .fcntl(F_SETOWN_EX, owner.as_ptr() as usize)
            .and_then(|_| self.fcntl(F_SETLEASE, libc::F_RDLCK as usize));
        self.errno.store(taken.err().unwrap_or(0), SeqCst);
        post(&self.taken);
        if taken.is_err() {
            return;
        }
        wait(&self.ready);
        // Check before the first wait, too: the lease may already have ended.
        while !self.stop.load(SeqCst) {
            if self.fcntl(F_GETLEASE, 0) != Ok(libc::F_RDLCK) {
                (self.ends)(self.argument);
                let _ = self.fcntl(F_SETLEASE, libc::F_UNLCK as usize);
                return;
            }
            wait_for_sigio();
        }
        let _ = self.fcntl(F_SETLEASE, libc::F_UNLCK as usize);
    }
}

extern "C" fn run(lease: *mut c_void) -> *mut c_void {
    // SAFETY: by the contract of `take`, live until the thread is joined.
    unsafe { &*lease.cast::<Lease>() }.keep();
    null_mut()
}

fn wait_for_sigio() {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    let mut signal = 0;
    // SAFETY: the set is initialised by the first call. An early return does no harm.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGIO);
        libc::sigwait(set.as_ptr(), &raw mut signal);
    }
}

fn wait(semaphore: &UnsafeCell<MaybeUninit<libc::sem_t>>) {
    // SAFETY: initialised by `take`; semaphores are made to be shared.
    while unsafe { libc::sem_wait((*semaphore.get()).as_mut_ptr()) } != 0 {}
}

fn post(semaphore: &UnsafeCell<MaybeUninit<libc::sem_t>>) {
    // SAFETY: as above.
    unsafe { libc::sem_post((*semaphore.get()).as_mut_ptr()) };
}

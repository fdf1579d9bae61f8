//! A thread that carries out requests from the launcher: see `numapilot_bind::agent`. It sleeps
//! until a request arrives, blocks all signals, and takes no CPU slot from the program's threads.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Acquire, Ordering::Release};

use numapilot_bind::agent::{Action, Request, Requests, WORDS};
use numapilot_bind::env::AGENT;
use numapilot_syscall::policy::{self, Mode};
use numapilot_syscall::{Refused, call, caller};

use crate::create::numapilot_bind_create_unplaced;
use crate::env::{complain, variable};
use crate::kernel;
use crate::process::map_file;

/// Room for the exit handlers of the program, which run on this stack if all other threads have
/// ended.
const STACK: usize = 256 << 10;
/// Interval at which the thread checks whether all other threads have ended.
const CHECK_SECONDS: u32 = 1;

static WORDS_AT: AtomicPtr<[AtomicU64; WORDS]> = AtomicPtr::new(null_mut());

/// Starts the agent if the launcher requested one, here and in every child of fork(2).
pub fn start_if_wanted() {
    let Some(path) = variable(AGENT) else { return };
    let Some(start) = map_file(path, size_of::<[AtomicU64; WORDS]>()) else {
        complain(&[AGENT, ": this file cannot be used; memory is not spread from outside\n"]);
        return;
    };
    WORDS_AT.store(start.as_ptr().cast(), Release);
    // SAFETY: the handler has the required signature. If there is no memory for it, children have
    // no agent.
    unsafe { libc::pthread_atfork(None, None, Some(start_thread)) };
    start_thread();
}

/// Starts the thread, which sees all requests from now on. If it cannot be created, only the
/// launcher is affected.
extern "C" fn start_thread() {
    let Some(requests) = requests() else { return };
    let seen = requests.round() as usize as *mut c_void;
    kernel::keeping_errno(|| {
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
        // SAFETY: each value is initialised by a call before its use. The attributes are used for
        // one thread, whose argument is a number and whose function lives as long as the process.
        // The signal mask is restored at once.
        unsafe {
            if libc::pthread_attr_init(attributes.as_mut_ptr()) != 0 {
                return;
            }
            libc::pthread_attr_setdetachstate(
                attributes.as_mut_ptr(),
                libc::PTHREAD_CREATE_DETACHED,
            );
            libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK);
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            numapilot_bind_create_unplaced(thread.as_mut_ptr(), attributes.as_ptr(), run, seen);
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
        }
    });
}

fn requests() -> Option<Requests<'static>> {
    // SAFETY: null, or mapped for the life of the process and page aligned; any bytes are valid
    // atomics.
    let words: &'static [AtomicU64; WORDS] = unsafe { WORDS_AT.load(Acquire).as_ref() }?;
    Requests::within(words)
}

/// Carries out requests. It returns if it cannot wait without using a CPU, and if all other threads
/// have ended: the program's main thread may have called pthread_exit(3), and the process must end
/// with its last thread. It allocates nothing.
extern "C" fn run(seen: *mut c_void) -> *mut c_void {
    let Some(requests) = requests() else { return null_mut() };
    // SAFETY: a C string of at most 15 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"numapilot-agent".as_ptr()) };
    let mut seen = seen as usize as u32;
    while kernel::wait_while(requests.bell(), seen, CHECK_SECONDS) {
        let round = requests.round();
        if round == seen {
            if kernel::is_only_thread() {
                break;
            }
            continue;
        }
        seen = round;
        if let Some(request) = requests.read(round, caller::process_id().unsigned_abs()) {
            requests.answer(round, carry_out(&request));
        }
    }
    null_mut()
}

/// Carries a request out. Returns the errno.
fn carry_out(request: &Request) -> u32 {
    let (start, bytes) = (request.start as usize, request.bytes as usize);
    let mode = match request.nodes.iter().all(|word| *word == 0) {
        true => Mode::Default,
        false => Mode::Interleave,
    };
    let done = match request.action {
        Action::Spread => policy::set_of_range(start, bytes, mode, &request.nodes, false),
        Action::NoHugePages => no_huge_pages(start, bytes),
    };
    match done {
        Ok(()) => 0,
        Err(Refused(errno)) => errno.unsigned_abs(),
    }
}

/// Forbids huge pages in a range. Those that are there stay until they are split.
fn no_huge_pages(start: usize, bytes: usize) -> Result<(), Refused> {
    let advice = libc::MADV_NOHUGEPAGE as usize;
    // SAFETY: this advice changes how the kernel maps the range, not its contents; a range that is
    // not mapped is refused.
    unsafe { call(libc::SYS_madvise, [start, bytes, advice, 0, 0, 0]) }.map(drop)
}

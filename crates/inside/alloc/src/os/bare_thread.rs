//! Threads that the C library does not know.
//!
//! A caller of malloc or free may hold a lock of the C library, and pthread_create(3) takes some of
//! them. One is the lock of its stacks, which an ending thread holds while it frees them. So these
//! threads are created by clone(2) itself, on memory of their own:
//!
//! ```text
//!  | inaccessible | stack: 128 KiB <--| zeroes: 8 KiB | thread pointer | zeroes: 8 KiB |
//! ```
//!
//! No thread joins them or waits for them, and no signal reaches them. They do not keep the process
//! alive, and end with it. They have no thread-local storage, so code that runs on one may call
//! neither the allocator nor a function of the C library that sets `errno`. If compiled C code
//! nevertheless accesses memory relative to the thread pointer, it finds zeroes.
//!
//! The kernel keeps track of them. It writes the thread's number when it creates one, and zero when
//! the thread has left its stack (CLONE_CHILD_CLEARTID). It also does so when the thread belongs to
//! a child that shares our memory (vfork(2)) and ends with that child.

use core::arch::naked_asm;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::os::kernel::{self, Refused};
use crate::os::process::{self, Signals};

/// Room for writing a profile in an unoptimised build.
const STACK: usize = 128 << 10;
/// Zeroes on each side of the thread pointer: more than the C libraries' own thread structure
/// needs.
const ZEROES: usize = 8 << 10;

/// A thread of the process: no more flags than necessary, and no fewer than an emulator of single
/// programs (qemu-user) requires.
const THREAD: i32 = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_CLEARTID;

/// Any thread may start it.
const FREE: u32 = 0;
/// A thread is about to start it.
const STARTING: u32 = 1;
/// The system refuses to create it, now and later.
const REFUSED: u32 = 2;

/// A thread that starts on demand and ends when it has no more work; one at a time.
pub struct BareThread {
    /// Its number while it runs, written by the kernel.
    number: AtomicU32,
    turn: AtomicU32,
    /// Its memory, from the first start on.
    memory: AtomicUsize,
    name: &'static CStr,
    work: fn(),
}

impl BareThread {
    /// A thread that does not run yet. `name` has at most 15 bytes; the module says what `work` may
    /// do.
    pub const fn new(name: &'static CStr, work: fn()) -> Self {
        Self {
            number: AtomicU32::new(0),
            turn: AtomicU32::new(FREE),
            memory: AtomicUsize::new(0),
            name,
            work,
        }
    }

    /// Whether it runs.
    #[inline]
    pub fn is_running(&self) -> bool {
        self.number.load(Ordering::Relaxed) != 0
    }

    /// Starts the thread, unless it runs, another thread is starting it, or the system has refused
    /// it before. Takes no lock and waits for no thread, so a signal handler may call it too.
    pub fn start(&'static self) {
        let turn = self.turn.compare_exchange(FREE, STARTING, Ordering::Acquire, Ordering::Relaxed);
        if turn.is_err() {
            return;
        }
        let mut next = FREE;
        if self.number.load(Ordering::Acquire) == 0
            && let Ok(memory) = self.memory()
            && let Err(refused) = self.make(memory)
            && !matches!(refused.0, libc::EAGAIN | libc::ENOMEM)
        {
            next = REFUSED;
        }
        self.turn.store(next, Ordering::Release);
    }

    /// Notes in the child of a fork that the thread does not run and that no thread is starting it.
    /// Returns whether it ran before.
    pub fn forget(&self) -> bool {
        let _ = self.turn.compare_exchange(STARTING, FREE, Ordering::Relaxed, Ordering::Relaxed);
        self.number.swap(0, Ordering::Relaxed) != 0
    }

    /// Where its memory begins. The caller has set `turn` to `STARTING`.
    fn memory(&self) -> Result<usize, Refused> {
        let known = self.memory.load(Ordering::Relaxed);
        if known != 0 {
            return Ok(known);
        }
        let (guard, bytes) = (kernel::page_size(), STACK + 2 * ZEROES);
        let start = kernel::reserve(guard + bytes)?;
        // SAFETY: just reserved.
        unsafe {
            if let Err(refused) = kernel::commit(start + guard, bytes) {
                kernel::unreserve(start, guard + bytes);
                return Err(refused);
            }
        }
        self.memory.store(start, Ordering::Relaxed);
        Ok(start)
    }

    /// Asks the kernel to create it. The caller has set `turn` to `STARTING`, and the memory is
    /// not in use.
    fn make(&'static self, memory: usize) -> Result<(), Refused> {
        let stack = memory + kernel::page_size() + STACK;
        let pointer = stack + ZEROES;
        // SAFETY: the thread's own memory, which is not in use now.
        unsafe { fill_block(pointer) };
        // The new thread inherits a mask under which no signal reaches it; the caller gets its own
        // back.
        let before = Signals::ALL.block();
        // SAFETY: stack and block are the thread's alone until the kernel has cleared the number;
        // the thread itself is a static.
        let made = unsafe { clone(THREAD as usize, stack, &self.number, pointer, begin, self) };
        before.block();
        if made < 0 { Err(Refused(-made as i32)) } else { Ok(()) }
    }
}

/// Writes what compiled code expects at the thread pointer: its own address, twice, as the System V
/// ABI and the C libraries have it, and the stack guard word, which is the same for all threads.
///
/// # Safety
/// The 48 bytes belong to the caller.
#[cfg(target_arch = "x86_64")]
unsafe fn fill_block(pointer: usize) {
    let guard: usize;
    let words = pointer as *mut usize;
    // SAFETY: every thread has such a block; the new one by contract.
    unsafe {
        core::arch::asm!("mov {}, qword ptr fs:[0x28]", out(reg) guard,
            options(pure, readonly, nostack, preserves_flags));
        words.write(pointer);
        words.add(2).write(pointer);
        words.add(5).write(guard);
    }
}

/// There is nothing to write: the stack guard word is a variable.
#[cfg(target_arch = "aarch64")]
unsafe fn fill_block(_: usize) {}

extern "C" fn begin(thread: &'static BareThread) {
    process::name_thread(thread.name);
    (thread.work)();
}

/// clone(2). It returns the result to the caller; the new thread calls `function` on its stack, and
/// ends.
///
/// # Safety
/// `stack` is the end of a stack, at a multiple of 16, and `pointer` the thread pointer of a block.
/// Both belong to the new thread alone.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn clone(
    flags: usize,
    stack: usize,
    number: &AtomicU32,
    pointer: usize,
    function: extern "C" fn(&'static BareThread),
    argument: &'static BareThread,
) -> isize {
    naked_asm!(
        "sub rsi, 16",
        "mov qword ptr [rsi], r8",
        "mov qword ptr [rsi + 8], r9",
        "mov r10, rdx",
        "mov r8, rcx",
        "mov eax, 56",
        "syscall",
        "test rax, rax",
        "jz 2f",
        "ret",
        // The new thread, which has no address to return to.
        "2: xor ebp, ebp",
        "pop rax",
        "pop rdi",
        "call rax",
        "xor edi, edi",
        "mov eax, 60",
        "syscall",
        "ud2",
    )
}

/// As above.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn clone(
    flags: usize,
    stack: usize,
    number: &AtomicU32,
    pointer: usize,
    function: extern "C" fn(&'static BareThread),
    argument: &'static BareThread,
) -> isize {
    naked_asm!(
        "stp x4, x5, [x1, #-16]!",
        "mov x4, x2",
        "mov x8, #220",
        "svc #0",
        "cbz x0, 2f",
        "ret",
        // The new thread, which has no address to return to.
        "2: mov x29, xzr",
        "mov x30, xzr",
        "ldp x1, x0, [sp], #16",
        "blr x1",
        "mov x0, #0",
        "mov x8, #93",
        "svc #0",
        "brk #1",
    )
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::format;
    use std::fs;
    use std::ptr::null_mut;
    use std::string::String;
    use std::time::{Duration, Instant};
    use std::{println, thread};

    use super::*;

    /// Waits for a condition that becomes true soon, or never.
    fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_there() {
            assert!(Instant::now() < deadline, "{what} does not come");
            thread::yield_now();
        }
    }

    /// A thread that counts its runs, and ends when it is allowed to.
    macro_rules! waiting_thread {
        ($thread:ident, $runs:ident, $may_end:ident) => {
            static $runs: AtomicU32 = AtomicU32::new(0);
            static $may_end: AtomicU32 = AtomicU32::new(0);
            static $thread: BareThread = BareThread::new(c"numapilot-test", || {
                $runs.fetch_add(1, Ordering::SeqCst);
                while $may_end.load(Ordering::SeqCst) == 0 {
                    kernel::sleep_ms(1);
                }
            });
        };
    }

    /// A line of its status file.
    fn status(thread: &BareThread, key: &str) -> String {
        let number = thread.number.load(Ordering::SeqCst);
        let status = fs::read_to_string(format!("/proc/self/task/{number}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim().into()
    }

    fn blocked_here() -> String {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        status.lines().find(|line| line.starts_with("SigBlk:")).unwrap().into()
    }

    #[test]
    fn it_runs_once_at_a_time_and_again() {
        waiting_thread!(THREAD, RUNS, MAY_END);
        let before = blocked_here();
        for run in 1..=50 {
            MAY_END.store(0, Ordering::SeqCst);
            THREAD.start();
            assert!(THREAD.is_running());
            wait_for("the thread", || RUNS.load(Ordering::SeqCst) == run);
            THREAD.start();
            assert_eq!(status(&THREAD, "Name:"), "numapilot-test");
            // All but SIGKILL and SIGSTOP.
            assert_eq!(status(&THREAD, "SigBlk:"), "fffffffffffbfeff");
            assert_eq!(RUNS.load(Ordering::SeqCst), run);
            MAY_END.store(1, Ordering::SeqCst);
            wait_for("its end", || !THREAD.is_running());
        }
        assert_eq!(blocked_here(), before);
    }

    #[test]
    fn many_who_start_it_get_one() {
        waiting_thread!(THREAD, RUNS, MAY_END);
        for run in 1..=20 {
            MAY_END.store(0, Ordering::SeqCst);
            thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| THREAD.start());
                }
            });
            wait_for("the thread", || RUNS.load(Ordering::SeqCst) == run);
            MAY_END.store(1, Ordering::SeqCst);
            wait_for("its end", || !THREAD.is_running());
        }
    }

    #[test]
    fn it_finds_zeroes_around_the_thread_pointer_and_the_word_that_guards_stacks() {
        static FOUND: AtomicU32 = AtomicU32::new(0);
        static GUARD: AtomicUsize = AtomicUsize::new(0);
        static THREAD: BareThread = BareThread::new(c"numapilot-test", || {
            let pointer = crate::os::thread_pointer::get() as *const u8;
            let own = if cfg!(target_arch = "x86_64") { 48 } else { 0 };
            // SAFETY: within its block.
            let is_zero = |offset: isize| unsafe { pointer.offset(offset).read() } == 0;
            let zeroes = (-(ZEROES as isize)..0).chain(own..ZEROES as isize).all(is_zero);
            GUARD.store(guard(), Ordering::SeqCst);
            FOUND.store(1 + u32::from(zeroes), Ordering::SeqCst);
        });
        fn guard() -> usize {
            #[cfg(target_arch = "x86_64")]
            {
                let word: usize;
                // SAFETY: every thread has the word.
                unsafe { core::arch::asm!("mov {}, qword ptr fs:[0x28]", out(reg) word) };
                word
            }
            #[cfg(not(target_arch = "x86_64"))]
            0
        }
        THREAD.start();
        wait_for("its end", || !THREAD.is_running());
        assert_eq!(FOUND.load(Ordering::SeqCst), 2);
        assert_eq!(GUARD.load(Ordering::SeqCst), guard());
    }

    /// The child of a fork has this thread's number, but not the thread.
    #[test]
    fn the_child_of_a_fork_starts_its_own() {
        waiting_thread!(THREAD, RUNS, MAY_END);
        THREAD.start();
        wait_for("the thread", || RUNS.load(Ordering::SeqCst) == 1);
        // SAFETY: the child makes system calls only.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let ran = THREAD.forget();
            let stopped = !THREAD.is_running();
            THREAD.start();
            while RUNS.load(Ordering::SeqCst) == 1 {
                kernel::sleep_ms(1);
            }
            // SAFETY: ends the child.
            unsafe { libc::_exit(if ran && stopped { 7 } else { 1 }) };
        }
        assert_eq!(end_of(child), 7);
        assert!(THREAD.is_running());
        MAY_END.store(1, Ordering::SeqCst);
        wait_for("its end", || !THREAD.is_running());
    }

    /// How a child ends; a child that hangs is killed.
    fn end_of(child: i32) -> i32 {
        let mut status = 0;
        assert!(child > 0);
        // SAFETY: a child of ours and a word for its status.
        wait_for("the child's end", || unsafe {
            libc::waitpid(child, &raw mut status, libc::WNOHANG) == child
        });
        if libc::WIFEXITED(status) {
            libc::WEXITSTATUS(status)
        } else {
            128 + libc::WTERMSIG(status)
        }
    }

    /// A child that shares our memory, as after vfork(2), starts the thread and ends, or is killed.
    /// The thread ends with it, and its number is cleared.
    #[test]
    fn a_child_that_shares_our_memory_leaves_no_number_behind() {
        waiting_thread!(THREAD, RUNS, MAY_END);
        extern "C" fn child(_: *mut libc::c_void) -> i32 {
            THREAD.start();
            while RUNS.load(Ordering::SeqCst) == 0 {
                kernel::sleep_ms(1);
            }
            // SAFETY: ends the child with all its threads, as exec(3) would.
            unsafe { libc::_exit(7) }
        }
        let flags = libc::CLONE_VM | libc::SIGCHLD;
        let mut stack = std::vec![0_u128; 4096];
        // SAFETY: the child has a stack of its own, which lives until it has ended.
        let made =
            unsafe { libc::clone(child, stack.as_mut_ptr().add(4096).cast(), flags, null_mut()) };
        assert_eq!(end_of(made), 7);
        assert_eq!(RUNS.load(Ordering::SeqCst), 1);
        wait_for("the end of the child's thread", || !THREAD.is_running());
        THREAD.start();
        wait_for("a thread of ours", || RUNS.load(Ordering::SeqCst) == 2);
        MAY_END.store(1, Ordering::SeqCst);
        wait_for("its end", || !THREAD.is_running());
    }

    /// In a child that may not create threads.
    #[test]
    fn what_is_refused_is_not_tried_again() {
        waiting_thread!(THREAD, RUNS, MAY_END);
        // SAFETY: the child makes system calls only.
        let child = unsafe { libc::fork() };
        if child == 0 {
            if !forbid_clone() {
                // SAFETY: ends the child.
                unsafe { libc::_exit(77) };
            }
            THREAD.start();
            let refused = THREAD.turn.load(Ordering::SeqCst) == REFUSED && !THREAD.is_running();
            THREAD.start();
            let still = THREAD.turn.load(Ordering::SeqCst) == REFUSED && !THREAD.is_running();
            // SAFETY: ends the child.
            unsafe { libc::_exit(if refused && still { 7 } else { 1 }) };
        }
        match end_of(child) {
            77 => println!("skipped: this kernel has no system call filters"),
            end => assert_eq!(end, 7),
        }
        assert_eq!((RUNS.load(Ordering::SeqCst), MAY_END.load(Ordering::SeqCst)), (0, 0));
    }

    /// Makes the kernel refuse clone(2) from now on; returns whether it does.
    fn forbid_clone() -> bool {
        let filter = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        let mut filters = [
            // The number of the call; EPERM for clone, and every other call is allowed.
            filter(0x20, 0, 0, 0),
            filter(0x15, 0, 1, libc::SYS_clone as u32),
            filter(0x06, 0, 0, 0x0005_0000 | libc::EPERM as u32),
            filter(0x06, 0, 0, 0x7fff_0000),
        ];
        let program = libc::sock_fprog { len: 4, filter: filters.as_mut_ptr() };
        // SAFETY: the program outlives the call, and this process is a child made for it.
        unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
                    == 0
        }
    }
}

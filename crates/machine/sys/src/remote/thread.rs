//! A stopped thread on x86-64: its registers, its memory, and the calls that it makes.
//!
//! Source: ptrace(2), signal(7) (calls that a stop interrupts), rseq(2), arch/x86/kernel/signal.c
//! (how the kernel restarts calls).

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::check;

/// The longest wait until a thread that runs stops.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest wait for a call. It may wait for a lock of the kernel, and the thread cannot be let go
/// before it has returned.
const CALL_PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks.
const LOOK: Duration = Duration::from_micros(50);

/// Bytes of the page that calls use, for what they point to.
const PAGE: u64 = 4096;
/// Most bytes of the vDSO that are searched: it has two pages today.
const VDSO_BYTES: usize = 16 << 10;
/// `syscall`.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// The segment of 64-bit code (`__USER_CS`).
const CODE_64: u64 = 0x33;
/// Numbers from -4095 on are errors.
const ERRORS: u64 = (-4095i64).cast_unsigned();
/// What a call returns that a stop has interrupted, if the kernel does not restart it.
const INTERRUPTED: u64 = (-(libc::EINTR as i64)).cast_unsigned();

/// Calls that return EINTR after a stop, although no signal has arrived (signal(7)), and that can be
/// made again.
const MADE_AGAIN: [libc::c_long; 17] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_io_getevents,
    libc::SYS_io_uring_enter,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
];

/// The signal of a stop at the entry or the exit of a call, with `PTRACE_O_TRACESYSGOOD`.
const CALL_STOP: i32 = libc::SIGTRAP | 0x80;
/// `PTRACE_O_SUSPEND_SECCOMP`: the filters of the thread do not apply while it is traced.
const SUSPEND_SECCOMP: usize = 1 << 21;
/// The type of a request, which differs between C libraries.
#[cfg(target_env = "musl")]
type Request = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

/// `PTRACE_GETSIGMASK`.
const GET_MASK: Request = 0x420a;
/// `PTRACE_SETSIGMASK`.
const SET_MASK: Request = 0x420b;
/// `PTRACE_GET_RSEQ_CONFIGURATION`.
const GET_RSEQ: Request = 0x420f;

/// A stopped thread.
#[derive(Debug)]
pub struct Thread {
    tid: i32,
    memory: File,
    /// With which it continues.
    registers: libc::user_regs_struct,
    mask: u64,
    /// Address of an instruction that makes a call.
    syscall: u64,
    /// The page that calls use, once it is there.
    page: Option<u64>,
}

/// How a wait for a thread ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// By `PTRACE_INTERRUPT`.
    Interrupted,
    /// At the entry or the exit of a call.
    Call,
    /// To get this signal.
    Signal(i32),
}

impl Thread {
    /// Stops a thread.
    pub fn stop(tid: i32) -> io::Result<Self> {
        let options = libc::PTRACE_O_TRACESYSGOOD.cast_unsigned() as usize;
        if has_filters_of_its_own(tid)? {
            // Its filter may end it at a call that it does not make itself.
            control(libc::PTRACE_SEIZE, tid, options | SUSPEND_SECCOMP).map_err(filtered)?;
        } else {
            control(libc::PTRACE_SEIZE, tid, options)?;
        }
        control(libc::PTRACE_INTERRUPT, tid, 0)?;
        wait_for_interruption(tid, PATIENCE)?;
        let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{tid}/mem"))?;
        let mut registers = registers(tid)?;
        if registers.cs != CODE_64 {
            let cause = "it is a 32-bit program";
            return Err(io::Error::new(io::ErrorKind::Unsupported, cause));
        }
        if let Some(abort) = restartable_sequence(tid, &memory, registers.rip)? {
            registers.rip = abort;
        }
        let is_made_again =
            MADE_AGAIN.iter().any(|call| call.cast_unsigned() == registers.orig_rax);
        if registers.rax == INTERRUPTED && is_made_again && !has_signal(tid)? {
            registers.rax = registers.orig_rax;
            registers.rip -= SYSCALL.len() as u64;
            registers.orig_rax = u64::MAX;
        }
        let syscall = find_syscall(tid, &memory)?;
        let mask = signal_mask(tid)?;
        // A signal that arrives meanwhile waits: its handler must not run on the calls' registers.
        set_signal_mask(tid, u64::MAX)?;
        Ok(Self { tid, memory, registers, mask, syscall, page: None })
    }

    /// Makes a call. Returns what it returns.
    pub fn call(&mut self, number: libc::c_long, arguments: [u64; 6]) -> io::Result<u64> {
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let registers_of_call = libc::user_regs_struct {
            rip: self.syscall,
            rax: number.cast_unsigned(),
            // The kernel must not take what this returns for the result of the interrupted call.
            orig_rax: u64::MAX,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..self.registers
        };
        set_registers(self.tid, &registers_of_call)?;
        for _ in ["entry", "exit"] {
            control(libc::PTRACE_SYSCALL, self.tid, 0)?;
            loop {
                let signal = match wait(self.tid, CALL_PATIENCE)? {
                    Stop::Call => break,
                    // Its process is stopped by SIGSTOP, which cannot be blocked.
                    Stop::Interrupted => 0,
                    Stop::Signal(signal) => signal,
                };
                control(libc::PTRACE_SYSCALL, self.tid, signal.cast_unsigned() as usize)?;
            }
        }
        let returned = registers(self.tid)?.rax;
        if returned >= ERRORS {
            let errno = i32::try_from(returned.wrapping_neg()).unwrap_or(libc::EIO);
            return Err(io::Error::from_raw_os_error(errno));
        }
        Ok(returned)
    }

    /// Writes what a call points to. Returns its address.
    pub fn write(&mut self, words: &[u64]) -> io::Result<u64> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        if bytes.len() as u64 > PAGE {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let page = self.page()?;
        self.memory.write_all_at(&bytes, page)?;
        Ok(page)
    }

    /// Reads what a call has written there.
    pub fn read<const WORDS: usize>(&mut self) -> io::Result<[u64; WORDS]> {
        let page = self.page()?;
        let mut words = [0; WORDS];
        for (at, word) in (page..).step_by(size_of::<u64>()).zip(&mut words) {
            let mut bytes = [0; size_of::<u64>()];
            self.memory.read_exact_at(&mut bytes, at)?;
            *word = u64::from_ne_bytes(bytes);
        }
        Ok(words)
    }

    /// The page that calls use: one of their own, because all other memory belongs to the program.
    fn page(&mut self) -> io::Result<u64> {
        if let Some(page) = self.page {
            return Ok(page);
        }
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let (access, kind) = (access.cast_unsigned(), kind.cast_unsigned());
        let arguments = [0, PAGE, u64::from(access), u64::from(kind), u64::MAX, 0];
        let page = self.call(libc::SYS_mmap, arguments)?;
        self.page = Some(page);
        Ok(page)
    }

    /// Lets the thread continue where it was stopped.
    pub fn resume(mut self) -> io::Result<()> {
        if let Some(page) = self.page.take() {
            self.call(libc::SYS_munmap, [page, PAGE, 0, 0, 0, 0])?;
        }
        // After a call, the thread is stopped at its exit. Only on the way from an interruption does
        // the kernel restart an interrupted call, or let it return EINTR where a handler ran.
        control(libc::PTRACE_INTERRUPT, self.tid, 0)?;
        control(libc::PTRACE_CONT, self.tid, 0)?;
        wait_for_interruption(self.tid, CALL_PATIENCE)?;
        set_registers(self.tid, &self.registers)?;
        set_signal_mask(self.tid, self.mask)?;
        control(libc::PTRACE_DETACH, self.tid, 0)
    }
}

/// Waits for the stop of `PTRACE_INTERRUPT`. Signals before it are delivered.
fn wait_for_interruption(tid: i32, limit: Duration) -> io::Result<()> {
    loop {
        let signal = match wait(tid, limit)? {
            Stop::Interrupted => return Ok(()),
            Stop::Call => 0,
            Stop::Signal(signal) => signal,
        };
        control(libc::PTRACE_CONT, tid, signal.cast_unsigned() as usize)?;
    }
}

/// Waits until the thread stops.
fn wait(tid: i32, limit: Duration) -> io::Result<Stop> {
    let deadline = Instant::now() + limit;
    loop {
        let mut status = 0;
        // SAFETY: the pointer is to a live local.
        let found = check(i64::from(unsafe {
            libc::waitpid(tid, &raw mut status, libc::__WALL | libc::WNOHANG)
        }))?;
        if found == 0 && Instant::now() < deadline {
            std::thread::sleep(LOOK);
            continue;
        }
        if found == 0 {
            return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
        }
        if !libc::WIFSTOPPED(status) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let (event, signal) = (status >> 16, libc::WSTOPSIG(status));
        return Ok(match (event, signal) {
            (libc::PTRACE_EVENT_STOP, _) => Stop::Interrupted,
            (_, CALL_STOP) => Stop::Call,
            (_, signal) => Stop::Signal(signal),
        });
    }
}

/// Where the thread continues if it is in a restartable sequence (rseq(2)): the kernel aborts a
/// sequence that a stop has interrupted, but not while the thread makes calls elsewhere.
fn restartable_sequence(tid: i32, memory: &File, at: u64) -> io::Result<Option<u64>> {
    let mut configuration = [0u64; 3];
    // SAFETY: the pointer is to a live array of the size that is given.
    let known = check(unsafe {
        libc::ptrace(GET_RSEQ, tid, size_of_val(&configuration), &raw mut configuration)
    });
    // Linux before 5.13 does not tell it. A thread may have none.
    let [area, ..] = configuration;
    if known.is_err() || area == 0 {
        return Ok(None);
    }
    let word = |at: u64| -> io::Result<u64> {
        let mut bytes = [0; size_of::<u64>()];
        memory.read_exact_at(&mut bytes, at)?;
        Ok(u64::from_ne_bytes(bytes))
    };
    // struct rseq: cpu_id_start and cpu_id, rseq_cs. struct rseq_cs: version and flags, start_ip,
    // post_commit_offset, abort_ip.
    let sequence = word(area + 8)?;
    if sequence == 0 {
        return Ok(None);
    }
    let (start, bytes, abort) = (word(sequence + 8)?, word(sequence + 16)?, word(sequence + 24)?);
    Ok((at.wrapping_sub(start) < bytes).then_some(abort))
}

/// Whether the thread has seccomp filters that this process does not have.
fn has_filters_of_its_own(tid: i32) -> io::Result<bool> {
    let filters = |status: &str| {
        let number = |name| field(status, name).and_then(|text| text.parse::<u32>().ok());
        // Linux before 5.9 does not count them.
        number("Seccomp_filters:").or_else(|| number("Seccomp:")).unwrap_or(0)
    };
    let own = std::fs::read_to_string("/proc/self/status")?;
    Ok(filters(&status(tid)?) > filters(&own))
}

fn filtered(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(libc::ESRCH) {
        return error;
    }
    io::Error::other(
        "it has a seccomp filter, which could end it at a system call that it does not make itself; \
         only root outside of a filter can suspend it",
    )
}

/// Whether a signal waits for the thread that it does not block.
fn has_signal(tid: i32) -> io::Result<bool> {
    let status = status(tid)?;
    let set = |name| {
        field(&status, name).and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0)
    };
    Ok((set("SigPnd:") | set("ShdPnd:")) & !set("SigBlk:") != 0)
}

/// /proc/TID/status.
fn status(tid: i32) -> io::Result<String> {
    std::fs::read_to_string(format!("/proc/{tid}/status")).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::from_raw_os_error(libc::ESRCH),
        _ => error,
    })
}

/// The value of a line of /proc/TID/status.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// The address of a `syscall` instruction: the vDSO has some, and every 64-bit program has it.
fn find_syscall(tid: i32, memory: &File) -> io::Result<u64> {
    let auxiliary = std::fs::read(format!("/proc/{tid}/auxv"))?;
    let words: Vec<u64> = auxiliary
        .chunks_exact(size_of::<u64>())
        .filter_map(|bytes| bytes.try_into().ok().map(u64::from_ne_bytes))
        .collect();
    let none = || io::Error::new(io::ErrorKind::Unsupported, "the program has no vDSO");
    let vdso = words.chunks_exact(2).find(|pair| pair[0] == libc::AT_SYSINFO_EHDR);
    let start = vdso.ok_or_else(none)?[1];
    let mut code = vec![0; VDSO_BYTES];
    let bytes = memory.read_at(&mut code, start)?;
    let at = code[..bytes].windows(SYSCALL.len()).position(|window| window == SYSCALL);
    Ok(start + at.ok_or_else(none)? as u64)
}

/// A request that takes a number.
fn control(request: Request, tid: i32, data: usize) -> io::Result<()> {
    // SAFETY: these requests take integers, and change a thread of another process only.
    check(unsafe { libc::ptrace(request, tid, 0usize, data) }).map(drop)
}

fn registers(tid: i32) -> io::Result<libc::user_regs_struct> {
    let mut registers = MaybeUninit::<libc::user_regs_struct>::uninit();
    // SAFETY: the kernel writes a struct of this type to the pointer.
    check(unsafe { libc::ptrace(libc::PTRACE_GETREGS, tid, 0usize, registers.as_mut_ptr()) })?;
    // SAFETY: the call has succeeded, so it is written.
    Ok(unsafe { registers.assume_init() })
}

fn set_registers(tid: i32, registers: &libc::user_regs_struct) -> io::Result<()> {
    let registers = std::ptr::from_ref(registers);
    // SAFETY: the pointer is to a live struct that the kernel only reads.
    check(unsafe { libc::ptrace(libc::PTRACE_SETREGS, tid, 0usize, registers) }).map(drop)
}

fn signal_mask(tid: i32) -> io::Result<u64> {
    let mut mask = 0u64;
    // SAFETY: the pointer is to a live local of the size that is given.
    check(unsafe { libc::ptrace(GET_MASK, tid, size_of::<u64>(), &raw mut mask) })?;
    Ok(mask)
}

fn set_signal_mask(tid: i32, mask: u64) -> io::Result<()> {
    // SAFETY: the pointer is to a live local of the size that is given, which the kernel only
    // reads.
    check(unsafe { libc::ptrace(SET_MASK, tid, size_of::<u64>(), &raw const mask) }).map(drop)
}

//! A stopped thread on x86-64: its registers, its memory, and the calls that it makes.
//!
//! Source: ptrace(2), arch/x86/kernel/signal.c (how the kernel restarts calls), the System V ABI
//! (AMD64 supplement, section 3.2.2: the red zone).

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::check;

/// The longest wait for a stop.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two looks.
const LOOK: Duration = Duration::from_micros(50);

/// Bytes below the stack pointer that may be in use (the red zone).
const RED_ZONE: u64 = 128;
/// Bytes below it that calls may use, for what they point to.
const SCRATCH: usize = 256;
/// Most bytes of the vDSO that are searched: it has two pages today.
const VDSO_BYTES: usize = 16 << 10;
/// `syscall`.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// The segment of 64-bit code (`__USER_CS`).
const CODE_64: u64 = 0x33;
/// Numbers from -4095 on are errors.
const ERRORS: u64 = (-4095i64).cast_unsigned();

/// The signal of a stop at the entry or the exit of a call, with `PTRACE_O_TRACESYSGOOD`.
const CALL_STOP: i32 = libc::SIGTRAP | 0x80;
/// `PTRACE_GETSIGMASK`.
const GET_MASK: libc::c_uint = 0x420a;
/// `PTRACE_SETSIGMASK`.
const SET_MASK: libc::c_uint = 0x420b;

/// A stopped thread.
#[derive(Debug)]
pub struct Thread {
    tid: i32,
    memory: File,
    registers: libc::user_regs_struct,
    mask: u64,
    /// Address of an instruction that makes a call.
    syscall: u64,
    /// What was in the memory that calls use.
    scratch: [u8; SCRATCH],
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
        control(libc::PTRACE_SEIZE, tid, options)?;
        control(libc::PTRACE_INTERRUPT, tid, 0)?;
        wait_for_interruption(tid)?;
        let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{tid}/mem"))?;
        let registers = registers(tid)?;
        if registers.cs != CODE_64 {
            let cause = "it is a 32-bit program";
            return Err(io::Error::new(io::ErrorKind::Unsupported, cause));
        }
        let syscall = find_syscall(tid, &memory)?;
        let mask = signal_mask(tid)?;
        let mut thread = Self { tid, memory, registers, mask, syscall, scratch: [0; SCRATCH] };
        let address = thread.scratch_address();
        thread.memory.read_exact_at(&mut thread.scratch, address)?;
        // A signal that arrives meanwhile waits: its handler must not run on the calls' registers.
        set_signal_mask(tid, u64::MAX)?;
        Ok(thread)
    }

    /// Makes a call. Returns what it returns.
    pub fn call(&mut self, number: libc::c_long, arguments: [u64; 5]) -> io::Result<u64> {
        let [rdi, rsi, rdx, r10, r8] = arguments;
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
            ..self.registers
        };
        set_registers(self.tid, &registers_of_call)?;
        for _ in ["entry", "exit"] {
            control(libc::PTRACE_SYSCALL, self.tid, 0)?;
            if wait(self.tid)? != Stop::Call {
                return Err(io::Error::other("the thread stopped outside of the call"));
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
        if bytes.len() > SCRATCH {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        self.memory.write_all_at(&bytes, self.scratch_address())?;
        Ok(self.scratch_address())
    }

    /// Reads what a call has written there.
    pub fn read<const WORDS: usize>(&self) -> io::Result<[u64; WORDS]> {
        let mut words = [0; WORDS];
        for (at, word) in (self.scratch_address()..).step_by(size_of::<u64>()).zip(&mut words) {
            let mut bytes = [0; size_of::<u64>()];
            self.memory.read_exact_at(&mut bytes, at)?;
            *word = u64::from_ne_bytes(bytes);
        }
        Ok(words)
    }

    /// Lets the thread continue where it was stopped.
    pub fn resume(self) -> io::Result<()> {
        // After a call, the thread is stopped at its exit. Only on the way from an interruption does
        // the kernel restart an interrupted call, or let it return EINTR where a handler ran.
        control(libc::PTRACE_INTERRUPT, self.tid, 0)?;
        control(libc::PTRACE_CONT, self.tid, 0)?;
        wait_for_interruption(self.tid)?;
        self.memory.write_all_at(&self.scratch, self.scratch_address())?;
        set_registers(self.tid, &self.registers)?;
        set_signal_mask(self.tid, self.mask)?;
        control(libc::PTRACE_DETACH, self.tid, 0)
    }

    fn scratch_address(&self) -> u64 {
        self.registers.rsp.wrapping_sub(RED_ZONE + SCRATCH as u64) & !15
    }
}

/// Waits for the stop of `PTRACE_INTERRUPT`. Signals before it are delivered.
fn wait_for_interruption(tid: i32) -> io::Result<()> {
    loop {
        let signal = match wait(tid)? {
            Stop::Interrupted => return Ok(()),
            Stop::Call => 0,
            Stop::Signal(signal) => signal,
        };
        control(libc::PTRACE_CONT, tid, signal.cast_unsigned() as usize)?;
    }
}

/// Waits until the thread stops.
fn wait(tid: i32) -> io::Result<Stop> {
    let deadline = Instant::now() + PATIENCE;
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
fn control(request: libc::c_uint, tid: i32, data: usize) -> io::Result<()> {
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

//! System calls without the C library, for code that rides inside a program. So `errno` stays the
//! program's, no call is interposed, no lock of the C library is taken, and they work before the
//! program's first constructor.

#![no_std]

pub mod caller;
pub mod file;
pub mod futex;
pub mod policy;

use core::arch::asm;

/// The kernel refused a call; this is its error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub i32);

/// A system call, by a number such as `libc::SYS_mmap`.
///
/// # Errors
/// The kernel refuses the call.
///
/// # Safety
/// As the call demands.
#[inline]
pub unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> Result<usize, Refused> {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the kernel's calling convention; the caller vouches for the arguments.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a as isize => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    if (-4095..0).contains(&result) { Err(Refused(-result as i32)) } else { Ok(result as usize) }
}

//! The stack of a call, by the unwind tables of its code.
//!
//! Most programs are compiled without frame pointers, so the tables are the only way
//! (`_Unwind_Backtrace`, Itanium C++ ABI: Exception Handling, level 1). C++ and Rust programs have
//! the unwinder. For others it is loaded when the profile starts.
//!
//! A stack is taken in malloc, whatever lock the caller holds, and never in free. GCC 12 and glibc
//! 2.35 find the tables without a lock (`_dl_find_object`). Older ones take that of the loader's
//! list of objects (dl_iterate_phdr(3)). The loader does not allocate under that lock, and a
//! callback that allocates may take it again. One case remains: a program that registers tables of
//! its own (`__register_frame`, as some JIT compilers do). For those GCC's unwinder has a mutex,
//! under which it allocates when it first sees them. If that allocation is sampled, the program
//! hangs; the manual says so.

use core::arch::global_asm;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use numapilot_bind::address_of;

/// Most calls that are recorded; further ones are left out.
pub const DEPTH: usize = 48;

// Null if the program has no unwinder, or no dynamic loader.
global_asm!(".weak _Unwind_Backtrace", ".weak _Unwind_GetIP", ".weak dlopen", ".weak dlsym");

const LIBRARY: &CStr = c"libgcc_s.so.1";

/// The function that the unwinder calls for every frame; a result other than 0 ends it.
type Visit = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Backtrace = unsafe extern "C" fn(Visit, *mut c_void) -> c_int;
type InstructionPointer = unsafe extern "C" fn(*mut c_void) -> usize;

static BACKTRACE: AtomicUsize = AtomicUsize::new(0);
static INSTRUCTION_POINTER: AtomicUsize = AtomicUsize::new(0);

/// Addresses of calls, the innermost first.
pub struct Stack {
    addresses: [usize; DEPTH],
    depth: usize,
}

impl Stack {
    /// Those that were found.
    pub fn addresses(&self) -> &[usize] {
        &self.addresses[..self.depth]
    }
}

/// Finds the unwinder and runs it once, so that it has everything it needs from then on. Returns
/// the cause if there is none.
pub fn start() -> Result<(), &'static str> {
    let found = linked().or_else(loaded);
    let (backtrace, pointer) =
        found.ok_or("there is no unwinder: install libgcc_s.so.1, or link with -lgcc_eh")?;
    BACKTRACE.store(backtrace, Ordering::Relaxed);
    INSTRUCTION_POINTER.store(pointer, Ordering::Relaxed);
    match take().depth {
        0 => Err("the unwinder finds no frames: is the library stripped of .eh_frame?"),
        _ => Ok(()),
    }
}

/// The unwinder with which the program is linked.
fn linked() -> Option<(usize, usize)> {
    both(address_of!("_Unwind_Backtrace"), address_of!("_Unwind_GetIP"))
}

fn both(one: usize, other: usize) -> Option<(usize, usize)> {
    (one != 0 && other != 0).then_some((one, other))
}

/// The unwinder of the compiler's library, which stays loaded.
fn loaded() -> Option<(usize, usize)> {
    type Open = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
    type Symbol = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
    let (open, symbol) = both(address_of!("dlopen"), address_of!("dlsym"))?;
    // SAFETY: the C library's functions of these names, called as dlopen(3) documents; the library
    // stays loaded.
    unsafe {
        let open = core::mem::transmute::<usize, Open>(open);
        let symbol = core::mem::transmute::<usize, Symbol>(symbol);
        let library = open(LIBRARY.as_ptr(), libc::RTLD_NOW);
        if library.is_null() {
            return None;
        }
        both(
            symbol(library, c"_Unwind_Backtrace".as_ptr()) as usize,
            symbol(library, c"_Unwind_GetIP".as_ptr()) as usize,
        )
    }
}

/// The caller's stack.
pub fn take() -> Stack {
    let mut stack = Stack { addresses: [0; DEPTH], depth: 0 };
    let backtrace = BACKTRACE.load(Ordering::Relaxed);
    if backtrace != 0 {
        // SAFETY: the unwinder's function, found by its name, which passes the stack to `visit`.
        unsafe {
            let backtrace = core::mem::transmute::<usize, Backtrace>(backtrace);
            backtrace(visit, (&raw mut stack).cast());
        }
    }
    stack
}

unsafe extern "C" fn visit(frame: *mut c_void, stack: *mut c_void) -> c_int {
    /// End of stack (_URC_END_OF_STACK): the unwinder stops.
    const ENOUGH: c_int = 5;
    let pointer = INSTRUCTION_POINTER.load(Ordering::Relaxed);
    // SAFETY: the unwinder's function, with the frame that it passed; `take` lent the stack.
    let (address, stack) = unsafe {
        let pointer = core::mem::transmute::<usize, InstructionPointer>(pointer);
        (pointer(frame), &mut *stack.cast::<Stack>())
    };
    let Some(slot) = stack.addresses.get_mut(stack.depth).filter(|_| address != 0) else {
        return ENOUGH;
    };
    // An address within the call, not after it: a call may be the last instruction of a function.
    *slot = address - 1;
    stack.depth += 1;
    0
}

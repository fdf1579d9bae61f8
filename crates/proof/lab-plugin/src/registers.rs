//! Reads the guest's registers.

use std::ffi::CStr;
use std::sync::OnceLock;

use crate::qemu::{self, Array, Register};

/// The registers that a write to a model-specific register uses.
const NAMES: [&CStr; 3] = [c"rcx", c"rax", c"rdx"];

/// QEMU's handles for them, which are the same for every CPU.
struct Handles([*mut Register; NAMES.len()]);

// SAFETY: QEMU only takes these for numbers.
unsafe impl Send for Handles {}
// SAFETY: as above.
unsafe impl Sync for Handles {}

static HANDLES: OnceLock<Handles> = OnceLock::new();

/// Looks up the registers.
///
/// # Safety
/// Only while QEMU sets a CPU up.
pub unsafe fn prepare() {
    HANDLES.get_or_init(|| {
        let mut handles = Handles([std::ptr::null_mut(); NAMES.len()]);
        // SAFETY: the caller vouches for the time; QEMU gives an array of descriptions whose names
        // end with a zero byte, and leaves it to us to free.
        unsafe {
            let array = qemu::qemu_plugin_get_registers();
            for i in 0..(*array).length as usize {
                let description = &*(*array).data.add(i);
                let name = CStr::from_ptr(description.name);
                if let Some(at) = NAMES.iter().position(|wanted| *wanted == name) {
                    handles.0[at] = description.handle;
                }
            }
            qemu::g_array_free(array, 1);
        }
        if handles.0.iter().any(|handle| handle.is_null()) {
            eprintln!(
                "numapilot: warning: this QEMU does not name the registers of a wrmsr; threads that \
                 are woken begin when the host has them run"
            );
        }
        handles
    });
}

/// GLib's buffer for the value of a register.
struct Buffer(*mut Array<u8>);

impl Buffer {
    /// The lower half of a register, if QEMU has it.
    ///
    /// # Safety
    /// Only in a callback that was registered with [`qemu::READS_REGS`].
    unsafe fn read(&self, handle: *mut Register) -> Option<u32> {
        if handle.is_null() {
            return None;
        }
        // SAFETY: the caller vouches for the callback; QEMU fills the buffer, which is ours.
        unsafe {
            qemu::g_byte_array_set_size(self.0, 0);
            let length = qemu::qemu_plugin_read_register(handle, self.0);
            (length >= 4).then(|| (*self.0).data.cast::<u32>().read_unaligned())
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it was made by `g_byte_array_new` and is used no more.
        unsafe { qemu::g_byte_array_free(self.0, 1) };
    }
}

/// The value that a `wrmsr` writes to a register: `None` for another register, or if QEMU does not
/// report it.
///
/// # Safety
/// Only in a callback that was registered with [`qemu::READS_REGS`].
pub unsafe fn written_to(register: u32) -> Option<u64> {
    let Handles([rcx, rax, rdx]) = *HANDLES.get()?;
    // SAFETY: the caller vouches for the callback.
    unsafe {
        let buffer = Buffer(qemu::g_byte_array_new());
        if buffer.read(rcx)? != register {
            return None;
        }
        Some(u64::from(buffer.read(rdx)?) << 32 | u64::from(buffer.read(rax)?))
    }
}

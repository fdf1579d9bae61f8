//! The guest's registers, as far as they are asked for.

use std::ffi::CStr;
use std::sync::OnceLock;

use crate::qemu::{self, Register};

/// Those that an instruction which writes a model-specific register uses.
const NAMES: [&CStr; 3] = [c"rcx", c"rax", c"rdx"];

/// QEMU's handles of them: numbers, the same for every CPU.
struct Handles([*mut Register; NAMES.len()]);

// SAFETY: QEMU only takes these for numbers.
unsafe impl Send for Handles {}
// SAFETY: as above.
unsafe impl Sync for Handles {}

static HANDLES: OnceLock<Handles> = OnceLock::new();

/// Looks for the registers.
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

/// What a `wrmsr` writes, and to which register: `None` when QEMU does not say.
///
/// # Safety
/// Only in a callback that was registered with [`qemu::READS_REGS`].
pub unsafe fn model_specific_write() -> Option<(u32, u64)> {
    let handles = HANDLES.get()?;
    let mut values = [0u32; NAMES.len()];
    // SAFETY: the caller vouches for the callback; the buffer is ours until it is freed.
    unsafe {
        let buffer = qemu::g_byte_array_new();
        let mut all = true;
        for (handle, value) in handles.0.iter().zip(&mut values) {
            qemu::g_byte_array_set_size(buffer, 0);
            let length =
                if handle.is_null() { 0 } else { qemu::qemu_plugin_read_register(*handle, buffer) };
            all &= length >= 4;
            if length >= 4 {
                *value = (*buffer).data.cast::<u32>().read_unaligned();
            }
        }
        qemu::g_byte_array_free(buffer, 1);
        all.then(|| (values[0], u64::from(values[2]) << 32 | u64::from(values[1])))
    }
}

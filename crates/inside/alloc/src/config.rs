//! What the user asks for, read once from the environment.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicU32, Ordering};

use numapilot_bind::env::{ALLOC_HARDEN, ALLOC_HELPER, ALLOC_LARGE, ALLOC_ORIGIN, ALLOC_THP};

use crate::report;

/// The settings.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Ask for huge pages where they pay.
    pub huge_pages: bool,
    /// Have a helper thread give idle memory back.
    pub helper: bool,
    /// Spread blocks of [`INTERLEAVE_FROM`] bytes and more over all nodes.
    pub interleave: bool,
    /// Send objects that are freed on another node home (numalloc section 3.3).
    pub origin: bool,
    /// Check every free in full, and reuse memory in random order.
    pub harden: bool,
}

/// Blocks of at least this many bytes may be interleaved.
pub const INTERLEAVE_FROM: usize = 1 << 20;

const DEFAULT: Config =
    Config { huge_pages: true, helper: true, interleave: false, origin: true, harden: false };

struct Cell {
    ready: AtomicU32,
    config: UnsafeCell<Config>,
}

// SAFETY: written once by the thread that starts the space, before anybody reads it.
unsafe impl Sync for Cell {}

static CONFIG: Cell = Cell { ready: AtomicU32::new(0), config: UnsafeCell::new(DEFAULT) };

/// The settings; the defaults until [`read`] has run.
#[inline]
pub fn get() -> &'static Config {
    if CONFIG.ready.load(Ordering::Acquire) == 0 {
        return &DEFAULT;
    }
    // SAFETY: not written after `ready`.
    unsafe { &*CONFIG.config.get() }
}

/// Reads the environment.
///
/// # Safety
/// One thread calls this, once.
pub unsafe fn read() {
    let mut config = DEFAULT;
    switch(ALLOC_THP, &mut config.huge_pages, [b"0", b"1"]);
    switch(ALLOC_HELPER, &mut config.helper, [b"0", b"1"]);
    switch(ALLOC_LARGE, &mut config.interleave, [b"local", b"interleave"]);
    switch(ALLOC_ORIGIN, &mut config.origin, [b"0", b"1"]);
    switch(ALLOC_HARDEN, &mut config.harden, [b"0", b"1"]);
    // SAFETY: nobody reads it before `ready`.
    unsafe { *CONFIG.config.get() = config };
    CONFIG.ready.store(1, Ordering::Release);
}

/// Reads a variable that has two values. Another value is reported and changes nothing.
fn switch(name: &str, setting: &mut bool, values: [&[u8]; 2]) {
    let Some(value) = variable(name).map(CStr::to_bytes) else { return };
    match values.iter().position(|&known| known == value) {
        Some(index) => *setting = index == 1,
        None => report::unknown_value(name, value, values),
    }
}

/// The value of a variable, straight from the block that the program was started with.
fn variable(name: &str) -> Option<&'static CStr> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the C library's pointer; null before it has started.
    let mut entry = unsafe { environ };
    if entry.is_null() {
        return None;
    }
    loop {
        // SAFETY: the block ends with a null pointer, at which the loop ends.
        let text = unsafe { *entry };
        if text.is_null() {
            return None;
        }
        // SAFETY: entries are strings with their end.
        let text = unsafe { CStr::from_ptr(text) };
        if let Some(rest) = text.to_bytes_with_nul().strip_prefix(name.as_bytes())
            && let Some(value) = rest.strip_prefix(b"=")
        {
            return CStr::from_bytes_with_nul(value).ok();
        }
        entry = entry.wrapping_add(1);
    }
}

//! What the user asks for, read once from the environment.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicU32, Ordering};

use numapilot_bind::env::{
    ALLOC_HARDEN, ALLOC_HELPER, ALLOC_LARGE, ALLOC_ORIGIN, ALLOC_PROFILE, ALLOC_PROFILE_PERIOD,
    ALLOC_SHARING, ALLOC_STATS, ALLOC_STATS_FILE, ALLOC_STATS_SIGNAL, ALLOC_THP,
};

use crate::output::complain;
use crate::usage::Format;
use crate::{kernel, profile, report};

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
    /// Have the threads of a node carve their spans from the same huge pages (numalloc section
    /// 3.4).
    pub sharing: bool,
    /// Check every free in full, and reuse memory in random order.
    pub harden: bool,
    /// Write statistics when the program ends.
    pub stats: Option<Format>,
    /// Where to, with `%p` for the process; standard error without.
    pub stats_file: Option<&'static CStr>,
    /// The signal that asks for statistics.
    pub stats_signal: Option<i32>,
    /// Where the heap profile is written to when the program ends, with `%p` as above; none
    /// without.
    pub profile: Option<&'static CStr>,
    /// Mean bytes between two of its samples.
    pub profile_period: u64,
}

/// Blocks of at least this many bytes may be interleaved.
pub const INTERLEAVE_FROM: usize = 1 << 20;

/// Longest period of the heap profile: so that no sum of it overflows.
const LONGEST_PERIOD: u64 = 1 << 40;

const DEFAULT: Config = Config {
    huge_pages: true,
    helper: true,
    interleave: false,
    origin: true,
    sharing: true,
    harden: false,
    stats: None,
    stats_file: None,
    stats_signal: None,
    profile: None,
    profile_period: profile::USUAL_PERIOD,
};

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
    switch(ALLOC_SHARING, &mut config.sharing, [b"0", b"1"]);
    switch(ALLOC_HARDEN, &mut config.harden, [b"0", b"1"]);
    statistics(&mut config);
    heap_profile(&mut config);
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

/// Whether the environment asks for statistics or a profile.
pub fn asks_for_statistics() -> bool {
    [ALLOC_STATS, ALLOC_STATS_SIGNAL, ALLOC_PROFILE]
        .into_iter()
        .any(|name| variable(name).is_some())
}

/// Reads what is said about statistics.
fn statistics(config: &mut Config) {
    if let Some(value) = variable(ALLOC_STATS) {
        config.stats = Format::parse(value.to_bytes());
        if config.stats.is_none() {
            ignored(ALLOC_STATS, value, "it must be text, json or prometheus");
        }
    }
    if let Some(value) = variable(ALLOC_STATS_SIGNAL) {
        config.stats_signal = value.to_str().ok().and_then(|text| text.parse().ok());
        if config.stats_signal.is_none() {
            ignored(ALLOC_STATS_SIGNAL, value, "it must be the number of a signal");
        }
    }
    if let Some(value) = variable(ALLOC_STATS_FILE) {
        config.stats_file = path(ALLOC_STATS_FILE, value);
        if has_more_rights() {
            config.stats = None;
            config.stats_signal = None;
        }
    }
}

/// Reads what is said about the heap profile.
fn heap_profile(config: &mut Config) {
    if let Some(value) = variable(ALLOC_PROFILE) {
        config.profile = path(ALLOC_PROFILE, value);
    }
    if let Some(value) = variable(ALLOC_PROFILE_PERIOD) {
        match value.to_str().ok().and_then(|text| text.parse().ok()) {
            Some(period @ 1..=LONGEST_PERIOD) => config.profile_period = period,
            _ => {
                ignored(ALLOC_PROFILE_PERIOD, value, "it must be a number of bytes from 1 to 2^40")
            }
        }
    }
}

/// The path that a variable names, kept for later.
fn path(name: &str, value: &CStr) -> Option<&'static CStr> {
    if has_more_rights() {
        ignored(name, value, "the program has more rights than its caller");
    } else if value.is_empty() {
        ignored(name, value, "it must be a path");
    } else {
        return keep(value);
    }
    None
}

/// Whether the program runs with rights that its caller does not have (setuid).
fn has_more_rights() -> bool {
    // SAFETY: takes a constant.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

fn ignored(name: &str, value: &CStr, cause: &str) {
    let value = value.to_str().unwrap_or("(not text)");
    complain(format_args!("{name}={value} is ignored: {cause}"));
}

/// A copy of a value: programs overwrite their environment, to show another title.
fn keep(value: &CStr) -> Option<&'static CStr> {
    let text = value.to_bytes_with_nul();
    let start = kernel::reserve(text.len()).ok()?;
    // SAFETY: just reserved for the text, which is kept as long as the process lives.
    unsafe {
        kernel::commit(start, text.len()).ok()?;
        (start as *mut u8).copy_from_nonoverlapping(text.as_ptr(), text.len());
        Some(CStr::from_ptr(start as *const c_char))
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

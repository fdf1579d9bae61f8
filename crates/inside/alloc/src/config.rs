//! The user's settings, read once from the environment when the library is loaded. Later, other
//! threads may change the environment. They are read earlier only if the program allocates before
//! that.

use core::ffi::{CStr, c_char};
use core::fmt;

use numapilot_bind::env::{
    ALLOC_BACKGROUND_THREAD, ALLOC_HARDEN, ALLOC_LARGE, ALLOC_ORIGIN, ALLOC_PROFILE,
    ALLOC_PROFILE_PERIOD, ALLOC_SHARING, ALLOC_STATS, ALLOC_STATS_FILE, ALLOC_STATS_SIGNAL,
    ALLOC_THP,
};

use crate::os::once::Once;
use crate::os::output::complain;
use crate::os::{kernel, report};

/// The format of statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Aligned tables.
    Text,
    /// One JSON document on one line.
    Json,
    /// Prometheus' text exposition format, version 0.0.4.
    Prometheus,
    /// As malloc_info(3).
    Xml,
}

impl Format {
    /// The format with this name; `None` for a name that no variable accepts.
    pub fn parse(name: &[u8]) -> Option<Self> {
        match name {
            b"text" => Some(Self::Text),
            b"json" => Some(Self::Json),
            b"prometheus" => Some(Self::Prometheus),
            _ => None,
        }
    }
}

/// The settings.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Ask for huge pages where they pay.
    pub huge_pages: bool,
    /// Use threads of the library's own: one that returns idle memory, and one that responds to a
    /// signal.
    pub background_thread: bool,
    /// Spread blocks of [`INTERLEAVE_FROM`] bytes and more over all nodes.
    pub interleave: bool,
    /// Return objects that are freed on another node to their home node (numalloc section 3.3).
    pub origin: bool,
    /// Let the threads of a node carve their spans from the same huge pages (numalloc section 3.4).
    pub sharing: bool,
    /// See [`Self::is_hardened`].
    harden: bool,
    /// Write statistics when the program ends.
    pub stats: Option<Format>,
    /// File to write them to, with `%p` for the process number; standard error if there is none.
    pub stats_file: Option<&'static CStr>,
    /// The signal that requests statistics.
    pub stats_signal: Option<i32>,
    /// File to which the heap profile is written when the program ends, with `%p` as above; `None`:
    /// no profile.
    pub profile: Option<&'static CStr>,
    /// Mean number of bytes between two of its samples.
    pub profile_period: u64,
}

/// Whether statistics can be requested by the environment (feature `statistics`).
pub const STATISTICS: bool = cfg!(feature = "statistics");
/// Whether the heap profile can be requested by the environment (feature `profile`).
pub const PROFILE: bool = cfg!(feature = "profile");
/// Whether the checks of every free can be requested by the environment (feature `harden`).
const HARDEN: bool = cfg!(feature = "harden");

impl Config {
    /// Whether every free is checked in full, and memory reused in random order. A constant without
    /// the feature, so that the code for it is left out.
    #[inline(always)]
    pub fn is_hardened(&self) -> bool {
        HARDEN && self.harden
    }
}

/// Blocks of at least this many bytes may be interleaved.
pub const INTERLEAVE_FROM: usize = 1 << 20;

/// Mean number of bytes between two samples of the heap profile, unless the user sets another.
const USUAL_PERIOD: u64 = 512 << 10;
/// Longest period of the heap profile, so that no sum of periods overflows.
const LONGEST_PERIOD: u64 = 1 << 40;

const DEFAULT: Config = Config {
    huge_pages: true,
    background_thread: true,
    interleave: false,
    origin: true,
    sharing: true,
    harden: false,
    stats: None,
    stats_file: None,
    stats_signal: None,
    profile: None,
    profile_period: USUAL_PERIOD,
};

static CONFIG: Once<Config> = Once::new(DEFAULT);

/// The settings; the defaults until [`read`] has run.
#[inline]
pub fn get() -> &'static Config {
    CONFIG.get().unwrap_or(&DEFAULT)
}

/// Reads the environment, unless it was read before.
pub fn read() {
    CONFIG.get_or_make(|config| {
        *config = asked_for(&Variables::find());
        true
    });
}

/// The settings that these variables request.
fn asked_for(variables: &Variables) -> Config {
    let mut config = DEFAULT;
    switch(variables, ALLOC_THP, &mut config.huge_pages, [b"0", b"1"]);
    switch(variables, ALLOC_BACKGROUND_THREAD, &mut config.background_thread, [b"0", b"1"]);
    switch(variables, ALLOC_LARGE, &mut config.interleave, [b"local", b"interleave"]);
    switch(variables, ALLOC_ORIGIN, &mut config.origin, [b"0", b"1"]);
    switch(variables, ALLOC_SHARING, &mut config.sharing, [b"0", b"1"]);
    switch(variables, ALLOC_HARDEN, &mut config.harden, [b"0", b"1"]);
    statistics(variables, &mut config);
    heap_profile(variables, &mut config);
    refuse_left_out(variables, &mut config);
    config
}

/// Reports requests for what this copy of the allocator was built without, and drops them.
fn refuse_left_out(variables: &Variables, config: &mut Config) {
    let requests = [
        (ALLOC_HARDEN, HARDEN, "harden"),
        (ALLOC_STATS, STATISTICS, "statistics"),
        (ALLOC_STATS_SIGNAL, STATISTICS, "statistics"),
        (ALLOC_PROFILE, PROFILE, "profile"),
    ];
    for (name, is_built, feature) in requests {
        if !is_built && let Some(value) = variables.get(name) {
            let without = "the program contains numapilot-alloc without the feature";
            ignored(name, value, format_args!("{without} {feature}"));
        }
    }
    if !STATISTICS {
        (config.stats, config.stats_signal) = (None, None);
    }
    if !PROFILE {
        config.profile = None;
    }
}

/// Reads a variable that has two values. Another value is reported and changes nothing.
fn switch(variables: &Variables, name: &str, setting: &mut bool, values: [&[u8]; 2]) {
    let Some(value) = variables.get(name).map(CStr::to_bytes) else { return };
    match values.iter().position(|&known| known == value) {
        Some(index) => *setting = index == 1,
        None => report::unknown_value(name, value, values),
    }
}

/// Reads the settings of statistics.
fn statistics(variables: &Variables, config: &mut Config) {
    if let Some(value) = variables.get(ALLOC_STATS) {
        config.stats = Format::parse(value.to_bytes());
        if config.stats.is_none() {
            ignored(ALLOC_STATS, value, "it must be text, json or prometheus");
        }
    }
    if let Some(value) = variables.get(ALLOC_STATS_SIGNAL) {
        config.stats_signal = value.to_str().ok().and_then(|text| text.parse().ok());
        if config.stats_signal.is_none() {
            ignored(ALLOC_STATS_SIGNAL, value, "it must be the number of a signal");
        }
    }
    if let Some(value) = variables.get(ALLOC_STATS_FILE) {
        config.stats_file = path(ALLOC_STATS_FILE, value);
        if has_more_rights() {
            config.stats = None;
            config.stats_signal = None;
        }
    }
}

/// Reads the settings of the heap profile.
fn heap_profile(variables: &Variables, config: &mut Config) {
    if let Some(value) = variables.get(ALLOC_PROFILE) {
        config.profile = path(ALLOC_PROFILE, value);
    }
    if let Some(value) = variables.get(ALLOC_PROFILE_PERIOD) {
        match value.to_str().ok().and_then(|text| text.parse().ok()) {
            Some(period @ 1..=LONGEST_PERIOD) => config.profile_period = period,
            _ => {
                ignored(ALLOC_PROFILE_PERIOD, value, "it must be a number of bytes from 1 to 2^40")
            }
        }
    }
}

/// The path that a variable contains, kept for later.
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

/// Whether the program runs with more rights than its caller (setuid).
fn has_more_rights() -> bool {
    // SAFETY: takes a constant.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

fn ignored(name: &str, value: &CStr, cause: impl fmt::Display) {
    let value = value.to_str().unwrap_or("(not text)");
    complain(format_args!("{name}={value} is ignored: {cause}"));
}

/// A copy of a value, because programs overwrite their environment to show another title.
fn keep(value: &CStr) -> Option<&'static CStr> {
    let text = value.to_bytes_with_nul();
    let start = kernel::reserve(text.len()).ok()?;
    // SAFETY: just reserved for the text, which is kept for the lifetime of the process.
    unsafe {
        kernel::commit(start, text.len()).ok()?;
        (start as *mut u8).copy_from_nonoverlapping(text.as_ptr(), text.len());
        Some(CStr::from_ptr(start as *const c_char))
    }
}

/// All variables that are read here, by the index of their name.
const NAMES: [&str; 11] = [
    ALLOC_BACKGROUND_THREAD,
    ALLOC_HARDEN,
    ALLOC_LARGE,
    ALLOC_ORIGIN,
    ALLOC_PROFILE,
    ALLOC_PROFILE_PERIOD,
    ALLOC_SHARING,
    ALLOC_STATS,
    ALLOC_STATS_FILE,
    ALLOC_STATS_SIGNAL,
    ALLOC_THP,
];

/// The values of the variables that the environment has.
struct Variables([Option<&'static CStr>; NAMES.len()]);

impl Variables {
    /// Finds them in the block with which the program was started.
    fn find() -> Self {
        unsafe extern "C" {
            static environ: *const *const c_char;
        }
        let mut found = Self([None; NAMES.len()]);
        // SAFETY: the C library's pointer; null before it has started.
        let mut entry = unsafe { environ };
        // SAFETY: the block ends with a null pointer, at which the loop ends; entries are
        // terminated strings.
        unsafe {
            while !entry.is_null() && !(*entry).is_null() {
                found.note(CStr::from_ptr(*entry));
                entry = entry.add(1);
            }
        }
        found
    }

    /// Keeps the value of an entry, if it is one of these variables. If a name occurs twice, the
    /// first one counts, as in the C library.
    fn note(&mut self, entry: &'static CStr) {
        let text = entry.to_bytes_with_nul();
        if !text.starts_with(b"NUMAPILOT_ALLOC_") {
            return;
        }
        for (value, name) in self.0.iter_mut().zip(NAMES) {
            let rest = text.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
            if let Some(rest) = rest.filter(|_| value.is_none()) {
                *value = CStr::from_bytes_with_nul(rest).ok();
            }
        }
    }

    fn get(&self, name: &str) -> Option<&'static CStr> {
        self.0[NAMES.iter().position(|&known| known == name)?]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(entries: &[&'static CStr]) -> Config {
        let mut variables = Variables([None; NAMES.len()]);
        entries.iter().for_each(|entry| variables.note(entry));
        asked_for(&variables)
    }

    #[test]
    fn names_are_distinguished_and_the_first_of_two_counts() {
        let config = from(&[
            c"NUMAPILOT_ALLOC_STATS_SIGNAL=12",
            c"NUMAPILOT_ALLOC_BACKGROUND_THREAD=0",
            c"NUMAPILOT_ALLOC_STATS=json",
            c"NUMAPILOT_ALLOC_STATS=text",
            c"NUMAPILOT_ALLOC_THP",
            c"XNUMAPILOT_ALLOC_ORIGIN=0",
            c"NUMAPILOT_ALLOC_PROFILE_PERIOD=77",
            c"NUMAPILOT_ALLOC_OTHER=1",
        ]);
        assert_eq!((config.stats, config.stats_signal), (Some(Format::Json), Some(12)));
        assert!(!config.background_thread && config.huge_pages && config.origin);
        assert_eq!((config.profile, config.profile_period), (None, 77));
    }

    #[test]
    fn every_name_has_a_place() {
        let mut variables = Variables([None; NAMES.len()]);
        assert!(NAMES.iter().all(|name| variables.get(name).is_none()));
        variables.note(c"NUMAPILOT_ALLOC_LARGE=");
        assert_eq!(variables.get(ALLOC_LARGE), Some(c""));
        assert!(asked_for(&variables).stats_file.is_none());
    }

    #[test]
    fn formats_have_names() {
        assert_eq!(Format::parse(b"json"), Some(Format::Json));
        assert_eq!(Format::parse(b"yaml"), None);
        assert_eq!(Format::parse(b""), None);
    }
}

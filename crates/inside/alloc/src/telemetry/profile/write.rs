//! Writes the profile in pprof's format.
//!
//! Source: `proto/profile.proto` of github.com/google/pprof, which defines these field numbers.
//! Functions have no names here: pprof finds them in the mapped files.

use super::encode::Write;
use super::mappings;
use super::table::{Entry, Table};
use crate::os::output::{Output, Sink};

/// Fields of a profile.
mod field {
    pub const SAMPLE_TYPE: u64 = 1;
    pub const SAMPLE: u64 = 2;
    pub const MAPPING: u64 = 3;
    pub const LOCATION: u64 = 4;
    pub const STRING_TABLE: u64 = 6;
    pub const DROP_FRAMES: u64 = 7;
    pub const TIME_NANOS: u64 = 9;
    pub const PERIOD_TYPE: u64 = 11;
    pub const PERIOD: u64 = 12;
    pub const COMMENT: u64 = 13;
    pub const DEFAULT_SAMPLE_TYPE: u64 = 14;
}

/// Texts by number. The first must be empty; after them come the mapped files.
const STRINGS: [&str; 10] = [
    "",
    "alloc_objects",
    "count",
    "alloc_space",
    "bytes",
    "inuse_objects",
    "inuse_space",
    "space",
    // In a statically linked program, the library's functions cannot be recognised by their file.
    "numapilot_alloc::.*|(aligned_|re|m|c|p?v)alloc|reallocarray|(posix_)?memalign|operator new.*",
    "samples were lost: more different stacks than the profile has room for",
];
const COUNT: u64 = 2;
const BYTES: u64 = 4;
const IN_USE_SPACE: u64 = 6;
const SPACE: u64 = 7;
const OWN_FUNCTIONS: u64 = 8;
const LOST: u64 = 9;
/// Kinds of values, in their order in a sample.
const VALUES: [(u64, u64); 4] = [(1, COUNT), (3, BYTES), (5, COUNT), (IN_USE_SPACE, BYTES)];

/// How the name of the shared library's file begins; its own calls are left out of the stacks.
const OWN_FILE: &[u8] = b"libnumapilot_alloc";

/// Most mappings whose addresses are distinguished.
const MAPPINGS: usize = 1024;

/// A range of code.
#[derive(Clone, Copy)]
struct Code {
    start: usize,
    end: usize,
    is_own: bool,
}

/// Writes the profile.
pub fn write(table: &Table, period: u64, sink: Sink<'_>) -> Result<(), i32> {
    let mut output = Output::new(sink);
    for (name, unit) in VALUES {
        output.message(field::SAMPLE_TYPE, |kind| {
            kind.integer(1, name);
            kind.integer(2, unit);
        });
    }
    for text in STRINGS {
        output.blob(field::STRING_TABLE, text.as_bytes());
    }
    let mut code = [Code { start: 0, end: 0, is_own: false }; MAPPINGS];
    let code = write_mappings(&mut output, &mut code);
    let mapping_of = |address: usize| {
        let number = code.partition_point(|code| code.end <= address);
        code.get(number).filter(|code| code.start <= address).map(|code| (number + 1, code))
    };
    for (number, &address) in (1..).zip(table.locations()) {
        output.message(field::LOCATION, |location| {
            location.integer(1, number);
            location.integer(2, mapping_of(address).map_or(0, |(mapping, _)| mapping as u64));
            location.integer(3, address as u64);
        });
    }
    let is_own = |&location: &u32| {
        let address = table.locations().get(location as usize - 1);
        address.and_then(|&address| mapping_of(address)).is_some_and(|(_, code)| code.is_own)
    };
    for entry in table.entries() {
        let own = entry.locations().iter().take_while(|location| is_own(location)).count();
        output.message(field::SAMPLE, |sample| {
            let locations = entry.locations()[own..].iter();
            sample.integers(1, locations.map(|&location| u64::from(location)));
            sample.integers(2, values(entry, period).into_iter());
            sample.message(3, |label| {
                label.integer(1, BYTES);
                label.integer(3, entry.size);
                label.integer(4, BYTES);
            });
        });
    }
    output.integer(field::DROP_FRAMES, OWN_FUNCTIONS);
    output.integer(field::TIME_NANOS, now_ns());
    output.message(field::PERIOD_TYPE, |kind| {
        kind.integer(1, SPACE);
        kind.integer(2, BYTES);
    });
    output.integer(field::PERIOD, period);
    if table.lost > 0 {
        output.integer(field::COMMENT, LOST);
    }
    output.integer(field::DEFAULT_SAMPLE_TYPE, IN_USE_SPACE);
    output.finish()
}

/// Writes the mappings and their files' names, which follow [`STRINGS`].
fn write_mappings<'a>(output: &mut Output<'_>, code: &'a mut [Code]) -> &'a [Code] {
    let mut count = 0;
    mappings::each(|mapping| {
        let Some(slot) = code.get_mut(count) else { return };
        let name = mapping.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let is_own = name.starts_with(OWN_FILE);
        *slot = Code { start: mapping.start, end: mapping.end, is_own };
        output.blob(field::STRING_TABLE, mapping.path);
        output.message(field::MAPPING, |message| {
            message.integer(1, count as u64 + 1);
            message.integer(2, mapping.start as u64);
            message.integer(3, mapping.end as u64);
            message.integer(4, mapping.offset as u64);
            message.integer(5, (STRINGS.len() + count) as u64);
        });
        count += 1;
    });
    &code[..count]
}

/// The values that the samples of an entry represent.
fn values(entry: &Entry, period: u64) -> [u64; 4] {
    let share = 1.0 - exp_of_negative(entry.size as f64 / period as f64);
    let of = |samples: u64| {
        let objects = samples as f64 / share;
        // Positive, and far below 2^63.
        [(objects + 0.5) as u64, (objects * entry.size as f64 + 0.5) as u64]
    };
    let [allocated, held] = [entry.allocated, entry.allocated - entry.freed].map(of);
    [allocated[0], allocated[1], held[0], held[1]]
}

/// `exp(-x)` for positive `x`, without the mathematical library: the series near 0, squared.
fn exp_of_negative(x: f64) -> f64 {
    const SQUARINGS: i32 = 10;
    if x > 50.0 {
        return 0.0;
    }
    let y = x / f64::from(1 << SQUARINGS);
    let mut power = 1.0 - y * (1.0 - y / 2.0 * (1.0 - y / 3.0 * (1.0 - y / 4.0)));
    for _ in 0..SQUARINGS {
        power *= power;
    }
    power
}

fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec; this clock cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn the_exponential_function_is_right() {
        for x in [1e-7, 3e-5, 0.01, 0.5, 1.0, 3.0, 10.0, 30.0, 100.0] {
            let (found, right) = (1.0 - exp_of_negative(x), 1.0 - (-x).exp());
            assert!((found / right - 1.0).abs() < 1e-6, "{x}: {found}, {right}");
        }
    }

    #[test]
    fn samples_stand_for_what_was_not_sampled() {
        let mut table = Table::NONE;
        table.start().unwrap();
        for _ in 0..10 {
            let _ = table.enter(&[1], 64);
        }
        table.leave(1);
        // Very close to the period itself for small objects.
        let [objects, bytes, held, held_bytes] = values(&table.entries()[0], 512 << 10);
        assert_eq!((objects, held), (81_925, 73_733));
        assert!((bytes as i64 - 10 * (512 << 10)).abs() < 400, "{bytes}");
        assert!((held_bytes as i64 - 9 * (512 << 10)).abs() < 400, "{held_bytes}");
        // All objects far above the period are sampled.
        let _ = table.enter(&[1], 1 << 30);
        assert_eq!(values(&table.entries()[1], 512 << 10), [1, 1 << 30, 1, 1 << 30]);
    }
}

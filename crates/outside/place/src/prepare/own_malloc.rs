//! Programs that bring a malloc of their own.
//!
//! The dynamic loader resolves `malloc` in the program first and in preloaded libraries
//! after it, so a `malloc` the program exports wins; and a program linked with a prefixed
//! allocator (Redis calls `je_malloc`) never asks for `malloc` at all.

use std::fs::File;
use std::io;
use std::path::Path;

use object::read::{Object, ObjectSymbol, ReadCache};

/// Exported by the program, these win over a preloaded library.
const EXPORTED: [&str; 2] = ["malloc", "_Znwm"];
/// Prefixed entry points of allocators that are linked in.
const PREFIXED: [&str; 5] = ["je_malloc", "mi_malloc", "tc_malloc", "sn_malloc", "rpmalloc"];

/// The symbol by which `program` has its own malloc, if it has one. A stripped program
/// with a prefixed allocator cannot be told from others.
///
/// # Errors
/// When the file cannot be read; one that is not ELF has none.
pub(super) fn own_malloc(program: &Path) -> io::Result<Option<&'static str>> {
    let cache = ReadCache::new(File::open(program)?);
    let Ok(file) = object::File::parse(&cache) else { return Ok(None) };
    let exported = file
        .dynamic_symbols()
        .filter(|s| s.is_definition())
        .find_map(|s| one_of(&EXPORTED, s.name().ok()?).or(one_of(&PREFIXED, s.name().ok()?)));
    Ok(exported.or_else(|| {
        file.symbols().filter(|s| s.is_definition()).find_map(|s| one_of(&PREFIXED, s.name().ok()?))
    }))
}

fn one_of(names: &[&'static str], name: &str) -> Option<&'static str> {
    names.iter().copied().find(|n| *n == name)
}

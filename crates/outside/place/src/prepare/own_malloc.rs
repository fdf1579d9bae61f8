//! Programs with their own malloc.
//!
//! The dynamic loader resolves `malloc` first in the program and then in preloaded libraries, so a
//! `malloc` that the program exports takes precedence. A hidden one (linked with hidden visibility)
//! is called without the loader, and a program that is linked with a prefixed allocator (Redis
//! calls `je_malloc`) does not use `malloc`.

use std::fs::File;
use std::io;
use std::path::Path;

use memchr::memmem;
use object::Endianness;
use object::read::elf::{ElfFile64, Sym};
use object::read::{Object, ObjectSection, ObjectSymbol, ReadCache, ReadRef};

/// Functions that take precedence over a preloaded library if the program defines them: malloc, and
/// C++'s operator new. The latter is no malloc of the program's own if the program imports malloc,
/// because it is then that of a C++ library that is statically linked (`-static-libstdc++`).
const REPLACED: [&str; 2] = [MALLOC, "_Znwm"];
const MALLOC: &str = "malloc";
/// Functions that allocate memory for a file that imports them: directly, or in the C library,
/// which calls the `malloc` that the loader has found.
const ALLOCATING: [&str; 17] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "valloc",
    "pvalloc",
    "strdup",
    "strndup",
    "asprintf",
    "vasprintf",
    "getline",
    "getdelim",
    "open_memstream",
    "realpath",
];
/// Prefixes of the names of C++'s operator new and of the allocating functions of its library.
const ALLOCATING_CPP: [&str; 3] = ["_Znw", "_Zna", "_ZNSt"];
/// Prefixed entry points of linked allocators.
pub(crate) const PREFIXED: [&str; 5] =
    ["je_malloc", "mi_malloc", "tc_malloc", "sn_malloc", "rpmalloc"];
/// The end of each of these names in a string table.
const TAIL: &[u8] = b"malloc\0";

/// Messages of allocators with their names, which are also present in files without symbols.
const MESSAGES: [(&[u8], &str); 2] =
    [(b"mimalloc: warning: ", "mimalloc"), (b"<jemalloc>: ", "jemalloc")];

/// The symbol of `program`'s own malloc, if it has one. A stripped program with a prefixed or
/// hidden allocator cannot be recognised.
///
/// # Errors
/// If the file cannot be read. A file that is not ELF has none.
pub(crate) fn own_malloc(program: &Path) -> io::Result<Option<&'static str>> {
    let cache = ReadCache::new(File::open(program)?);
    let Ok(file) = object::File::parse(&cache) else { return Ok(None) };
    let imports_malloc = file
        .dynamic_symbols()
        .any(|s| s.is_undefined() && s.name_bytes().is_ok_and(|name| name == MALLOC.as_bytes()));
    let replaced = if imports_malloc { &[MALLOC] } else { &REPLACED[..] };
    let exported = file.dynamic_symbols().filter(|s| s.is_definition()).find_map(|s| {
        let name = s.name_bytes().ok()?;
        one_of(replaced, name).or_else(|| one_of(&PREFIXED, name))
    });
    // Large programs have hundreds of thousands of symbols. Their names are searched as one text,
    // because the program is waiting to start.
    Ok(exported.or_else(|| {
        let names = file.section_by_name(".strtab")?.data().ok()?;
        let prefixed = memmem::find_iter(names, TAIL).find_map(|at| {
            let start = names[..at].iter().rposition(|b| *b == 0).map_or(0, |zero| zero + 1);
            one_of(&PREFIXED, &names[start..at + TAIL.len() - 1])
        });
        prefixed.or_else(|| match &file {
            object::File::Elf64(file) => hidden(file, names, replaced),
            _ => None,
        })
    }))
}

/// The malloc that a program defines but does not export. A name in the string table may be the end
/// of another one, so it is searched by its position.
fn hidden<'data, R: ReadRef<'data>>(
    file: &ElfFile64<'data, Endianness, R>,
    names: &[u8],
    replaced: &[&'static str],
) -> Option<&'static str> {
    replaced.iter().copied().find(|name| {
        let whole = [name.as_bytes(), b"\0"].concat();
        let places: Vec<usize> = memmem::find_iter(names, &whole).collect();
        let is_it = |symbol: &object::elf::Sym64<Endianness>| {
            let place = symbol.st_name(file.endian()) as usize;
            places.contains(&place)
                && symbol.st_type() == object::elf::STT_FUNC
                && !symbol.is_undefined(file.endian())
        };
        !places.is_empty() && file.elf_symbol_table().iter().any(is_it)
    })
}

/// Whether `program` defines a function named `malloc`.
///
/// # Errors
/// If the file cannot be read. A file that is not ELF does not.
pub(crate) fn replaces_malloc(program: &Path) -> io::Result<bool> {
    Ok(own_malloc(program)?.is_some_and(|name| REPLACED.contains(&name)))
}

/// Whether a program or library allocates memory with the `malloc` that the loader finds.
///
/// # Errors
/// If the file cannot be read. A file that is not ELF does not.
pub(crate) fn imports_malloc(file: &Path) -> io::Result<bool> {
    let cache = ReadCache::new(File::open(file)?);
    let Ok(file) = object::File::parse(&cache) else { return Ok(false) };
    let mut imported = file.dynamic_symbols().filter(|symbol| symbol.is_undefined());
    Ok(imported.any(|symbol| {
        symbol.name().is_ok_and(|name| {
            ALLOCATING.contains(&name) || ALLOCATING_CPP.iter().any(|start| name.starts_with(start))
        })
    }))
}

/// The entry point of an allocator that is linked into a library or program, under its name there:
/// DuckDB's jemalloc is `duckdb_je_malloc`. If symbols are stripped, the name of the allocator,
/// from its messages.
///
/// # Errors
/// If the file cannot be read. A file that is not ELF has none.
pub(crate) fn embedded(file: &Path) -> io::Result<Option<String>> {
    let cache = ReadCache::new(File::open(file)?);
    let Ok(file) = object::File::parse(&cache) else { return Ok(None) };
    let is_allocator = |name: &str| {
        PREFIXED.iter().any(|known| {
            name.strip_suffix(known).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
        })
    };
    let symbol = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| symbol.name().ok())
        .find(|name| is_allocator(name));
    let by_message = || {
        let texts = file.section_by_name(".rodata")?.data().ok()?;
        let found = MESSAGES.iter().find(|(message, _)| memmem::find(texts, message).is_some());
        found.map(|(_, name)| *name)
    };
    Ok(symbol.or_else(by_message).map(str::to_owned))
}

/// Whether a library replaces `malloc` when it is preloaded.
///
/// # Errors
/// If the file cannot be read. A file that is not ELF does not.
pub(crate) fn exports_malloc(library: &Path) -> io::Result<bool> {
    let cache = ReadCache::new(File::open(library)?);
    let Ok(file) = object::File::parse(&cache) else { return Ok(false) };
    let mut exported = file.dynamic_symbols().filter(|s| s.is_definition());
    Ok(exported.any(|s| s.name_bytes().is_ok_and(|name| name == b"malloc")))
}

fn one_of(names: &[&'static str], name: &[u8]) -> Option<&'static str> {
    names.iter().copied().find(|n| n.as_bytes() == name)
}

//! The parts of a program or library that are the code of an allocator.
//!
//! Source: elf(5); the GNU C library's malloc/Makefile and malloc/malloc.c. A file with all symbols
//! names the functions. One with exported symbols only does not name an allocator's internal
//! functions (`_int_malloc`). Those stand next to the exported ones, because a linker keeps the
//! code of a source file together. So the range then extends to the nearest exported functions of
//! others. It may contain some code that is no allocator's, but hardly misses any: a share of time
//! that is computed from it is an upper bound.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use object::read::elf::{ElfFile64, ProgramHeader};
use object::read::{Object, ObjectSymbol, ReadCache, ReadRef};
use object::{Endianness, SymbolKind};

use super::known_file;
use crate::prepare::own_malloc::PREFIXED;

/// Functions of an allocator, without underscores before them and without `libc_`.
const FUNCTIONS: [&str; 24] = [
    "malloc",
    "free",
    "cfree",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "malloc_trim",
    "malloc_usable_size",
    "mallinfo",
    "mallinfo2",
    "malloc_stats",
    "mallopt",
    "malloc_info",
    "free_sized",
    "free_aligned_sized",
    "default_morecore",
    "malloc_get_state",
    "malloc_set_state",
    "unlink_chunk",
];

/// Beginnings of the names of glibc's internal functions, and of C++'s operators new and delete.
const BEGINNINGS: [&str; 21] = [
    "_int_malloc",
    "_int_free",
    "_int_realloc",
    "_int_memalign",
    "malloc_consolidate",
    "unlink_chunk",
    "sysmalloc",
    "systrim",
    "tcache_",
    "arena_get2",
    "ptmalloc_init",
    "new_heap",
    "heap_trim",
    "shrink_heap",
    "alloc_new_heap",
    "munmap_chunk",
    "mremap_chunk",
    "_Znw",
    "_Zna",
    "_Zdl",
    "_Zda",
];

/// The parts of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocatorCode {
    ranges: Vec<Range<u64>>,
}

impl AllocatorCode {
    /// Finds them in the file with this inode. A file that is not ELF has none.
    ///
    /// # Errors
    /// If the file cannot be read, or the path leads to another one (in another mount namespace, or
    /// replaced since).
    pub fn of(path: &Path, inode: u64) -> io::Result<Self> {
        // A named pipe must not block.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.ino() != inode {
            return Err(io::Error::other("the path leads to another file"));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if known_file(&name).is_some() {
            let whole = 0..u64::MAX;
            return Ok(Self { ranges: Vec::from([whole]) });
        }
        Ok(Self::in_elf(file).unwrap_or_default())
    }

    /// Whether the byte at this offset in the file belongs to an allocator.
    #[must_use]
    pub fn contains(&self, offset: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(&offset))
    }

    fn in_elf(file: File) -> Option<Self> {
        let cache = ReadCache::new(file);
        let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        let (functions, is_complete) = functions(&elf);
        let names = functions.iter().map(|function| function.name.as_str());
        let prefixes: Vec<String> = names.filter_map(prefix).map(str::to_owned).collect();
        let is_allocator = |function: &Function| {
            is_function(&function.name) || {
                let name = function.name.trim_start_matches('_');
                prefixes.iter().any(|prefix| name.starts_with(prefix.trim_start_matches('_')))
            }
        };
        let mut ranges = Vec::new();
        for (at, function) in functions.iter().enumerate().filter(|(_, f)| is_allocator(f)) {
            let (mut start, mut end) = (function.start, function.end);
            if !is_complete {
                let before = functions[..at].iter().rfind(|other| !is_allocator(other));
                let after = functions[at..].iter().find(|other| !is_allocator(other));
                start = before.map_or(start, |other| other.end.min(start));
                end = after.map_or(end, |other| other.start.max(end));
            }
            ranges.push(start..end);
        }
        Some(Self { ranges: in_file(&elf, merged(ranges)) })
    }
}

/// A function at these addresses.
struct Function {
    start: u64,
    end: u64,
    name: String,
}

/// The functions of a file in the order of their addresses, and whether all are named.
fn functions<'data, R: ReadRef<'data>>(
    elf: &ElfFile64<'data, Endianness, R>,
) -> (Vec<Function>, bool) {
    let is_complete = elf.symbols().next().is_some();
    let symbols: Vec<_> =
        if is_complete { elf.symbols().collect() } else { elf.dynamic_symbols().collect() };
    let function = |symbol: &object::read::elf::ElfSymbol64<'data, '_, Endianness, R>| {
        let is_code = symbol.kind() == SymbolKind::Text && symbol.is_definition();
        let (start, size) = (symbol.address(), symbol.size());
        is_code.then(|| {
            Some(Function { start, end: start + size, name: symbol.name().ok()?.into() })
        })?
    };
    let mut functions: Vec<Function> = symbols.iter().filter_map(function).collect();
    functions.sort_by_key(|function| (function.start, function.end));
    (functions, is_complete)
}

fn is_function(name: &str) -> bool {
    let bare = name.trim_start_matches('_');
    let bare = bare.strip_prefix("libc_").unwrap_or(bare);
    FUNCTIONS.contains(&bare) || BEGINNINGS.iter().any(|start| name.starts_with(start))
}

/// The prefix of all functions of an allocator whose entry point this is: `duckdb_je_` of
/// `duckdb_je_malloc`.
fn prefix(name: &str) -> Option<&str> {
    let known = PREFIXED.iter().find(|known| {
        let rest = name.strip_suffix(**known);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
    });
    known.and_then(|_| name.strip_suffix("malloc"))
}

/// The union of ranges.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Addresses as offsets in the file, by the segments that are loaded.
fn in_file<'data, R: ReadRef<'data>>(
    elf: &ElfFile64<'data, Endianness, R>,
    addresses: Vec<Range<u64>>,
) -> Vec<Range<u64>> {
    let endian = elf.endian();
    let loaded =
        elf.elf_program_headers().iter().filter(|h| h.p_type(endian) == object::elf::PT_LOAD);
    let segments: Vec<(u64, u64, u64)> = loaded
        .map(|header| (header.p_vaddr(endian), header.p_filesz(endian), header.p_offset(endian)))
        .collect();
    let offset = |range: Range<u64>| {
        let within =
            |(start, size, _): &&(u64, u64, u64)| (*start..start + size).contains(&range.start);
        let (start, size, offset) = segments.iter().find(within)?;
        Some(range.start - start + offset..range.end.min(start + size) - start + offset)
    };
    addresses.into_iter().filter_map(offset).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocators::installed;

    fn inode(path: &Path) -> u64 {
        path.metadata().unwrap().ino()
    }

    #[test]
    fn malloc_and_what_stands_with_it_in_the_c_library() {
        let maps = std::fs::read("/proc/self/maps").unwrap();
        let files = crate::allocators::executable_files(&maps);
        let libc = files.iter().find(|file| file.ends_with("libc.so.6")).unwrap();
        let code = AllocatorCode::of(libc, inode(libc)).unwrap();
        let elf = ReadCache::new(File::open(libc).unwrap());
        let elf = ElfFile64::<Endianness, _>::parse(&elf).unwrap();
        let contains = |name: &str| {
            let symbol = elf.dynamic_symbols().find(|s| s.name() == Ok(name)).unwrap();
            // A function is at the same distance from the start of its segment in memory and file.
            let range = symbol.address()..symbol.address() + 1;
            code.contains(in_file(&elf, vec![range])[0].start)
        };
        for name in ["malloc", "free", "calloc", "realloc", "posix_memalign"] {
            assert!(contains(name), "{name}");
        }
        for name in ["qsort", "printf", "fopen", "pthread_create", "getenv", "strdup"] {
            assert!(!contains(name), "{name}");
        }
        let bytes: u64 = code.ranges.iter().map(|range| range.end - range.start).sum();
        assert!((4 << 10..128 << 10).contains(&bytes), "{bytes} bytes in {:?}", code.ranges);
        assert!(AllocatorCode::of(libc, 1).is_err());
    }

    #[test]
    fn a_known_allocator_is_all_of_its_file() {
        let Some(found) = installed().into_iter().next() else {
            println!("skipped: no allocator is installed");
            return;
        };
        let code = AllocatorCode::of(&found.path, inode(&found.path)).unwrap();
        assert!(code.contains(0) && code.contains(1 << 40));
    }

    #[test]
    fn other_files_have_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let code = AllocatorCode::of(file.path(), inode(file.path())).unwrap();
        assert!(!code.contains(0));
        assert!(AllocatorCode::of(Path::new("/dev/null"), inode(Path::new("/dev/null"))).is_err());
    }

    #[test]
    fn names_of_functions() {
        for name in ["malloc", "__libc_malloc", "_int_free_chunk", "_Znwm", "cfree", "__libc_free"]
        {
            assert!(is_function(name), "{name}");
        }
        for name in ["obstack_free", "freeaddrinfo", "my_malloc", "mi_scan", "strdup"] {
            assert!(!is_function(name), "{name}");
        }
        assert_eq!(prefix("duckdb_je_malloc"), Some("duckdb_je_"));
        assert_eq!(prefix("mi_malloc"), Some("mi_"));
        assert_eq!(prefix("semi_malloc"), None);
        assert_eq!(merged(vec![9..12, 5..7, 1..3, 2..4, 4..5]), [1..7, 9..12]);
    }
}

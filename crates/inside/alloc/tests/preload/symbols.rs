//! The names in a shared library, and the addresses in its data, as `objdump` shows them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use crate::disassembly::objdump;

/// One line of the symbol table.
pub struct Symbol<'a> {
    pub start: u64,
    pub bytes: u64,
    pub flags: &'a str,
    pub section: &'a str,
    name: String,
}

impl<'a> Symbol<'a> {
    /// Reads `ADDRESS FLAGS SECTION\tSIZE [VISIBILITY] NAME`.
    pub fn read(line: &'a str) -> Option<Self> {
        let (left, right) = line.split_once('\t')?;
        let (bytes, name) = right.split_once(' ')?;
        Some(Self {
            start: u64::from_str_radix(left.get(..16)?, 16).ok()?,
            bytes: u64::from_str_radix(bytes, 16).ok()?,
            flags: left.get(17..24)?,
            section: left.get(25..)?,
            name: name.trim_start().to_owned(),
        })
    }

    pub fn is_function(&self) -> bool {
        self.flags.ends_with('F')
    }

    pub fn is_exported(&self) -> bool {
        !self.flags.starts_with('l') && !self.name.starts_with('.')
    }

    /// The name as a person would write it, without visibility and the compiler's hash.
    pub fn plain_name(&self) -> String {
        let name = self.name.strip_prefix(".hidden ").unwrap_or(&self.name);
        match name.rsplit_once("::h") {
            Some((path, hash))
                if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) =>
            {
                path.to_owned()
            }
            _ => name.to_owned(),
        }
    }
}

/// The value that the dynamic linker writes to an address.
pub enum Pointer {
    Address(u64),
    Symbol(String),
}

/// The ranges of sections, by name: lines of `INDEX NAME SIZE ADDRESS ...`.
pub fn sections(library: &Path) -> BTreeMap<String, Range<u64>> {
    let table = objdump(&["-h", "-w"], library);
    let section = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let name = words.next()?.to_owned();
        let bytes = u64::from_str_radix(words.next()?, 16).ok()?;
        let start = u64::from_str_radix(words.next()?, 16).ok()?;
        Some((name, start..start + bytes))
    };
    table.lines().filter_map(section).collect()
}

/// Functions by their start. Those without a size, written in assembler, extend to the next, or to
/// the end of their section.
pub fn functions(
    symbols: &[Symbol],
    sections: &BTreeMap<String, Range<u64>>,
    code: &BTreeMap<u64, String>,
) -> BTreeMap<u64, (u64, String)> {
    let sized = symbols.iter().filter(|symbol| symbol.is_function() && symbol.bytes > 0);
    let mut functions: BTreeMap<u64, (u64, String)> = BTreeMap::new();
    for symbol in sized {
        let entry = (symbol.start + symbol.bytes, symbol.plain_name());
        functions.entry(symbol.start).or_insert(entry);
    }
    let labels: BTreeMap<u64, &Symbol> = symbols
        .iter()
        .filter(|symbol| symbol.bytes == 0 && !symbol.flags.contains('d'))
        .filter(|symbol| code.contains_key(&symbol.start))
        .filter(|symbol| {
            let before = functions.range(..=symbol.start).next_back();
            before.is_none_or(|(_, (end, _))| *end <= symbol.start)
        })
        .map(|symbol| (symbol.start, symbol))
        .collect();
    for (start, symbol) in &labels {
        let function = functions.range(start + 1..).next().map(|(next, _)| *next);
        let label = labels.range(start + 1..).next().map(|(next, _)| *next);
        let section = sections.get(symbol.section).map(|section| section.end);
        let end = [function, label, section].into_iter().flatten().min().unwrap_or(u64::MAX);
        functions.insert(*start, (end, symbol.plain_name()));
    }
    functions
}

/// The dynamic relocations: lines of `OFFSET TYPE VALUE`.
pub fn pointers(library: &Path) -> BTreeMap<u64, Pointer> {
    const WRITTEN: [&str; 5] = ["RELATIVE", "GLOB_DAT", "JUMP_SLOT", "64", "IRELATIVE"];
    let table = objdump(&["-R", "-C", "-w"], library);
    let pointer = |line: &str| {
        let (offset, rest) = line.split_once(' ')?;
        let (kind, value) = rest.trim_start().split_once(' ')?;
        if !WRITTEN.contains(&kind.strip_prefix("R_X86_64_")?) {
            return None;
        }
        let value = value.trim_start();
        let pointer = match value.strip_prefix("*ABS*+0x") {
            Some(address) => Pointer::Address(u64::from_str_radix(address, 16).ok()?),
            // Without the version, or an addend.
            None => Pointer::Symbol(value.split(['@', '+']).next()?.to_owned()),
        };
        Some((u64::from_str_radix(offset, 16).ok()?, pointer))
    };
    table.lines().filter_map(pointer).collect()
}

//! The allocator with which a program is linked.
//!
//! Source: elf(5) (`DT_NEEDED`).

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use object::Endianness;
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::ReadCache;
use object::read::elf::{Dyn, FileHeader};

use super::{Known, known_file};

/// The allocator among the libraries that a program names itself: Debian's Redis names jemalloc's.
/// `None` also for a file that cannot be read, and for a script.
#[must_use]
pub fn linked(program: &Path) -> Option<&'static Known> {
    let data = &ReadCache::new(File::open(program).ok()?);
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, data).ok()?;
    let (entries, link) = sections.dynamic(endian, data).ok()??;
    let strings = sections.strings(endian, data, link).ok()?;
    let needed = entries.iter().filter(|entry| entry.tag(endian) == DT_NEEDED);
    let names = needed.filter_map(|entry| entry.string(endian, strings).ok());
    names.map(|name| OsStr::from_bytes(name).to_string_lossy()).find_map(|name| known_file(&name))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_library_of_an_allocator_is_found_by_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        std::fs::write(file("main.c"), "int main(void) { return 0; }\n").unwrap();
        std::fs::write(file("empty.c"), "int nothing;\n").unwrap();
        let cc = |arguments: &[&str]| {
            Command::new("cc").current_dir(&directory).args(arguments).status()
        };
        let library = "libjemalloc.so.2";
        let shared = ["-shared", "-Wl,-soname,libjemalloc.so.2", "-o", library, "empty.c"];
        if !cc(&shared).is_ok_and(|status| status.success()) {
            println!("skipped: no C compiler");
            return;
        }
        assert!(cc(&["-o", "plain", "main.c"]).unwrap().success());
        let with = ["-o", "with", "main.c", "-Wl,--no-as-needed", library];
        assert!(cc(&with).unwrap().success());
        assert_eq!(linked(&file("with")).map(|known| known.name), Some("jemalloc"));
        assert!(linked(&file("plain")).is_none());
        assert!(linked(&file("main.c")).is_none());
        assert!(linked(&file("missing")).is_none());
    }
}

//! The mapped files with code, from `/proc/self/maps` (proc(5)).

use numapilot_syscall::file::File;

/// Longest line: a path of 4096 bytes and the numbers before it.
const LINE: usize = 4608;

/// A range of addresses with code.
#[derive(Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// Its first address.
    pub start: usize,
    /// Its end.
    pub end: usize,
    /// Its position in the file.
    pub offset: usize,
    /// The file; empty or in brackets for memory without a file.
    pub path: &'a [u8],
}

/// Visits every mapping with code, in the order of their addresses.
pub fn each(mut look: impl FnMut(Mapping<'_>)) {
    let Ok(file) = File::open(c"/proc/self/maps") else { return };
    let mut buffer = [0; LINE];
    let mut filled = 0;
    while let Ok(bytes) = file.read(&mut buffer[filled..])
        && bytes > 0
    {
        filled += bytes;
        let mut start = 0;
        while let Some(length) = buffer[start..filled].iter().position(|&byte| byte == b'\n') {
            if let Some(mapping) = parse(&buffer[start..start + length]) {
                look(mapping);
            }
            start += length + 1;
        }
        buffer.copy_within(start..filled, 0);
        filled -= start;
    }
}

/// A line of the file, if it describes code.
fn parse(line: &[u8]) -> Option<Mapping<'_>> {
    let mut rest = line;
    let mut word = || {
        let length = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        rest = after.strip_prefix(b" ").unwrap_or_default();
        word
    };
    let (range, rights, offset) = (word(), word(), word());
    let (_device, _inode) = (word(), word());
    let path = rest.trim_ascii_start();
    let dash = range.iter().position(|&byte| byte == b'-')?;
    let number = |text: &[u8]| usize::from_str_radix(str::from_utf8(text).ok()?, 16).ok();
    let mapping = Mapping {
        start: number(&range[..dash])?,
        end: number(&range[dash + 1..])?,
        offset: number(offset)?,
        path,
    };
    rights.contains(&b'x').then_some(mapping)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let line = b"55d0a000-55d0b000 r-xp 00001000 08:01 1048602                    /bin/a b";
        let expected =
            Mapping { start: 0x55d0_a000, end: 0x55d0_b000, offset: 0x1000, path: b"/bin/a b" };
        assert_eq!(parse(line), Some(expected));
        let anonymous = parse(b"7f00-7f10 rwxp 00000000 00:00 0").unwrap();
        assert_eq!((anonymous.start, anonymous.path), (0x7f00, &b""[..]));
        assert_eq!(parse(b"7f00-7f10 rw-p 00000000 00:00 0 [stack]"), None);
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"nonsense r-xp"), None);
    }

    #[test]
    fn our_own_code_is_found() {
        let here = each as fn(fn(Mapping<'_>)) as usize;
        let (mut found, mut last) = (false, 0);
        each(|mapping| {
            assert!(last <= mapping.start && mapping.start < mapping.end);
            last = mapping.end;
            found |= (mapping.start..mapping.end).contains(&here);
        });
        assert!(found);
    }
}

//! Moves all writable memory that a forked child has inherited, for programs that choose no ranges.
//!
//! Source: proc_pid_maps(5).

use numapilot_syscall::file::File;

use crate::rehome::rehome_range;

/// A line is a path plus less than a hundred bytes.
const BUFFER: usize = 8192;

/// Moves the private writable mappings of at least `least_bytes` bytes to the node where the caller
/// runs, as far as the kernel allows; see [`rehome_range`].
pub fn rehome_inherited(least_bytes: usize) {
    let Ok(file) = File::open(c"/proc/self/maps") else { return };
    let mut buffer = [0; BUFFER];
    let (mut offset, mut kept) = (0, 0);
    while let Ok(read) = file.read_at(offset, &mut buffer[kept..])
        && read > 0
    {
        offset += read;
        let text = &buffer[..kept + read];
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for (start, end) in text[..whole].split(|byte| *byte == b'\n').filter_map(own_writable) {
            if end.saturating_sub(start) >= least_bytes {
                // If the kernel refuses, the range stays as it was.
                let _ = rehome_range(start, end - start);
            }
        }
        let filled = kept + read;
        buffer.copy_within(whole..filled, 0);
        kept = filled - whole;
    }
}

/// The range of a line, if it is private writable memory.
fn own_writable(line: &[u8]) -> Option<(usize, usize)> {
    let mut words = line.split(|byte| *byte == b' ');
    let range = core::str::from_utf8(words.next()?).ok()?;
    let (start, end) = range.split_once('-')?;
    let [b'r', b'w', _, b'p'] = words.next()? else { return None };
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_private_and_writable_is_taken() {
        let range = |line: &str| own_writable(line.as_bytes());
        assert_eq!(range("7f00-7f80 rw-p 00000000 00:00 0"), Some((0x7f00, 0x7f80)));
        assert_eq!(range("7f00-7f80 rwxp 00000000 00:00 0 /a b"), Some((0x7f00, 0x7f80)));
        for line in ["7f00-7f80 rw-s 0", "7f00-7f80 r--p 0", "7f00 rw-p", "", "x-y rw-p 0", "1-2"] {
            assert_eq!(range(line), None, "{line}");
        }
        // On one node nothing moves, and on several nothing is lost.
        let memory = vec![7u8; 1 << 20];
        rehome_inherited(1 << 20);
        assert!(memory.iter().all(|byte| *byte == 7));
    }
}

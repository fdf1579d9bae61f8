//! Reads and writes the text form.
//!
//! `cpu[0-3]` in a path stands for four files with the same text. This keeps the recording of a
//! machine with hundreds of CPUs short enough to read.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::{Recording, RecordingError};
use crate::{CpuId, CpuSet};

/// Most files in a recording: 40 for each of 8192 CPUs.
const MAX_FILES: usize = 8192 * 40;

/// Most bytes in the paths and texts of all files together: 200 for each of `MAX_FILES`.
const MAX_BYTES: usize = 64 << 20;

impl FromStr for Recording {
    type Err = RecordingError;

    fn from_str(text: &str) -> Result<Self, RecordingError> {
        let mut files = Files::default();
        let mut comment = Vec::new();
        // The entry that a continuation line belongs to.
        let mut open: Option<Entry<'_>> = None;
        for (i, raw) in text.lines().enumerate() {
            let (line, raw) = (i + 1, raw.trim_end());
            if let Some(more) = raw.strip_prefix('|') {
                let Some(Entry { text: Some(text), .. }) = &mut open else {
                    return Err(malformed(line, raw));
                };
                text.push_str(if text.is_empty() { "" } else { "\n" });
                text.push_str(more.strip_prefix(' ').unwrap_or(more));
                continue;
            }
            files.add(open.take())?;
            if let Some(words) = raw.strip_prefix('#') {
                comment.push(words.strip_prefix(' ').unwrap_or(words));
            } else if !raw.is_empty() {
                open = Some(Entry::parse(line, raw)?);
            }
        }
        files.add(open)?;
        let recording = Self { comment: String::new(), entries: files.entries };
        Ok(recording.with_comment(&comment.join("\n")))
    }
}

/// One entry of the text, which stands for several files when its path has a set in it.
struct Entry<'a> {
    line: usize,
    path: &'a str,
    /// `None` for a directory.
    text: Option<String>,
}

impl<'a> Entry<'a> {
    fn parse(line: usize, raw: &'a str) -> Result<Self, RecordingError> {
        let (path, text) = match raw.split_once('=') {
            Some((path, text)) => (path.trim(), Some(text.trim().to_owned())),
            None if raw.ends_with('/') => (raw.trim(), None),
            None => return Err(malformed(line, raw)),
        };
        if path.ends_with('/') && text.is_some() {
            return Err(bad_path(line, path, "is a directory, which has no text"));
        }
        Ok(Self { line, path, text })
    }
}

/// The files so far.
#[derive(Default)]
struct Files {
    entries: BTreeMap<String, String>,
    bytes: usize,
}

impl Files {
    /// Adds the files that an entry stands for. Checks their total size before it makes any.
    fn add(&mut self, entry: Option<Entry<'_>>) -> Result<(), RecordingError> {
        let Some(Entry { line, path, text }) = entry else { return Ok(()) };
        let text = text.as_deref().unwrap_or_default().trim_end();
        let set = Set::of(line, path)?;
        let files = set.ids.as_ref().map_or(1, CpuSet::len);
        if self.entries.len() + files > MAX_FILES {
            return Err(RecordingError::TooLarge { limit: MAX_FILES });
        }
        self.bytes = self.bytes.saturating_add(files.saturating_mul(path.len() + text.len()));
        if self.bytes > MAX_BYTES {
            return Err(RecordingError::TooLong { limit: MAX_BYTES });
        }
        for path in set.paths() {
            check(line, &path)?;
            if self.entries.contains_key(&path) {
                return Err(bad_path(line, &path, "is listed twice"));
            }
            self.entries.insert(path, text.to_owned());
        }
        Ok(())
    }
}

/// The paths that `a/cpu[0-3]/b` stands for.
struct Set<'a> {
    head: &'a str,
    /// `None` when the path is `head` alone.
    ids: Option<CpuSet>,
    tail: &'a str,
}

impl<'a> Set<'a> {
    fn of(line: usize, path: &'a str) -> Result<Self, RecordingError> {
        let Some((head, rest)) = path.split_once('[') else {
            return Ok(Self { head: path, ids: None, tail: "" });
        };
        let Some((list, tail)) = rest.split_once(']') else {
            return Err(bad_path(line, path, "has a [ without a ]"));
        };
        let ids = CpuSet::parse_list(list)
            .map_err(|_| bad_path(line, path, "needs a list such as 0-3,8 between [ and ]"))?;
        Ok(Self { head, ids: Some(ids), tail })
    }

    fn paths(&self) -> impl Iterator<Item = String> {
        let Self { head, ids, tail } = self;
        let plain = ids.is_none().then(|| (*head).to_owned());
        let numbered = ids.iter().flat_map(CpuSet::iter);
        plain.into_iter().chain(numbered.map(move |id| format!("{head}{id}{tail}")))
    }
}

fn check(line: usize, path: &str) -> Result<(), RecordingError> {
    let usual = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    let plain = |part: &str| !matches!(part, "" | "." | "..") && part.chars().all(usual);
    if path.strip_suffix('/').unwrap_or(path).split('/').all(plain) {
        return Ok(());
    }
    Err(bad_path(line, path, "is not a plain relative path"))
}

fn bad_path(line: usize, path: &str, reason: &'static str) -> RecordingError {
    RecordingError::BadPath { line, path: path.chars().take(80).collect(), reason }
}

fn malformed(line: usize, raw: &str) -> RecordingError {
    RecordingError::Malformed { line, found: raw.chars().take(40).collect() }
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.comment.lines() {
            writeln!(f, "{}", format!("# {line}").trim_end())?;
        }
        // Files that differ in one number only; a path without a number has an empty set.
        let mut alike: BTreeMap<(&str, &str, &str), CpuSet> = BTreeMap::new();
        for (path, text) in &self.entries {
            let (head, id, tail) = numbered(path).unwrap_or((path, None, ""));
            alike.entry((head, tail, text)).or_default().extend(id);
        }
        let mut alike: Vec<_> = alike.into_iter().collect();
        alike.sort_by_key(|((head, tail, _), ids)| (*head, *tail, ids.first()));
        for ((head, tail, text), ids) in alike {
            match ids.len() {
                0 | 1 => entry(f, &format!("{head}{ids}{tail}"), text)?,
                _ => entry(f, &format!("{head}[{ids}]{tail}"), text)?,
            }
        }
        Ok(())
    }
}

/// Splits at the number of the first `cpuN` or `nodeN` in a path.
fn numbered(path: &str) -> Option<(&str, Option<CpuId>, &str)> {
    let mut start = 0;
    for part in path.split('/') {
        let digits = part.strip_prefix("cpu").or_else(|| part.strip_prefix("node"));
        if let Some(digits) = digits
            && let Ok(id) = digits.parse::<u16>()
            && id.to_string() == digits
        {
            let end = start + part.len();
            let id = Some(CpuId(id.into()));
            return Some((&path[..end - digits.len()], id, &path[end..]));
        }
        start += part.len() + 1;
    }
    None
}

fn entry(f: &mut fmt::Formatter<'_>, path: &str, text: &str) -> fmt::Result {
    if path.ends_with('/') {
        return writeln!(f, "{path}");
    }
    if text.trim() == text && !text.contains('\n') {
        return writeln!(f, "{}", format!("{path} = {text}").trim_end());
    }
    writeln!(f, "{path} =")?;
    text.lines().try_for_each(|line| writeln!(f, "{}", format!("| {line}").trim_end()))
}

#[cfg(test)]
mod tests {
    use numapilot_test_kit::damaged;
    use proptest::prelude::*;

    use super::*;

    const RECORDING: &str = "# two CPUs\nproc/self/status =\n| a: 1\n|\n| b: 2\nsys/cpu/cpu3/node0/\n\
         sys/cpu/cpu[0-1]/size = 32K\nsys/cpu/cpu2/size = 64K\n";

    #[test]
    fn files_with_the_same_text_are_written_once() {
        let recording: Recording = RECORDING.parse().unwrap();
        let files: Vec<_> = recording.files().collect();
        assert_eq!(files[0], ("proc/self/status", "a: 1\n\nb: 2"));
        assert_eq!(files[1], ("sys/cpu/cpu0/size", "32K"));
        assert_eq!(files.len(), 4);
        assert_eq!(recording.to_string(), RECORDING);
    }

    #[test]
    fn paths_that_leave_the_directory_are_refused() {
        for path in ["/etc/passwd", "../x", "a/../../x", "a//b", "."] {
            let error = format!("{path} = x").parse::<Recording>().unwrap_err();
            assert!(matches!(error, RecordingError::BadPath { .. }), "{path}: {error}");
        }
    }

    #[test]
    fn bad_lines_are_named() {
        let error = |text: &str| text.parse::<Recording>().unwrap_err().to_string();
        assert!(error("a = 1\nnonsense").starts_with("line 2: 'nonsense' is neither"));
        assert!(error("| lost").starts_with("line 1"));
        assert_eq!(error("a = 1\na = 2"), "line 2: path 'a' is listed twice");
        assert!(error("cpu[0-3 = x").contains("[ without a ]"));
        assert!(error("cpu[x] = x").contains("between [ and ]"));
        let flood: String = (0..6).map(|i| format!("f{i}cpu[0-65535] = x\n")).collect();
        assert!(error(&flood).starts_with("more than"));
    }

    /// A few kilobytes that expand to gigabytes, in one line or in many.
    #[test]
    fn a_text_that_stands_for_too_much_is_refused_before_it_is_written_out() {
        let long = "x".repeat(60 << 10);
        let lines = format!("cpu[0-65535]/a =\n{}", format!("| {long}\n").repeat(100));
        let many: String = (0..4).map(|i| format!("c{i}/{long}/cpu[0-8191]/a = 1\n")).collect();
        let name = format!("{long}[0-65535] = 1");
        for bomb in [format!("cpu[0-65535]/a = {long}"), lines, many, name] {
            let error = bomb.parse::<Recording>().unwrap_err();
            assert_eq!(error, RecordingError::TooLong { limit: MAX_BYTES });
            assert!(error.to_string().contains("67108864 bytes"), "{error}");
        }
    }

    #[test]
    fn names_are_listed_as_in_a_directory() {
        let text = "a/cpu0 = 1\na/cpu0-b = 1\na/cpu0/c/ \na/cpu1/d = 1\nab = 1\n";
        let recording: Recording = text.parse().unwrap();
        assert_eq!(recording.names("a"), ["cpu0", "cpu0-b", "cpu1"]);
        assert_eq!(recording.names(""), ["a", "ab"]);
        assert_eq!(recording.names("a/cpu0/c"), [""; 0]);
        assert!(recording.has_directory("a/cpu0/c") && !recording.has_directory("ab"));
        assert_eq!((recording.text("ab"), recording.text("a")), (Some("1"), None));
    }

    proptest! {
        #[test]
        fn a_damaged_recording_is_read_or_refused(text in damaged(RECORDING)) {
            if let Ok(recording) = text.parse::<Recording>() {
                prop_assert_eq!(recording.to_string().parse::<Recording>().unwrap(), recording);
            }
        }
    }
}

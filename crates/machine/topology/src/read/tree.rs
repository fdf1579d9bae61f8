//! Reads small kernel files, bounded and without blocking, relative to an open directory or from a
//! recording in memory.
//!
//! A large machine shows ten thousand such files. A path is therefore walked once per directory,
//! not once per file, and a full path is made only for an error.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use super::ReadError;
use crate::Recording;

/// Most bytes read from one file. A list of all 8192 CPUs of the largest kernel with every second
/// one missing takes 20 KiB.
const MAX_BYTES: usize = 64 << 10;

/// The largest file in sysfs, apart from lists and tables of large machines.
const PAGE: usize = 4096;

/// Characters of a bad file that an error shows.
const SHOWN: usize = 60;

/// A directory of the tree.
pub(super) struct Dir<'a> {
    place: Place<'a>,
    path: PathBuf,
}

enum Place<'a> {
    /// An open directory of the file system.
    Open(OwnedFd),
    /// A directory of a recording.
    Recorded(&'a Recording),
}

impl<'a> Dir<'a> {
    /// The top of a recording.
    pub(super) fn recorded(recording: &'a Recording) -> Self {
        Self { place: Place::Recorded(recording), path: PathBuf::new() }
    }

    /// Opens the top of the tree.
    pub(super) fn root(path: &Path) -> Result<Self, ReadError> {
        open_dir(CWD, path.as_os_str(), path.to_owned())?.ok_or_else(|| ReadError::Missing {
            path: path.to_owned(),
            expected: "a directory with sys and proc in it",
        })
    }

    /// Whether this is the top of the file system of this machine, not of a copy.
    pub(super) fn is_this_machine(&self) -> bool {
        matches!(self.place, Place::Open(_)) && self.path == Path::new("/")
    }

    /// A directory below this one; `None` when there is none of that name.
    pub(super) fn dir(&self, name: &str) -> Result<Option<Self>, ReadError> {
        let path = self.path.join(name);
        match &self.place {
            Place::Open(fd) => open_dir(fd, name, path),
            Place::Recorded(recording) => Ok(recording
                .has_directory(&path.to_string_lossy())
                .then(|| Self { place: Place::Recorded(recording), path })),
        }
    }

    /// The value in a file; `None` when there is no such file.
    ///
    /// `parse` receives the trimmed text. When it returns `None`, the error says that `expected`
    /// was expected.
    pub(super) fn find<T>(
        &self,
        name: &str,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ReadError> {
        let mut page = [0; PAGE];
        let Some(text) = self.read(name, MAX_BYTES, &mut page)? else { return Ok(None) };
        // Kernels before 4.0 write the end of a C string into some lists.
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        match parse(text) {
            Some(value) => Ok(Some(value)),
            None => Err(ReadError::Malformed {
                path: self.path.join(name),
                found: text.chars().take(SHOWN).collect(),
                expected,
            }),
        }
    }

    /// As [`Dir::find`], for files that every kernel has.
    pub(super) fn need<T>(
        &self,
        name: &str,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, ReadError> {
        self.find(name, expected, parse)?
            .ok_or_else(|| ReadError::Missing { path: self.path.join(name), expected })
    }

    /// The numbers N of the entries `prefixN`, ascending.
    pub(super) fn numbered(&self, prefix: &str) -> Result<Vec<u32>, ReadError> {
        let names = self.names()?;
        let numbers = names.iter().filter_map(|n| parse::number(n.strip_prefix(prefix)?));
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Names of the entries, sorted.
    pub(super) fn names(&self) -> Result<Vec<String>, ReadError> {
        let fd = match &self.place {
            Place::Open(fd) => fd,
            Place::Recorded(recording) => return Ok(recording.names(&self.path.to_string_lossy())),
        };
        let unreadable = |e: Errno| unreadable(self.path.clone(), e);
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(fd).map_err(unreadable)? {
            names.extend(entry.map_err(unreadable)?.file_name().to_str().ok().map(str::to_owned));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The full path of a name below this directory, for errors.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The first `limit` bytes of a file as text; `None` when there is no such file.
    pub(super) fn text(&self, name: &str, limit: usize) -> Result<Option<String>, ReadError> {
        Ok(self.read(name, limit, &mut [0; PAGE])?.map(Cow::into_owned))
    }

    /// As [`Dir::text`], but reads into the page if it is large enough, as it nearly always is.
    fn read<'p>(
        &'p self,
        name: &str,
        limit: usize,
        page: &'p mut [u8; PAGE],
    ) -> Result<Option<Cow<'p, str>>, ReadError> {
        let fd = match &self.place {
            Place::Open(fd) => fd,
            Place::Recorded(recording) => {
                let text = recording.text(&self.path.join(name).to_string_lossy());
                return Ok(text.map(|text| text[..text.floor_char_boundary(limit)].into()));
            }
        };
        // Do not block on a pipe in a hand-made tree.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let result = match rustix::fs::openat(fd, name, flags, Mode::empty()) {
            Ok(fd) => read_up_to(&fd, limit, page),
            Err(e) => Err(e),
        };
        match result {
            Ok(Cow::Borrowed(bytes)) => Ok(Some(String::from_utf8_lossy(bytes))),
            Ok(Cow::Owned(bytes)) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned().into())),
            Err(e) if absent(e) => Ok(None),
            Err(e) => Err(unreadable(self.path.join(name), e)),
        }
    }
}

fn open_dir<'a, Fd: rustix::fd::AsFd, P: rustix::path::Arg>(
    at: Fd,
    name: P,
    path: PathBuf,
) -> Result<Option<Dir<'a>>, ReadError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(at, name, flags, Mode::empty()) {
        Ok(fd) => Ok(Some(Dir { place: Place::Open(fd), path })),
        Err(e) if absent(e) => Ok(None),
        Err(e) => Err(unreadable(path, e)),
    }
}

/// For a CPU that went offline after its file was opened, sysfs returns `ENODEV`.
fn absent(e: Errno) -> bool {
    matches!(e, Errno::NOENT | Errno::NOTDIR | Errno::NODEV)
}

fn unreadable(path: PathBuf, e: Errno) -> ReadError {
    ReadError::Unreadable { path, source: io::Error::from(e) }
}

fn read_up_to<'p>(
    fd: &OwnedFd,
    limit: usize,
    page: &'p mut [u8; PAGE],
) -> Result<Cow<'p, [u8]>, Errno> {
    let mut bytes = Vec::new();
    loop {
        let want = PAGE.min(limit - bytes.len());
        match rustix::io::read(fd, &mut page[..want]) {
            // The kernel fills whole pages, so a shorter read is the last one.
            Ok(n) if n < PAGE && bytes.is_empty() => return Ok(Cow::Borrowed(&page[..n])),
            Ok(n) => {
                bytes.extend_from_slice(&page[..n]);
                if n < PAGE || bytes.len() == limit {
                    return Ok(Cow::Owned(bytes));
                }
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
}

/// Parsers of what kernel files hold, and the names that errors use for it.
pub(super) mod parse {
    use crate::IdSet;

    pub(crate) const LIST_OF_CPUS: &str = "a list of CPUs such as 0-3,8";
    pub(crate) const LIST_OF_NODES: &str = "a list of nodes such as 0-1";
    pub(crate) const NUMBER: &str = "a number";

    /// A plain decimal number: no sign, no blanks.
    pub(crate) fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
        text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
    }

    /// An id, where the kernel shows -1 for an unknown one.
    pub(crate) fn id_or_none(text: &str) -> Option<Option<u32>> {
        if text == "-1" { Some(None) } else { number(text).map(Some) }
    }

    /// `0-3,8`; may be empty.
    pub(crate) fn list<T: From<u32> + Into<u32> + Copy>(text: &str) -> Option<IdSet<T>> {
        IdSet::parse_list(text).ok()
    }

    /// The value of line `key` in a file of `key: 123 kB` lines, in bytes.
    pub(crate) fn kilobytes(text: &str, key: &str) -> Option<u64> {
        let value = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            // A node's file puts `Node 0 ` before every name.
            (name.rsplit(' ').next() == Some(key)).then_some(value)
        })?;
        number::<u64>(value.trim().strip_suffix("kB")?.trim_end())?.checked_mul(1024)
    }
}

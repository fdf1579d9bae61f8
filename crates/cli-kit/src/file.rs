//! Writes result files whole or not at all, even if the disk is full.
//!
//! A regular file is written without a name and then gets it. If it replaces another file, it gets a
//! temporary name in the same directory and is renamed at once. A file of another kind (a device, a
//! pipe) is written directly: renaming over `/dev/null` would replace it.
//!
//! In a directory where everybody may write (`/tmp`), somebody else may have created a link to make
//! root write to another file. Names in such directories are used only if they belong to root or to
//! this user. This is the rule of the kernel's `fs.protected_symlinks` and `fs.protected_regular`
//! (Documentation/admin-guide/sysctl/fs.rst), but it applies whatever their values are.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use numapilot_topology::remedy;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use tempfile::NamedTempFile;

/// Most links to follow, as in the kernel (path_resolution(7)).
const MAX_LINKS: usize = 40;
/// Mode of a directory in which everybody may create names and nobody may remove those of others
/// (stat(2): sticky bit, write permission for others).
const SHARED: u32 = 0o1002;

/// The handling of an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It is replaced.
    Replace,
    /// It stays, and writing fails.
    Keep,
}

/// Fails if [`put`] would, so that the error comes before hours of measuring and not after them.
///
/// # Errors
/// The file may not be replaced, or its directory cannot be written.
pub fn check(path: &Path, existing: Existing) -> anyhow::Result<()> {
    if path.is_dir() {
        bail!("{} is a directory; give the name of a file", path.display());
    }
    if path.exists() && existing == Existing::Keep {
        bail!("{} exists; give --force to overwrite it, or another name", path.display());
    }
    let target = target(path)?;
    if !is_special(path) {
        NewFile::create(&target).map_err(|error| not_written(path, &error))?;
    }
    Ok(())
}

/// Fails if two options name the same file, of which the second output would replace the first.
///
/// # Errors
/// The paths name the same file, which is no device.
pub fn check_distinct(one: (&str, &Path), other: (&str, &Path)) -> anyhow::Result<()> {
    let absolute = |path| {
        std::path::absolute(target(path)?).with_context(|| {
            let file = path.display();
            format!(
                "{file} is in a working directory that is not there any more; change to another"
            )
        })
    };
    if !is_special(one.1) && absolute(one.1)? == absolute(other.1)? {
        let file = one.1.display();
        bail!("{} and {} name the same file, {file}; give two names", one.0, other.0);
    }
    Ok(())
}

/// Writes a text to a file. A new file has the permissions that the umask leaves. A file that is
/// replaced keeps its permissions, and its owner if that is permitted.
///
/// # Errors
/// As [`check`], and if the disk is full. An older file then stays as it was.
pub fn put(path: &Path, text: &str, existing: Existing) -> anyhow::Result<()> {
    put_bytes(path, text.as_bytes(), existing)
}

/// Writes a file that is no text, as [`put`] does.
///
/// # Errors
/// As [`put`].
pub fn put_bytes(path: &Path, contents: &[u8], existing: Existing) -> anyhow::Result<()> {
    write(path, contents, existing, None)
}

/// Writes a text to a file that a program of another user reads: everybody may read it and only its
/// owner may write it, whatever the umask and the permissions of an older file are.
///
/// # Errors
/// As [`put`].
pub fn put_readable(path: &Path, text: &str) -> anyhow::Result<()> {
    write(path, text.as_bytes(), Existing::Replace, Some(0o644))
}

fn write(
    path: &Path,
    contents: &[u8],
    existing: Existing,
    mode: Option<u32>,
) -> anyhow::Result<()> {
    check(path, existing)?;
    let failed = |error| not_written(path, &error);
    let target = target(path)?;
    if is_special(path) {
        return std::fs::write(path, contents).map_err(failed);
    }
    let mut new = NewFile::create(&target).map_err(failed)?;
    let file = new.file();
    let mut mode = mode;
    if let Ok(old) = target.symlink_metadata() {
        // Only root may change the owner; otherwise, the file of another user becomes this user's.
        let _ = fchown(&*file, Some(old.uid()), Some(old.gid()));
        mode = mode.or(Some(old.mode() & 0o777));
    }
    if let Some(mode) = mode {
        // Set before the content, which not everybody may read, is written.
        file.set_permissions(Permissions::from_mode(mode)).map_err(failed)?;
    }
    let written = file.write_all(contents);
    written.and_then(|()| file.sync_all()).map_err(failed)?;
    new.persist(&target, existing).map_err(failed)
}

/// Opens a file that is written line by line, as `put` would replace it. What is in it stays until
/// [`empty`] is called. A new file has these permissions, minus those that the umask takes.
///
/// # Errors
/// As [`check`].
pub fn open(path: &Path, mode: u32) -> anyhow::Result<File> {
    if path.is_dir() {
        bail!("{} is a directory; give the name of a file", path.display());
    }
    let target = target(path)?;
    let open = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(mode);
        if !is_special(path) {
            // The target of the link was resolved; if there is a link now, it was created since.
            options.custom_flags(libc::O_NOFOLLOW);
        }
        options.open(if is_special(path) { path } else { &target })
    };
    open().map_err(|error| not_written(path, &error))
}

/// Empties a file of [`open`] before the first line is written. A device or pipe stays as it is.
///
/// # Errors
/// Those of ftruncate(2).
pub fn empty(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { file.set_len(0) } else { Ok(()) }
}

/// The error for a file that the user named and that cannot be read, with cause and remedy.
#[must_use]
pub fn not_read(path: &Path, error: io::Error) -> anyhow::Error {
    let text = format!("cannot read {}; {}", path.display(), remedy::reading(&error));
    anyhow::Error::new(error).context(text)
}

/// The remedy where [`is_full`] is the cause.
pub(crate) const FREE_SPACE: &str = "free space there, or choose another place";

/// Whether a write failed because there is no space left.
pub(crate) fn is_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// The error for a file that cannot be written, with cause and remedy.
fn not_written(path: &Path, error: &io::Error) -> anyhow::Error {
    let remedy = match error.kind() {
        ErrorKind::NotFound => "make its directory, or choose another place",
        kind if is_full(kind) => FREE_SPACE,
        _ => "choose another place",
    };
    // Keep the kind of error: a reader that went away is not a failure.
    let error = io::Error::new(error.kind(), format!("{error}; {remedy}"));
    anyhow::Error::new(error).context(format!("cannot write {}", path.display()))
}

fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|about| !about.is_file())
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The target of a link, which need not exist. The link itself stays.
///
/// # Errors
/// A name on the way belongs to somebody else in a shared directory, or there are too many links.
fn target(path: &Path) -> anyhow::Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(about) = target.symlink_metadata() else { return Ok(target) };
        let directory = directory(&target);
        if is_planted(&about, directory) {
            bail!(
                "{} belongs to user {} in a directory where everybody may write, and may have been \
                 put there to mislead; remove it, or choose another place",
                target.display(),
                about.uid()
            );
        }
        if !about.is_symlink() {
            return Ok(target);
        }
        let Ok(next) = target.read_link() else { return Ok(target) };
        target = directory.join(next);
    }
    bail!("cannot write {}: too many symbolic links", path.display())
}

/// Whether a name in a shared directory belongs neither to root nor to this user.
fn is_planted(name: &Metadata, directory: &Path) -> bool {
    let is_shared = directory.metadata().is_ok_and(|about| about.mode() & SHARED == SHARED);
    let own = rustix::process::geteuid().as_raw();
    is_shared && name.uid() != 0 && name.uid() != own
}

/// A new file in the directory of its target.
enum NewFile {
    /// Without a name (`O_TMPFILE`), so that nothing is left of it if this process is killed.
    Unnamed(File),
    /// On a file system that has no such files.
    Named(NamedTempFile),
}

impl NewFile {
    /// Creates it with the permissions that the umask leaves. Its errors do not name it: the user
    /// knows it by another name.
    fn create(target: &Path) -> io::Result<Self> {
        let directory = directory(target);
        // Remove files of runs that were killed while they wrote.
        numapilot_place::remove_stale_in(directory);
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        match rustix::fs::open(directory, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => Ok(Self::Unnamed(file.into())),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => named_in(directory, |new| {
                OpenOptions::new().write(true).create_new(true).mode(0o666).open(new)
            })
            .map(Self::Named),
            Err(error) => Err(error.into()),
        }
    }

    fn file(&mut self) -> &mut File {
        match self {
            Self::Unnamed(file) => file,
            Self::Named(file) => file.as_file_mut(),
        }
    }

    /// Gives it the name of its target.
    fn persist(self, target: &Path, existing: Existing) -> io::Result<()> {
        let named = match self {
            Self::Named(file) => file,
            Self::Unnamed(file) => match (link(&file, target), existing) {
                (Err(error), Existing::Replace) if error.kind() == ErrorKind::AlreadyExists => {
                    named_in(directory(target), |new| link(&file, new)?.try_clone())?
                }
                (linked, _) => return linked.map(drop),
            },
        };
        match existing {
            Existing::Replace => named.persist(target),
            Existing::Keep => named.persist_noclobber(target),
        }
        .map(drop)
        .map_err(|error| error.error)
    }
}

/// Makes a file under a name that [`numapilot_place::remove_stale_in`] knows.
fn named_in(
    directory: &Path,
    make: impl FnMut(&Path) -> io::Result<File>,
) -> io::Result<NamedTempFile> {
    let prefix = format!(".{}", numapilot_place::name_prefix("new")?);
    tempfile::Builder::new().prefix(&prefix).make_in(directory, make)
}

/// Gives a file without a name this one, which must not exist.
fn link<'a>(file: &'a File, name: &Path) -> io::Result<&'a File> {
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(CWD, unnamed, CWD, name, AtFlags::SYMLINK_FOLLOW)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn two_outputs_are_two_files() {
        let distinct = |one: &str, other: &str| {
            check_distinct(("-a", Path::new(one)), ("-b", Path::new(other)))
        };
        assert!(distinct("x", "y").is_ok());
        assert!(distinct("/dev/null", "/dev/null").is_ok());
        let error = distinct("x", "./x").unwrap_err().to_string();
        assert_eq!(error, "-a and -b name the same file, x; give two names");
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("x"), &link).unwrap();
        let file = dir.path().join("x");
        assert!(distinct(link.to_str().unwrap(), file.to_str().unwrap()).is_err());
    }

    #[test]
    fn a_link_of_somebody_else_is_not_followed_where_all_may_write() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (shared, victim) = (dir.path().join("shared"), dir.path().join("victim"));
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
        fs::write(&victim, "kept").unwrap();
        let link = shared.join("x");
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(65534), Some(65534)).unwrap();
        for error in
            [open(&link, 0o600).unwrap_err(), put(&link, "x", Existing::Replace).unwrap_err()]
        {
            assert!(error.to_string().contains("belongs to user 65534"), "{error}");
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
        // A link of the user is followed, and the permissions are those asked for.
        std::os::unix::fs::lchown(&link, Some(0), Some(0)).unwrap();
        fs::remove_file(&victim).unwrap();
        open(&link, 0o600).unwrap();
        assert_eq!(fs::metadata(&victim).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_is_replaced_only_when_asked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        put(&path, "one", Existing::Keep).unwrap();
        let error = put(&path, "two", Existing::Keep).unwrap_err().to_string();
        assert!(error.contains("--force"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        put(&path, "two", Existing::Replace).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "something was left over");
    }

    #[test]
    fn a_new_file_has_no_name_until_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let names = || fs::read_dir(dir.path()).unwrap().count();
        let new = NewFile::create(&path).unwrap();
        if matches!(new, NewFile::Named(_)) {
            println!("skipped: this file system has no files without a name");
            return;
        }
        assert_eq!(names(), 0);
        new.persist(&path, Existing::Keep).unwrap();
        assert_eq!(names(), 1);
    }

    /// As on a file system where every file has a name.
    #[test]
    fn a_file_with_a_temporary_name_is_renamed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let new = || NewFile::Named(named_in(dir.path(), |new| File::create_new(new)).unwrap());
        for existing in [Existing::Keep, Existing::Replace] {
            new().persist(&path, existing).unwrap();
        }
        let error = new().persist(&path, Existing::Keep).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_keeps_leading_where_it_led() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, "one").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        put(&link, "two", Existing::Replace).unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "two");
    }

    #[test]
    fn permissions_are_kept_and_new_files_follow_the_umask() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        let (own, new, plain) =
            (dir.path().join("own"), dir.path().join("new"), dir.path().join("p"));
        fs::write(&own, "one").unwrap();
        fs::set_permissions(&own, Permissions::from_mode(0o600)).unwrap();
        put(&own, "two", Existing::Replace).unwrap();
        assert_eq!(mode(&own), 0o600);
        // A file with the permissions that this process's umask leaves.
        fs::write(&plain, "").unwrap();
        put(&new, "one", Existing::Keep).unwrap();
        assert_eq!(mode(&new), mode(&plain));
        put_readable(&own, "three").unwrap();
        assert_eq!(mode(&own), 0o644);
    }

    #[test]
    fn what_others_have_put_where_all_may_write_is_refused() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can make files of others");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        let safe = tempfile::tempdir().unwrap();
        let (real, link) = (safe.path().join("real"), dir.path().join("link"));
        fs::write(&real, "one").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(4242), Some(4242)).unwrap();
        let error = put(&link, "two", Existing::Replace).unwrap_err().to_string();
        assert!(error.contains("belongs to user 4242"), "{error}");
        assert!(check(&link, Existing::Replace).is_err());
        assert_eq!(fs::read_to_string(&real).unwrap(), "one");
        // Elsewhere the file of another user is replaced, and its owner stays.
        std::os::unix::fs::chown(&real, Some(4242), Some(4242)).unwrap();
        put(&real, "two", Existing::Replace).unwrap();
        assert_eq!(real.metadata().unwrap().uid(), 4242);
    }

    #[test]
    fn a_link_to_nothing_makes_what_it_names() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("real", &link).unwrap();
        put(&link, "one", Existing::Replace).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("real")).unwrap(), "one");
        std::os::unix::fs::symlink("loop", dir.path().join("loop")).unwrap();
        assert!(put(&dir.path().join("loop"), "x", Existing::Replace).is_err());
    }

    #[test]
    fn a_device_stays_a_device() {
        put(Path::new("/dev/null"), "x", Existing::Replace).unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
        let error = put(Path::new("/dev/full"), "x", Existing::Replace).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "cannot write /dev/full: No space left on device (os error 28); free space there, or \
             choose another place"
        );
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        assert!(check(Path::new("/"), Existing::Replace).is_err());
        let missing = Path::new("/nonexistent/x");
        for error in [
            check(missing, Existing::Replace).unwrap_err(),
            put(missing, "x", Existing::Replace).unwrap_err(),
            open(missing, 0o666).unwrap_err(),
        ] {
            assert_eq!(
                format!("{error:#}"),
                "cannot write /nonexistent/x: No such file or directory (os error 2); make its \
                 directory, or choose another place"
            );
        }
    }
}

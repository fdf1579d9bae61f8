//! Temporary files and directories of a process. Their names contain its identity, which
//! distinguishes those of killed processes from those in use.

use std::env;
use std::fmt;
use std::fs::{self, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile, TempDir};

use crate::settings_journal::{Owner, State};

/// The first choice is in memory, to avoid disk writes.
const SHARED: &str = "/dev/shm";
const PREFIX: &str = "numapilot-";

/// Creates a file in shared memory that only this user can access (0600). It is removed when it is
/// dropped. `kind` is a part of its name without a hyphen.
///
/// # Errors
/// Those of the file system, and of reading `/proc`.
pub fn shared_file(kind: &str) -> io::Result<NamedTempFile> {
    shared_with(kind, Ok)
}

/// Creates a [shared file](shared_file) of this size, filled with zeroes, for mapping. Its memory
/// is allocated in advance, because an access to a page for which a full file system has no room
/// would end the program (SIGBUS).
///
/// # Errors
/// As [`shared_file`], and if there is no room in memory or in the directory for temporary files.
pub fn shared_memory(kind: &str, bytes: usize) -> io::Result<NamedTempFile> {
    shared_with(kind, |mut file| file.write_all(&vec![0; bytes]).map(|()| file))
}

/// Creates and prepares a shared file in memory or, if that fails, in the directory for temporary
/// files.
fn shared_with(
    kind: &str,
    prepare: impl Fn(NamedTempFile) -> io::Result<NamedTempFile>,
) -> io::Result<NamedTempFile> {
    let prefix = name_prefix(kind)?;
    let mut builder = Builder::new();
    builder.prefix(&prefix);
    let in_memory = builder.tempfile_in(SHARED).and_then(&prepare);
    in_memory.or_else(|_| builder.tempfile().and_then(&prepare))
}

/// Creates a temporary directory that only this user can access (0700). It is removed when it is
/// dropped. `kind` is a part of its name without a hyphen.
///
/// # Errors
/// As [`shared_file`].
pub fn scratch_directory(kind: &str) -> io::Result<TempDir> {
    // By default the umask alone would decide.
    let mode = Permissions::from_mode(0o700);
    Builder::new().prefix(&name_prefix(kind)?).permissions(mode).tempdir()
}

/// The prefix of the names of files that [`remove_stale_in`] removes after this process is dead. A
/// dot may precede it.
///
/// # Errors
/// Those of reading `/proc`.
pub fn name_prefix(kind: &str) -> io::Result<String> {
    Ok(format!("{PREFIX}{kind}-{}-", Maker::of(&Owner::this()?)?))
}

/// Removes the [shared files](shared_file) and [directories](scratch_directory) of this user's dead
/// processes. What cannot be removed stays for the next call.
pub fn remove_stale_files() {
    for directory in places() {
        remove_stale_in(&directory);
    }
}

/// As [`remove_stale_files`], for one directory.
pub fn remove_stale_in(directory: &Path) {
    for Stale { path, is_directory, .. } in stale_in(directory) {
        let _ = if is_directory { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
}

/// This user's shared files of one kind whose processes are dead and ran since the last boot, so
/// the process ids in them are from this boot.
pub(crate) fn stale_files(kind: &str) -> impl Iterator<Item = PathBuf> {
    let stale = places().into_iter().flat_map(|directory| stale_in(&directory));
    stale.filter(move |stale| stale.kind == kind && stale.is_of_this_boot).map(|stale| stale.path)
}

/// The shared files of one kind that living processes of this boot and PID namespace have created,
/// with the ID and the start time of each.
pub(crate) fn files_of(kind: &str) -> impl Iterator<Item = (PathBuf, (u32, u64))> {
    let this = Owner::this().and_then(|owner| Ok((Maker::of(&owner)?, owner))).ok();
    let entries = places().into_iter().flat_map(fs::read_dir).flatten().flatten();
    entries.filter_map(move |entry| {
        let file_name = entry.file_name();
        let (of, maker) = parse(file_name.to_str()?)?;
        let (this, owner) = this.as_ref()?;
        let is_here = maker.boot == this.boot && maker.namespace == this.namespace;
        let lives = of == kind && is_here && !maker.is_dead(this, owner);
        lives.then(|| (entry.path(), (maker.pid, maker.start_time)))
    })
}

/// Whether a name begins with the [`name_prefix`] of a dead process of this boot.
pub(crate) fn is_of_dead_process(name: &str) -> bool {
    let Ok(owner) = Owner::this() else { return false };
    let (Ok(this), Some((_, maker))) = (Maker::of(&owner), parse(name)) else { return false };
    maker.boot == this.boot && maker.is_dead(&this, &owner)
}

fn places() -> [PathBuf; 2] {
    [PathBuf::from(SHARED), env::temp_dir()]
}

/// A file or directory of a dead process.
struct Stale {
    path: PathBuf,
    kind: String,
    is_directory: bool,
    is_of_this_boot: bool,
}

fn stale_in(directory: &Path) -> Vec<Stale> {
    let this = Owner::this().and_then(|owner| Ok((Maker::of(&owner)?, owner)));
    let Ok((this, owner)) = this else { return Vec::new() };
    let stale = |entry: fs::DirEntry| {
        let file_name = entry.file_name();
        let (kind, maker) = parse(file_name.to_str()?)?;
        let about = entry.path().symlink_metadata().ok()?;
        let is_ours = about.uid() == rustix::process::geteuid().as_raw() && !about.is_symlink();
        let (kind, is_directory) = (kind.to_owned(), about.is_dir());
        let is_of_this_boot = maker.boot == this.boot;
        (is_ours && maker.is_dead(&this, &owner)).then(|| Stale {
            path: entry.path(),
            kind,
            is_directory,
            is_of_this_boot,
        })
    };
    fs::read_dir(directory).into_iter().flatten().flatten().filter_map(stale).collect()
}

/// The process that created a file: `1f0c2a9e.77aa12bb.4026531836.4711.123456` in its name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Maker {
    /// The host. It does not change when the host is rebooted.
    host: u32,
    /// The boot of a host: the beginning of its random id.
    boot: u32,
    /// PID namespace of the process id.
    namespace: u64,
    /// The process id.
    pid: u32,
    /// Start time of the process in clock ticks since boot.
    start_time: u64,
}

impl Maker {
    fn of(owner: &Owner) -> io::Result<Self> {
        let digits: String = owner.namespace.chars().filter(char::is_ascii_digit).collect();
        let boot = owner.boot.get(..8).unwrap_or_default();
        Ok(Self {
            host: host(),
            boot: u32::from_str_radix(boot, 16).map_err(io::Error::other)?,
            namespace: digits.parse().map_err(io::Error::other)?,
            pid: owner.pid,
            start_time: owner.start_time,
        })
    }

    /// Whether it has certainly ended. Other hosts and other PID namespaces may share a directory;
    /// their ids belong to other processes here. `this` is this process, and so is `owner`.
    fn is_dead(&self, this: &Self, owner: &Owner) -> bool {
        if self.boot != this.boot {
            return self.host == this.host;
        }
        let maker = Owner { pid: self.pid, start_time: self.start_time, ..owner.clone() };
        self.namespace == this.namespace && maker.state().is_ok_and(|state| state == State::Dead)
    }
}

impl fmt::Display for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, boot, namespace, pid, start_time } = self;
        write!(f, "{host:08x}.{boot:08x}.{namespace}.{pid}.{start_time}")
    }
}

/// A hash that distinguishes hosts that share a file system. It is computed from machine-id(5),
/// which is missing or equal in some containers, and the host name.
fn host() -> u32 {
    let mut hasher = DefaultHasher::new();
    for file in ["/etc/machine-id", "/proc/sys/kernel/hostname"] {
        fs::read(file).unwrap_or_default().hash(&mut hasher);
    }
    // Half of it suffices to distinguish hosts.
    u32::try_from(hasher.finish() >> 32).unwrap_or_default()
}

/// The kind of a file and its process, or `None` if the name does not begin with a [`name_prefix`].
fn parse(file_name: &str) -> Option<(&str, Maker)> {
    let name = file_name.strip_prefix('.').unwrap_or(file_name);
    let (kind, rest) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let fields: Vec<&str> = rest.split_once('-')?.0.split('.').collect();
    let [host, boot, namespace, pid, start_time] = fields.try_into().ok()?;
    let maker = Maker {
        host: u32::from_str_radix(host, 16).ok()?,
        boot: u32::from_str_radix(boot, 16).ok()?,
        namespace: namespace.parse().ok()?,
        pid: pid.parse().ok()?,
        start_time: start_time.parse().ok()?,
    };
    Some((kind, maker))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_is_for_this_user_alone() {
        let directory = scratch_directory("test").unwrap();
        let mode = fs::metadata(directory.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn files_of_the_dead_go_and_all_others_stay() {
        let file = shared_file("test").unwrap();
        let own = file.path().file_name().unwrap().to_str().unwrap().to_owned();
        let this = Maker::of(&Owner::this().unwrap()).unwrap();
        assert_eq!(parse(&own), Some(("test", this.clone())));

        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let dead = Maker { start_time: this.start_time + 1, ..this.clone() };
        let inner = Maker { namespace: 1, ..dead.clone() };
        // Another boot may have a process with that id.
        let other_boot = Maker { boot: !this.boot, ..dead.clone() };
        let other_host = Maker { host: !this.host, ..other_boot.clone() };
        let renamed_host = Maker { host: !this.host, ..dead.clone() };
        let stale = format!("numapilot-bind-{dead}-abc123");
        let earlier = format!("numapilot-earlier-{other_boot}-abc123");
        let renamed = format!("numapilot-renamed-{renamed_host}-abc123");
        let linked = format!("numapilot-agent-{dead}-abc123");
        let stay = [
            own,
            format!("numapilot-bind-{inner}-abc123"),
            format!("numapilot-bind-{other_host}-abc123"),
            "numapilot-bind-abc123".to_owned(),
            format!("other-bind-{dead}-abc123"),
        ];
        for name in stay.iter().chain([&stale, &earlier, &renamed]) {
            fs::write(path(name), "").unwrap();
        }
        symlink(path(&stay[0]), path(&linked)).unwrap();
        let of_directories = format!("numapilot-report-{dead}-abc123");
        let beside = format!(".numapilot-new-{dead}-abc123");
        fs::create_dir_all(path(&of_directories).join("a/b")).unwrap();
        fs::write(path(&beside), "").unwrap();
        let mut kinds: Vec<(String, bool)> = stale_in(directory.path())
            .into_iter()
            .map(|stale| (stale.kind, stale.is_of_this_boot))
            .collect();
        kinds.sort();
        let expected = ["bind", "earlier", "new", "renamed", "report"];
        let expected = expected.map(|kind| (kind.to_owned(), kind != "earlier"));
        assert_eq!(kinds, expected);
        remove_stale_in(directory.path());
        for name in [stale, earlier, renamed, of_directories, beside] {
            assert!(!path(&name).exists(), "{name}");
        }
        assert!(path(&linked).is_symlink(), "a link was followed or removed");
        for name in &stay {
            assert!(path(name).exists(), "{name}");
        }
    }
}

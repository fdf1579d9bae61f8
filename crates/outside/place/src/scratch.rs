//! Files and directories that a process makes for its own time, named after it: those of processes
//! that were killed can be told from those in use.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile, TempDir};

use crate::journal::{Owner, State};

/// Memory first, so that no disk is written.
const SHARED: &str = "/dev/shm";
const PREFIX: &str = "numapilot-";

/// Makes a file for this user alone (0600), in memory that is shared, that is removed when it is
/// dropped; `kind` is a word of its name without a hyphen.
///
/// # Errors
/// Those of the file system, and of reading `/proc`.
pub fn shared_file(kind: &str) -> io::Result<NamedTempFile> {
    let prefix = name_prefix(kind)?;
    let mut builder = Builder::new();
    builder.prefix(&prefix);
    builder.tempfile_in(SHARED).or_else(|_| builder.tempfile())
}

/// Makes a directory for this user alone (0700) among the temporary files that is removed when it
/// is dropped; `kind` is a word of its name without a hyphen.
///
/// # Errors
/// As [`shared_file`].
pub fn scratch_directory(kind: &str) -> io::Result<TempDir> {
    Builder::new().prefix(&name_prefix(kind)?).tempdir()
}

/// How the name of a file begins that [`remove_stale_in`] removes when this process is dead. A dot
/// may come before it.
///
/// # Errors
/// Those of reading `/proc`.
pub fn name_prefix(kind: &str) -> io::Result<String> {
    Ok(format!("{PREFIX}{kind}-{}-", name(&Owner::this()?)))
}

/// Removes this user's [shared files](shared_file) and [directories](scratch_directory) whose
/// processes are dead. What cannot be removed stays for the next time.
pub fn remove_stale_files() {
    for directory in places() {
        remove_stale_in(&directory);
    }
}

/// The same for what is in one directory.
pub fn remove_stale_in(directory: &Path) {
    for Stale { path, is_directory, .. } in stale_in(directory) {
        let _ = if is_directory { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
}

/// The kinds of this user's shared files whose processes are dead.
pub(crate) fn stale_kinds() -> impl Iterator<Item = String> {
    places().into_iter().flat_map(|directory| stale_in(&directory)).map(|stale| stale.kind)
}

fn places() -> [PathBuf; 2] {
    [PathBuf::from(SHARED), env::temp_dir()]
}

/// What a dead process has left.
struct Stale {
    path: PathBuf,
    kind: String,
    is_directory: bool,
}

fn stale_in(directory: &Path) -> Vec<Stale> {
    let Ok(this) = Owner::this() else { return Vec::new() };
    let stale = |entry: fs::DirEntry| {
        let file_name = entry.file_name();
        let (kind, owner) = owner(file_name.to_str()?, &this)?;
        let about = entry.path().symlink_metadata().ok()?;
        let is_ours = about.uid() == rustix::process::geteuid().as_raw() && !about.is_symlink();
        // Those of other PID namespaces name process groups by numbers that are others' here.
        let is_here = owner.namespace == this.namespace;
        let is_dead = || is_here && owner.state().is_ok_and(|state| state == State::Dead);
        let (kind, is_directory) = (kind.to_owned(), about.is_dir());
        (is_ours && is_dead()).then(|| Stale { path: entry.path(), kind, is_directory })
    };
    fs::read_dir(directory).into_iter().flatten().flatten().filter_map(stale).collect()
}

/// `4026531836.4711.123456`: namespace, process, start.
fn name(owner: &Owner) -> String {
    let namespace: String = owner.namespace.chars().filter(char::is_ascii_digit).collect();
    format!("{namespace}.{}.{}", owner.pid, owner.start_time)
}

/// What kind of file this is and whose; `None` where the name does not begin with a
/// [`name_prefix`].
fn owner<'a>(file_name: &'a str, this: &Owner) -> Option<(&'a str, Owner)> {
    let name = file_name.strip_prefix('.').unwrap_or(file_name);
    let (kind, rest) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let mut numbers = rest.split_once('-')?.0.split('.').map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let (namespace, pid, start_time) = (next()?, next()?, next()?);
    let (pid, namespace) = (u32::try_from(pid).ok()?, format!("pid:[{namespace}]"));
    Some((kind, Owner { pid, start_time, namespace, ..this.clone() }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_of_the_dead_go_and_all_others_stay() {
        let file = shared_file("test").unwrap();
        let own = file.path().file_name().unwrap().to_str().unwrap().to_owned();
        let this = Owner::this().unwrap();
        assert_eq!(owner(&own, &this), Some(("test", this.clone())));

        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let dead = Owner { start_time: this.start_time + 1, ..this.clone() };
        let elsewhere = Owner { namespace: "pid:[1]".to_owned(), ..dead.clone() };
        let stale = format!("numapilot-bind-{}-abc123", name(&dead));
        let linked = format!("numapilot-agent-{}-abc123", name(&dead));
        let stay = [
            own,
            format!("numapilot-bind-{}-abc123", name(&elsewhere)),
            "numapilot-bind-abc123".to_owned(),
            format!("other-bind-{}-abc123", name(&dead)),
        ];
        for name in stay.iter().chain([&stale]) {
            fs::write(path(name), "").unwrap();
        }
        symlink(path(&stay[0]), path(&linked)).unwrap();
        let of_directories = format!("numapilot-report-{}-abc123", name(&dead));
        let beside = format!(".numapilot-new-{}-abc123", name(&dead));
        fs::create_dir_all(path(&of_directories).join("a/b")).unwrap();
        fs::write(path(&beside), "").unwrap();
        let mut kinds: Vec<String> =
            stale_in(directory.path()).into_iter().map(|stale| stale.kind).collect();
        kinds.sort();
        assert_eq!(kinds, ["bind", "new", "report"]);
        remove_stale_in(directory.path());
        for name in [stale, of_directories, beside] {
            assert!(!path(&name).exists(), "{name}");
        }
        assert!(path(&linked).is_symlink(), "no link is followed or removed");
        for name in &stay {
            assert!(path(name).exists(), "{name}");
        }
    }
}

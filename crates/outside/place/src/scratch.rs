//! Files in shared memory that a run and its program have in common, named after the process
//! that made them: those of processes that were killed can be told from those in use.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::journal::{Owner, State};

/// Memory first, so that no disk is written.
const DIRECTORY: &str = "/dev/shm";
const PREFIX: &str = "numapilot-";

/// Makes a file for this user alone (0600) that is removed when it is dropped; `kind` is a word
/// of its name.
///
/// # Errors
/// Those of the file system, and of reading `/proc`.
pub fn shared_file(kind: &str) -> io::Result<NamedTempFile> {
    let prefix = format!("{PREFIX}{kind}-{}-", name(&Owner::this()?));
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix);
    builder.tempfile_in(DIRECTORY).or_else(|_| builder.tempfile())
}

/// Removes this user's [shared files](shared_file) whose processes are dead. What cannot be
/// removed stays for the next time: it is a few pages of memory.
pub fn remove_stale_files() {
    let shared = PathBuf::from(DIRECTORY);
    let directory = if shared.is_dir() { shared } else { std::env::temp_dir() };
    remove_stale_in(&directory);
}

fn remove_stale_in(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let file_name = entry.file_name();
        let Some(owner) = file_name.to_str().and_then(owner) else { continue };
        let Ok(about) = entry.path().symlink_metadata() else { continue };
        let is_ours = about.is_file() && about.uid() == rustix::process::geteuid().as_raw();
        if is_ours && owner.state().is_ok_and(|state| state == State::Dead) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// `4026531836.4711.123456`: namespace, process, start. Shared memory does not outlive the boot.
fn name(owner: &Owner) -> String {
    let namespace: String = owner.namespace.chars().filter(char::is_ascii_digit).collect();
    format!("{namespace}.{}.{}", owner.pid, owner.start_time)
}

/// Whose file this is; `None` where the name is not one of [`shared_file`]'s.
fn owner(file_name: &str) -> Option<Owner> {
    let (_, rest) = file_name.strip_prefix(PREFIX)?.split_once('-')?;
    let mut numbers = rest.split_once('-')?.0.split('.').map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let (namespace, pid, start_time) = (next()?, next()?, next()?);
    let this = Owner::this().ok()?;
    let (pid, namespace) = (u32::try_from(pid).ok()?, format!("pid:[{namespace}]"));
    Some(Owner { pid, start_time, namespace, ..this })
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
        assert_eq!(owner(&own), Some(this.clone()));

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
        remove_stale_in(directory.path());
        assert!(!path(&stale).exists());
        assert!(path(&linked).is_symlink(), "no link is followed or removed");
        for name in &stay {
            assert!(path(name).exists(), "{name}");
        }
    }
}

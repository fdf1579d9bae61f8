//! Which run of numapilot manages a process, so that no second one does the same to it, whoever
//! starts it.
//!
//! A run that manages a process listens on a socket whose name says what it does to which process.
//! A name is in use once, the kernel gives it back at the death of its process, and tells whoever
//! connects which process listens (unix(7): abstract sockets, SO_PEERCRED): it needs no directory
//! that all users may write, and nothing is left by kill -9. Names are those of a network
//! namespace: runs in different ones do not see each other.

use std::collections::BTreeSet;

use numapilot_sys::process::start_time;
use procfs::process::Process;
use rustix::fd::OwnedFd;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use thiserror::Error;

/// How many may ask at a time; the kernel has a limit of its own.
const BACKLOG: i32 = 4096;

/// A process that this one manages, until this is dropped.
#[derive(Debug)]
pub struct Managed(#[expect(dead_code, reason = "open for as long as this is kept")] OwnedFd);

/// Another run manages a process already.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "process {target} is under numapilot {verb} already (run {pid}); end that run first, or give \
     it all targets: numapilot {verb} -p PID,PID"
)]
pub struct AlreadyManaged {
    /// What that run does, as a verb of numapilot.
    pub verb: &'static str,
    /// The process.
    pub target: u32,
    /// The run.
    pub pid: u32,
}

impl Managed {
    /// Has `root`, to which the processes of `tree` belong, for this process; `None` where the
    /// system has no such sockets, so that others cannot learn of it.
    ///
    /// # Errors
    /// [`AlreadyManaged`]: as [`check_unmanaged`].
    pub fn claim(
        verb: &'static str,
        root: i32,
        tree: impl IntoIterator<Item = i32>,
    ) -> Result<Option<Self>, AlreadyManaged> {
        // Before it is looked who else is there: of two that begin at a time, at least one sees
        // the other.
        let managed = listener(verb, root);
        check_unmanaged(verb, root, tree)?;
        Ok(managed.map(Self))
    }
}

/// Fails where another run does `verb` to `root`, to a process of `tree` or to one that `root`
/// descends from.
///
/// # Errors
/// [`AlreadyManaged`].
pub fn check_unmanaged(
    verb: &'static str,
    root: i32,
    tree: impl IntoIterator<Item = i32>,
) -> Result<(), AlreadyManaged> {
    let mut targets: BTreeSet<i32> = tree.into_iter().chain([root]).collect();
    targets.extend(ancestors(root));
    for target in targets {
        if let Some(pid) = manager(verb, target) {
            return Err(AlreadyManaged { verb, target: target.unsigned_abs(), pid });
        }
    }
    Ok(())
}

/// The processes that a process descends from, its parent first.
#[must_use]
pub fn ancestors(pid: i32) -> Vec<i32> {
    let parent = |pid: i32| Process::new(pid).ok()?.stat().ok().map(|stat| stat.ppid);
    let next = |pid: &i32| parent(*pid).filter(|parent| *parent > 0);
    std::iter::successors(next(&pid), next).collect()
}

/// The other process that does `verb` to a process.
fn manager(verb: &str, target: i32) -> Option<u32> {
    let (address, socket) = (address(verb, target)?, socket()?);
    connect(&socket, &address).ok()?;
    let peer = socket_peercred(&socket).ok()?;
    let pid = peer.pid.as_raw_pid().unsigned_abs();
    // Anybody may listen on a name, but not everybody could do that to the process.
    let may = [0, rustix::process::geteuid().as_raw()].contains(&peer.uid.as_raw())
        || Process::new(target)
            .and_then(|process| process.status())
            .is_ok_and(|status| [status.ruid, status.euid].contains(&peer.uid.as_raw()));
    (may && pid != std::process::id()).then_some(pid)
}

/// The socket on which this process listens; `None` where another does, or where there are none.
fn listener(verb: &str, target: i32) -> Option<OwnedFd> {
    let (address, socket) = (address(verb, target)?, socket()?);
    bind(&socket, &address).and_then(|()| listen(&socket, BACKLOG)).ok()?;
    Some(socket)
}

/// What it is called. The start time keeps a number that was given anew apart.
fn address(verb: &str, target: i32) -> Option<SocketAddrUnix> {
    let start = start_time(target.unsigned_abs()).ok()?;
    let name = format!("numapilot-{verb}-{target}-{start}");
    SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()
}

fn socket() -> Option<OwnedFd> {
    // Whoever listens does not answer: nobody waits for it.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use rustix::io::Errno;

    use super::*;

    /// A process that does nothing, and is ended at the end.
    struct Idle(Child);

    impl Idle {
        fn start() -> Self {
            Self(Command::new("cat").stdin(Stdio::piped()).spawn().unwrap())
        }

        fn pid(&self) -> i32 {
            self.0.id().cast_signed()
        }
    }

    impl Drop for Idle {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn listens(verb: &str, target: i32) -> bool {
        let (address, socket) = (address(verb, target).unwrap(), socket().unwrap());
        match connect(&socket, &address) {
            Ok(()) => true,
            Err(Errno::CONNREFUSED) => false,
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_name_is_in_use_once_and_until_the_end() {
        let target = Idle::start();
        let managed = Managed::claim("test", target.pid(), []).unwrap().unwrap();
        assert!(listens("test", target.pid()) && !listens("other", target.pid()));
        assert!(listener("test", target.pid()).is_none());
        // This process is not in its own way.
        check_unmanaged("test", target.pid(), []).unwrap();
        drop(managed);
        // A child that another test has forked holds the socket until it executes its program.
        let deadline = Instant::now() + Duration::from_secs(60);
        while listens("test", target.pid()) {
            assert!(Instant::now() < deadline, "the name is still in use");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_process_descends_from_its_parent() {
        let child = Idle::start();
        let ancestors = ancestors(child.pid());
        assert_eq!(ancestors[0], std::process::id().cast_signed());
        assert!(ancestors.len() > 1 || std::process::id() == 1);
    }
}

//! Registers the run of numapilot that manages a process. It prevents a second run, also of another
//! user, from managing the same process.
//!
//! A run that manages a process listens on a socket whose name contains the verb and the process.
//! Only one socket can have a name, the kernel releases the name when its process dies, and a
//! client learns which process listens (unix(7): abstract sockets, SO_PEERCRED). So no directory
//! that all users may write is needed, and kill -9 leaves nothing behind. Names belong to a network
//! namespace: runs in different namespaces do not see each other.

use std::collections::BTreeSet;

use numapilot_observe::ancestors;
use numapilot_sys::process::start_time;
use procfs::process::Process;
use rustix::fd::OwnedFd;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use thiserror::Error;

/// Maximum number of pending connections. The kernel has its own limit.
const BACKLOG: i32 = 4096;

/// A process that this process manages, until this value is dropped.
#[derive(Debug)]
pub struct Managed(#[expect(dead_code, reason = "open for as long as this is kept")] OwnedFd);

/// Another run manages a process already.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "process {target} is under numapilot {verb} already (run {pid}); end that run first, or give \
     it all targets: numapilot {verb} -p PID,PID"
)]
pub struct AlreadyManaged {
    /// The verb of numapilot of that run.
    pub verb: &'static str,
    /// The process.
    pub target: u32,
    /// The run.
    pub pid: u32,
}

impl Managed {
    /// Claims `root`, to which the processes of `tree` belong, for this process. Returns `None` if
    /// the system has no such sockets, so other runs cannot see it.
    ///
    /// # Errors
    /// [`AlreadyManaged`]: as [`check_unmanaged`].
    pub fn claim(
        verb: &'static str,
        root: i32,
        tree: impl IntoIterator<Item = i32>,
    ) -> Result<Option<Self>, AlreadyManaged> {
        // Before other runs are looked for: of two runs that start at the same time, at least one
        // sees the other.
        let managed = listener(verb, root);
        check_unmanaged(verb, root, tree)?;
        Ok(managed.map(Self))
    }
}

/// Fails if another run with this verb manages `root`, a process of `tree` or an ancestor of
/// `root`.
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

/// Another process that manages a process with this verb.
fn manager(verb: &str, target: i32) -> Option<u32> {
    let (address, socket) = (address(verb, target)?, socket()?);
    connect(&socket, &address).ok()?;
    let peer = socket_peercred(&socket).ok()?;
    let pid = peer.pid.as_raw_pid().unsigned_abs();
    // Any user may listen on a name, but not every user may manage the process.
    let may = [0, rustix::process::geteuid().as_raw()].contains(&peer.uid.as_raw())
        || Process::new(target)
            .and_then(|process| process.status())
            .is_ok_and(|status| [status.ruid, status.euid].contains(&peer.uid.as_raw()));
    (may && pid != std::process::id()).then_some(pid)
}

/// The socket on which this process listens. `None` if another process listens, or without such
/// sockets.
fn listener(verb: &str, target: i32) -> Option<OwnedFd> {
    let (address, socket) = (address(verb, target)?, socket()?);
    bind(&socket, &address).and_then(|()| listen(&socket, BACKLOG)).ok()?;
    Some(socket)
}

/// The name of the socket. The start time distinguishes processes with a reused id.
fn address(verb: &str, target: i32) -> Option<SocketAddrUnix> {
    let start = start_time(target.unsigned_abs()).ok()?;
    let name = format!("numapilot-{verb}-{target}-{start}");
    SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()
}

fn socket() -> Option<OwnedFd> {
    // The listener never answers, so a client must not wait.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use rustix::io::Errno;

    use super::*;

    /// An idle process that is killed when this is dropped.
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
        // This process does not conflict with itself.
        check_unmanaged("test", target.pid(), []).unwrap();
        drop(managed);
        // A child of another test holds the socket until it executes its program.
        let deadline = Instant::now() + Duration::from_secs(60);
        while listens("test", target.pid()) {
            assert!(Instant::now() < deadline, "the name is still in use");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

//! Notices that another server answers in place of the one that was started: the command that asks
//! whether a server is ready cannot tell which one has answered.
//!
//! Source: proc_pid_net(5), unix(7).

use std::collections::BTreeSet;
use std::path::Path;

use procfs::ProcResult;
use procfs::net::{TcpState, UnixState};
use procfs::process::{FDTarget, Process};

/// Sockets of numapilot's own daemons, on which they answer nobody.
const OWN: &str = "@numapilot-";

/// The sockets of this network namespace on which processes listened at some time, by inode.
#[derive(Debug)]
pub struct Listeners(BTreeSet<u64>);

impl Listeners {
    /// Those of now; no sockets if they cannot be read.
    pub fn now() -> Self {
        let sockets = Process::myself().and_then(|process| listening(&process));
        Self(sockets.unwrap_or_default())
    }

    /// Whether a process that is none of these listens since then, and none of these does. False if
    /// that cannot be read.
    pub fn only_others(&self, pids: &BTreeSet<i32>) -> bool {
        let newer = Self::now().0.difference(&self.0).next().is_some();
        newer && pids.iter().all(|pid| listens(*pid) == Some(false))
    }
}

/// Whether a process listens; false for one that has ended. `None` if that cannot be read.
fn listens(pid: i32) -> Option<bool> {
    let Ok(process) = Process::new(pid) else { return Some(false) };
    let files = process.fd().ok()?;
    let sockets = files.flatten().filter_map(|file| match file.target {
        FDTarget::Socket(inode) => Some(inode),
        _ => None,
    });
    let sockets: BTreeSet<u64> = sockets.collect();
    Some(!sockets.is_empty() && !listening(&process).ok()?.is_disjoint(&sockets))
}

/// The sockets of the process's network namespace on which somebody listens.
fn listening(process: &Process) -> ProcResult<BTreeSet<u64>> {
    let tcp = process.tcp()?.into_iter().chain(process.tcp6().unwrap_or_default());
    let tcp = tcp.filter(|socket| socket.state == TcpState::Listen).map(|socket| socket.inode);
    let is_own = |path: &Path| path.to_string_lossy().starts_with(OWN);
    let unix = process.unix()?.into_iter().filter(|socket| {
        socket.state == UnixState::UNCONNECTED
            && socket.path.as_deref().is_some_and(|path| !is_own(path))
    });
    Ok(tcp.chain(unix.map(|socket| socket.inode)).collect())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn another_process_that_listens_is_noticed() {
        let us = BTreeSet::from([std::process::id().cast_signed()]);
        let ended = BTreeSet::from([i32::MAX]);
        let folder = tempfile::tempdir().unwrap();
        let before = Listeners::now();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(before.only_others(&ended) && !before.only_others(&us));
        drop(tcp);
        let before = Listeners::now();
        let unix = UnixListener::bind(folder.path().join("socket")).unwrap();
        assert!(before.only_others(&ended) && !before.only_others(&us));
        drop(unix);
    }
}

//! The user that a server runs as. PostgreSQL refuses to run as root, so root gives its processes
//! and files to an unprivileged user.
//!
//! Source: passwd(5), setuid(2). The standard library drops supplementary groups as well.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::EngineError;

/// Users that may own servers; the first one that exists is used.
const CANDIDATES: [&str; 2] = ["postgres", "nobody"];

/// A user; `None` when the caller is not root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(pub Option<(u32, u32)>);

impl Owner {
    /// The caller, or an unprivileged user when the caller is root.
    pub fn here() -> Result<Self, EngineError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self(None));
        }
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let found = CANDIDATES.iter().find_map(|name| ids(&users, name));
        found.map(|ids| Self(Some(ids))).ok_or_else(|| EngineError::NotInstalled {
            engine: "PostgreSQL",
            cause: format!(
                "its server refuses to run as root, and there is no user {}",
                CANDIDATES.join(" or ")
            ),
            remedy: "run numapilot as another user".to_owned(),
        })
    }

    /// Makes a program run as this user.
    pub fn apply(self, command: &mut Command) {
        if let Some((user, group)) = self.0 {
            command.uid(user).gid(group);
        }
    }
}

/// User and group number of a name, but never root's.
fn ids(users: &str, name: &str) -> Option<(u32, u32)> {
    let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    let ids = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (ids.0 != 0).then_some(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let users = "root:x:0:0::/root:/bin/sh\nnobody2:x:1:1::/:/x\nnobody:x:65534:65533::/:/x\n";
        assert_eq!(ids(users, "nobody"), Some((65534, 65533)));
        assert_eq!(ids(users, "postgres"), None);
        assert_eq!(ids(users, "root"), None);
        assert_eq!(ids("nobody:x:y:z", "nobody"), None);
    }
}

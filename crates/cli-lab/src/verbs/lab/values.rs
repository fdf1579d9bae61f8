//! Parses values of the lab's command line.

use numapilot_lab::User;

/// Parses `on`, `off` or `tiering` to the kernel's number (Documentation/admin-guide/sysctl).
pub fn balancing(text: &str) -> Result<u8, String> {
    match text {
        "off" | "0" => Ok(0),
        "on" | "1" => Ok(1),
        "tiering" | "2" => Ok(2),
        _ => Err(format!("'{text}' is not a mode; write on, off or tiering")),
    }
}

/// The weight of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeWeight {
    /// The node.
    pub node: usize,
    /// Consecutive pages on this node.
    pub weight: u8,
}

/// Parses `0=3`.
pub fn weight(text: &str) -> Result<NodeWeight, String> {
    let bad = || format!("'{text}' is not NODE=WEIGHT with a weight from 1 to 255; write 0=3");
    let (node, weight) = text.split_once('=').ok_or_else(bad)?;
    let weight: u8 = weight.parse().map_err(|_| bad())?;
    let node = node.parse().map_err(|_| bad())?;
    if weight == 0 { Err(bad()) } else { Ok(NodeWeight { node, weight }) }
}

/// Parses a user name of this machine, or `UID[:GID]`; without GID, the user's own group is used.
pub fn user(text: &str) -> Result<User, String> {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    of(text, &passwd)
        .ok_or_else(|| format!("'{text}' is neither a user in /etc/passwd nor UID or UID:GID"))
}

fn of(text: &str, passwd: &str) -> Option<User> {
    let entry = |column: usize, value: &str| {
        passwd.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let user =
                User { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? };
            (*fields.get(column)? == value).then_some(user)
        })
    };
    if let Some((uid, gid)) = text.split_once(':') {
        return Some(User { uid: uid.parse().ok()?, gid: gid.parse().ok()? });
    }
    entry(0, text).or_else(|| entry(2, text)).or_else(|| {
        let uid = text.parse().ok()?;
        Some(User { uid, gid: uid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found() {
        let passwd = "root:x:0:0::/root:/bin/sh\npostgres:x:105:110::/:/bin/sh\n";
        assert_eq!(of("postgres", passwd), Some(User { uid: 105, gid: 110 }));
        assert_eq!(of("105", passwd), Some(User { uid: 105, gid: 110 }));
        assert_eq!(of("1000", passwd), Some(User { uid: 1000, gid: 1000 }));
        assert_eq!(of("1000:50", passwd), Some(User { uid: 1000, gid: 50 }));
        assert_eq!(of("nobody-here", passwd), None);
        assert_eq!(of("1:x", passwd), None);
    }

    #[test]
    fn weights_are_read() {
        assert_eq!(weight("2=9"), Ok(NodeWeight { node: 2, weight: 9 }));
        for bad in ["", "2", "=", "2=0", "2=256", "x=1"] {
            assert!(weight(bad).is_err(), "{bad}");
        }
    }
}

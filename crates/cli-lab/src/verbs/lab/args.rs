//! The machine options of `lab run` and `lab shell`.

use std::ffi::OsString;
use std::time::Duration;

use numapilot_cli_kit::units::{duration, size};
use numapilot_lab::User;
use numapilot_lab::{Request, Shape, Streams, Tuning};
use numapilot_lab_model::Model;
use numapilot_topology::description::named;

/// The machine options that `lab run` and `lab shell` share.
#[derive(clap::Args)]
pub struct MachineArgs {
    /// The machine: a name of `lab list`, or a description file.
    #[arg(short, long, value_name = "NAME|FILE")]
    pub machine: String,
    /// Copy a file, a directory or a program into the guest, with the libraries it needs; may be
    /// repeated.
    #[arg(long, value_name = "PATH|PROGRAM")]
    include: Vec<OsString>,
    /// Space for files that the guest writes.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    disk: u64,
    /// Append to the kernel's command line; may be repeated.
    #[arg(long, value_name = "TEXT")]
    append: Vec<String>,
    /// Transparent huge pages in the guest.
    #[arg(long, value_name = "WHEN", value_parser = ["always", "madvise", "never"])]
    thp: Option<String>,
    /// Automatic NUMA balancing in the guest: on, off or tiering.
    #[arg(long, value_name = "MODE", value_parser = balancing)]
    numa_balancing: Option<u8>,
    /// Weights of the nodes for weighted interleave, as in 0=3,1=1.
    #[arg(long, value_name = "NODE=WEIGHT", value_delimiter = ',', value_parser = weight)]
    weights: Vec<NodeWeight>,
    /// Run as this user, by name or number [default: root].
    #[arg(long, value_name = "USER", value_parser = user)]
    user: Option<numapilot_lab::User>,
    /// Do not count, so there are no figures: faster for one thread, often slower for many.
    #[arg(long)]
    no_model: bool,
    /// The longest time that booting may take.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    boot_timeout: Duration,
}

impl MachineArgs {
    /// The request to run `command` on this machine.
    pub fn request(
        self,
        command: Vec<OsString>,
        timeout: Option<Duration>,
        streams: Streams,
    ) -> anyhow::Result<Request> {
        let (name, description) = named(&self.machine)?;
        let shape = Shape::new(&name, &description)?;
        let model = match self.no_model {
            true => None,
            false => Some(Model::from_description(&description, &shape.layout())?),
        };
        Ok(Request {
            shape,
            model,
            command,
            include: self.include,
            append: self.append,
            tuning: Tuning {
                thp: self.thp,
                numa_balancing: self.numa_balancing,
                weights: self.weights.iter().map(|w| (w.node, w.weight)).collect(),
            },
            user: self.user,
            free_bytes: self.disk,
            boot_timeout: self.boot_timeout,
            timeout,
            streams,
        })
    }
}

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

//! Nodes that are given by the name of a device, as in numactl(8): `netdev:eth0`, `block:sda`,
//! `pci:0000:3b:00.0`, `file:/data`, `ip:10.0.0.1`.
//!
//! Sources: numactl's affinity.c; Documentation/ABI/testing/sysfs-bus-pci (`numa_node`),
//! proc_pid_net(5). A device without a node is on the node of the bus above it.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use numapilot_topology::NodeId;
use thiserror::Error;

/// Why the node of a device cannot be determined.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// It does not exist.
    #[error("{name}: {what} does not exist; see ls {directory}")]
    NotFound {
        /// The user's text.
        name: String,
        /// The missing object.
        what: String,
        /// The searched directory.
        directory: &'static str,
    },
    /// The kernel knows no node for it.
    #[error(
        "{name}: the kernel does not report the node of this device (virtual devices and machines \
         with one node have none); give the node by number"
    )]
    NoNode {
        /// The user's text.
        name: String,
    },
    /// It cannot be read.
    #[error("{name}: {what}")]
    Unreadable {
        /// The user's text.
        name: String,
        /// The failed step.
        what: String,
        /// The cause.
        source: io::Error,
    },
    /// There is no route to the address.
    #[error("{name}: {what}; see ip route get")]
    NoRoute {
        /// The user's text.
        name: String,
        /// The problem.
        what: String,
    },
}

/// Replaces the name of a device by its node: `!netdev:eth0` becomes `!1`. Other texts are returned
/// unchanged.
///
/// # Errors
/// [`DeviceError`].
pub(crate) fn resolve(text: &str) -> Result<String, DeviceError> {
    resolve_in(text, Path::new("/"))
}

fn resolve_in(text: &str, root: &Path) -> Result<String, DeviceError> {
    let trimmed = text.trim();
    let (inverse, name) = match trimmed.strip_prefix('!') {
        Some(rest) => ("!", rest.trim_start()),
        None => ("", trimmed),
    };
    let Some((kind, device)) = name.split_once(':') else { return Ok(text.to_owned()) };
    let found = match kind {
        "netdev" => class(root, name, "net", device)?,
        "block" => class(root, name, "block", device)?,
        "pci" => pci(root, name, device)?,
        "file" => file(root, name, Path::new(device))?,
        "ip" => class(root, name, "net", &interface_to(root, name, device)?)?,
        _ => return Ok(text.to_owned()),
    };
    let node = node_of(&found).ok_or_else(|| DeviceError::NoNode { name: name.to_owned() })?;
    Ok(format!("{inverse}{node}"))
}

/// The directory of a device of a class, with links resolved.
fn class(
    root: &Path,
    name: &str,
    class: &'static str,
    device: &str,
) -> Result<PathBuf, DeviceError> {
    let directory = match class {
        "net" => "/sys/class/net",
        _ => "/sys/class/block",
    };
    let path = root.join(&directory[1..]).join(device);
    let missing = || DeviceError::NotFound {
        name: name.to_owned(),
        what: path.display().to_string(),
        directory,
    };
    if device.is_empty() || device.contains('/') {
        return Err(missing());
    }
    path.canonicalize().map_err(|_| missing())
}

/// `3b:00.0`, `0000:3b:00.0`.
fn pci(root: &Path, name: &str, device: &str) -> Result<PathBuf, DeviceError> {
    const DIRECTORY: &str = "/sys/bus/pci/devices";
    let address = match device.matches(':').count() {
        1 => format!("0000:{device}"),
        _ => device.to_owned(),
    };
    let path = root.join(&DIRECTORY[1..]).join(&address);
    path.canonicalize().ok().filter(|_| !address.contains('/')).ok_or_else(|| {
        DeviceError::NotFound {
            name: name.to_owned(),
            what: path.display().to_string(),
            directory: DIRECTORY,
        }
    })
}

/// The block device of a file.
fn file(root: &Path, name: &str, file: &Path) -> Result<PathBuf, DeviceError> {
    let metadata = fs::metadata(file).map_err(|source| DeviceError::Unreadable {
        name: name.to_owned(),
        what: "the file cannot be inspected".to_owned(),
        source,
    })?;
    let device = metadata.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let path = root.join(format!("sys/dev/block/{major}:{minor}"));
    // File systems in memory or over the network have no device.
    path.canonicalize().map_err(|_| DeviceError::NoNode { name: name.to_owned() })
}

/// The node of a device, or of the bus above it.
fn node_of(device: &Path) -> Option<NodeId> {
    device.ancestors().take_while(|path| path.parent().is_some()).find_map(|path| {
        let text = [path.join("device/numa_node"), path.join("numa_node")]
            .iter()
            .find_map(|file| fs::read_to_string(file).ok())?;
        // -1 if the firmware does not report it.
        text.trim().parse::<u32>().ok().map(NodeId)
    })
}

/// The interface of the route to an address.
fn interface_to(root: &Path, name: &str, address: &str) -> Result<String, DeviceError> {
    let no_route = |what: String| DeviceError::NoRoute { name: name.to_owned(), what };
    let address: IpAddr =
        address.parse().map_err(|_| no_route(format!("'{address}' is not an IP address")))?;
    let (file, routes): (_, fn(&str) -> Option<Route>) = match address {
        IpAddr::V4(_) => ("proc/net/route", route_v4),
        IpAddr::V6(_) => ("proc/net/ipv6_route", route_v6),
    };
    let path = root.join(file);
    let text = fs::read_to_string(&path).map_err(|source| DeviceError::Unreadable {
        name: name.to_owned(),
        what: format!("{} cannot be read", path.display()),
        source,
    })?;
    let bits = match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let best = text
        .lines()
        .filter_map(routes)
        .filter(|route| route.length == 0 || (bits ^ route.network) >> (128 - route.length) == 0)
        // The longest prefix wins, then the lowest metric.
        .max_by_key(|route| (route.length, u32::MAX - route.metric));
    best.map(|route| route.interface).ok_or_else(|| no_route("there is no route to it".to_owned()))
}

/// A line of a routing table. The network is in the upper bits.
struct Route {
    interface: String,
    network: u128,
    length: u32,
    metric: u32,
}

/// `Iface Destination Gateway Flags RefCnt Use Metric Mask ...`, in hexadecimal and in network byte
/// order.
fn route_v4(line: &str) -> Option<Route> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [interface, destination, _, _, _, _, metric, mask, ..] = fields[..] else { return None };
    let number = |text| u32::from_str_radix(text, 16).ok().map(u32::from_be);
    Some(Route {
        interface: interface.to_owned(),
        network: u128::from(number(destination)?) << 96,
        length: number(mask)?.count_ones(),
        metric: metric.parse().ok()?,
    })
}

/// `destination length source length next metric refcnt use flags interface`, in hexadecimal.
fn route_v6(line: &str) -> Option<Route> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [destination, length, _, _, _, metric, .., interface] = fields[..] else { return None };
    Some(Route {
        interface: interface.to_owned(),
        network: u128::from_str_radix(destination, 16).ok()?,
        length: u32::from_str_radix(length, 16).ok().filter(|length| *length <= 128)?,
        metric: u32::from_str_radix(metric, 16).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A network card on node 1, a disk below a controller on node 2, a bridge without a node.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let add = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let link = |path: &str, to: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(root.path().join(to), path).unwrap();
        };
        add("sys/devices/pci0/0000:3b:00.0/numa_node", "1\n");
        add("sys/devices/pci0/0000:3b:00.0/net/eth0/mtu", "1500\n");
        add("sys/devices/pci0/0000:5e:00.0/numa_node", "2\n");
        add("sys/devices/pci0/0000:5e:00.0/ata1/block/sda/sda1/size", "1\n");
        add("sys/devices/virtual/net/br0/mtu", "1500\n");
        link("sys/class/net/eth0", "sys/devices/pci0/0000:3b:00.0/net/eth0");
        link("sys/class/net/br0", "sys/devices/virtual/net/br0");
        link("sys/class/block/sda1", "sys/devices/pci0/0000:5e:00.0/ata1/block/sda/sda1");
        link("sys/bus/pci/devices/0000:3b:00.0", "sys/devices/pci0/0000:3b:00.0");
        let metadata = fs::metadata(root.path()).unwrap();
        let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
        link(
            &format!("sys/dev/block/{major}:{minor}"),
            "sys/devices/pci0/0000:5e:00.0/ata1/block/sda/sda1",
        );
        add(
            "proc/net/route",
            "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
             br0 00000000 0102A8C0 0003 0 0 0 00000000 0 0 0\n\
             eth0 0000000A 00000000 0001 0 0 0 000000FF 0 0 0\n",
        );
        add(
            "proc/net/ipv6_route",
            "20010db8000000000000000000000000 20 00000000000000000000000000000000 00 \
             00000000000000000000000000000000 00000400 00000001 00000000 00000001 eth0\n",
        );
        root
    }

    #[test]
    fn devices_name_nodes() {
        let root = machine();
        let node = |text: &str| resolve_in(text, root.path()).map_err(|e| e.to_string());
        let here = format!("file:{}", root.path().display());
        for (text, nodes) in [
            ("netdev:eth0", "1"),
            ("!netdev:eth0", "!1"),
            ("block:sda1", "2"),
            ("pci:0000:3b:00.0", "1"),
            ("pci:3b:00.0", "1"),
            (here.as_str(), "2"),
            ("ip:10.1.2.3", "1"),
            ("ip:2001:db8::7", "1"),
            ("0-2,4", "0-2,4"),
            ("all", "all"),
        ] {
            assert_eq!(node(text).as_deref(), Ok(nodes), "{text}");
        }
        assert!(node("netdev:br0").unwrap_err().contains("does not report the node"));
        assert!(node("ip:192.168.1.1").unwrap_err().contains("does not report the node"));
        assert!(node("netdev:eth9").unwrap_err().contains("/sys/class/net"));
        assert!(node("netdev:../x").unwrap_err().contains("does not exist"));
        assert!(node("pci:99:00.0").unwrap_err().contains("/sys/bus/pci/devices"));
        assert!(node("ip:nowhere").unwrap_err().contains("is not an IP address"));
        assert!(node("ip:2002::1").unwrap_err().contains("there is no route"));
        assert!(node("file:/nonexistent").unwrap_err().contains("cannot be inspected"));
    }
}

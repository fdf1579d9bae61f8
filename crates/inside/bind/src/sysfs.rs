//! Nodes in sysfs, for libraries that have no allocator.
//!
//! Source: Documentation/ABI/stable/sysfs-devices-node.

use core::ffi::CStr;
use core::ops::RangeInclusive;

/// The file that lists the online nodes.
pub const ONLINE: &CStr = c"/sys/devices/system/node/online";

/// A buffer for the longest path of a node's file.
pub type NodePath = [u8; 64];

/// Writes the path of a file of a node, `distance` or `cpulist`, into `path`.
#[must_use]
pub fn node_file<'a>(node: u32, name: &str, path: &'a mut NodePath) -> Option<&'a CStr> {
    let mut digits = [0; 10];
    let mut first = digits.len();
    let mut rest = node;
    while rest > 0 || first == digits.len() {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let mut end = 0;
    for part in [b"/sys/devices/system/node/node", &digits[first..], b"/", name.as_bytes(), b"\0"] {
        path.get_mut(end..end + part.len())?.copy_from_slice(part);
        end += part.len();
    }
    CStr::from_bytes_until_nul(path).ok()
}

/// The ids of a list such as `0-2,4`. Parts that are not numbers are skipped.
pub fn ids(list: &[u8]) -> impl Iterator<Item = u32> {
    list.split(|&byte| byte == b',' || byte == b'\n').filter_map(range).flatten()
}

fn range(part: &[u8]) -> Option<RangeInclusive<u32>> {
    match part.iter().position(|&byte| byte == b'-') {
        Some(dash) => Some(number(&part[..dash])?..=number(&part[dash + 1..])?),
        None => number(part).map(|id| id..=id),
    }
}

/// Parses an id. Returns `None` for a number that no kernel uses as an id.
fn number(text: &[u8]) -> Option<u32> {
    let id = core::str::from_utf8(text).ok()?.trim().parse::<u16>().ok()?;
    Some(u32::from(id))
}

/// Position in `candidates` of the node that is nearest to the one whose file `distance` is given,
/// or 0 if the files do not tell. `online` is the list of the nodes to which the entries of
/// `distance` belong.
#[must_use]
pub fn nearest(distance: &[u8], online: &[u8], candidates: &[u16]) -> usize {
    let values = distance.split(|byte| byte.is_ascii_whitespace()).filter_map(number);
    ids(online)
        .zip(values)
        .filter_map(|(node, far)| {
            let position = candidates.iter().position(|&id| u32::from(id) == node)?;
            Some((far, position))
        })
        .min_by_key(|&(far, _)| far)
        .map_or(0, |(_, position)| position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        assert!(ids(b"0-2,4\n").eq([0, 1, 2, 4]));
        assert!(ids(b"7").eq([7]));
        assert_eq!(ids(b"").count(), 0);
        assert!(ids(b"x,3,-").eq([3]));
        assert_eq!(ids(b"0-99999999").count(), 0);
    }

    #[test]
    fn paths_are_written() {
        for (node, path) in [
            (0, c"/sys/devices/system/node/node0/distance"),
            (307, c"/sys/devices/system/node/node307/distance"),
        ] {
            assert_eq!(node_file(node, "distance", &mut [0; 64]), Some(path));
        }
        assert_eq!(
            node_file(0, "a name that is far too long to be one of sysfs", &mut [0; 64]),
            None
        );
    }

    #[test]
    fn the_nearest_is_found_by_the_list_of_online_nodes() {
        // Node 2 is offline: the third entry is that of node 3.
        assert_eq!(nearest(b"10 21 15 31\n", b"0-1,3-4\n", &[1, 3, 4]), 1);
        assert_eq!(nearest(b"", b"0-1\n", &[0, 1]), 0);
        assert_eq!(nearest(b"21 10\n", b"0-1\n", &[0]), 0);
    }
}

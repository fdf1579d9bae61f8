//! The standard file systems of Linux.

use std::fs;
use std::io;

use rustix::mount::{MountFlags, mount};

use super::Trouble;

/// Types and mount points, in the order of mounting.
const FILE_SYSTEMS: [(&str, &str); 7] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("debugfs", "/sys/kernel/debug"),
    ("devtmpfs", "/dev"),
    ("devpts", "/dev/pts"),
    ("tmpfs", "/dev/shm"),
    ("cgroup2", "/sys/fs/cgroup"),
];

/// Mounts the file systems. The image has the mount points in the root, the kernel makes those in
/// `/sys`, and this function makes those in `/dev`.
pub fn mount_all() -> Result<(), Trouble> {
    for (kind, place) in FILE_SYSTEMS {
        if place.starts_with("/dev/") {
            fs::create_dir_all(place).map_err(Trouble::at::<io::Error>("cannot make", place))?;
        }
        mount(kind, place, kind, MountFlags::empty(), None)
            .map_err(Trouble::at("cannot mount", place))?;
    }
    for (link, target) in [("/dev/fd", "fd"), ("/dev/stdin", "fd/0")]
        .into_iter()
        .chain([("/dev/stdout", "fd/1"), ("/dev/stderr", "fd/2")])
    {
        std::os::unix::fs::symlink(format!("/proc/self/{target}"), link).map_err(Trouble::at::<
            io::Error,
        >(
            "cannot make",
            link,
        ))?;
    }
    Ok(())
}

//! The standard file systems of Linux.

use std::fs;
use std::io;

use rustix::mount::{MountFlags, mount};

use super::Trouble;

/// Types and mount points, in the order of mounting.
const FILE_SYSTEMS: [(&str, &str); 6] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("devpts", "/dev/pts"),
    ("tmpfs", "/dev/shm"),
    ("cgroup2", "/sys/fs/cgroup"),
];

/// Mounts them. The image has the directories of the root, and the kernel makes those in `/sys`.
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

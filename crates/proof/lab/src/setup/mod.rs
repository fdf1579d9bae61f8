//! `lab setup`: fetches QEMU, a kernel and mke2fs as far as they are not here.
//!
//! With apt, from the archive that this machine uses anyway; but nothing is installed: the
//! packages are unpacked into the cache, and apt works on lists and a status file of its own,
//! so that the machine's configuration and its packages stay as they are. No rights are
//! needed.

mod apt;
mod release;
mod sources;

use std::fs;
use std::path::Path;

use self::apt::{Apt, Package};
use self::release::Release;
use crate::emulator::Emulator;
use crate::unpacked::Unpacked;
use crate::{Kernel, LabError, cache_directory, image, kernel};

/// QEMU's package.
const QEMU: &str = "qemu-system-x86";
/// The package of mke2fs.
const E2FSPROGS: &str = "e2fsprogs";
/// The package that names the newest kernel for virtual machines: small, and with all that
/// the lab needs built in.
const KERNEL: &str = "linux-image-cloud-amd64";

/// What the lab stands on.
#[derive(Clone, Debug)]
pub struct Ready {
    /// QEMU.
    pub emulator: Emulator,
    /// The kernel.
    pub kernel: Kernel,
}

/// Fetches what is missing; `say` is told what is being done.
///
/// # Errors
/// [`LabError::Unsupported`] where this is not done, [`LabError::Setup`] when it fails; what
/// was there before is there still.
pub fn setup(say: &mut dyn FnMut(&str)) -> Result<Ready, LabError> {
    let mut tools = Vec::new();
    if let Err(why) = Emulator::find() {
        if matches!(why, LabError::Processor(_)) {
            return Err(why);
        }
        say(&format!("QEMU: {why}"));
        tools.push(QEMU);
    }
    if image::mke2fs().is_err() {
        tools.push(E2FSPROGS);
    }
    let needs_kernel = Kernel::find().is_err();
    if !tools.is_empty() || needs_kernel {
        let release = Release::of_this_machine()?;
        let mut apt = Apt::new(&release)?;
        say(&format!("reading the package lists of {}", release.suites().join(" and ")));
        apt.update()?;
        if !tools.is_empty() {
            // What is here already must not satisfy a dependency by an older version of
            // the same source.
            apt.forget(&["qemu", "seabios"])?;
            let packages = apt.closure(&tools)?;
            fetch(&apt, &packages, Unpacked::tools()?.root(), say)?;
        }
        if needs_kernel {
            apt.forget(&[""])?;
            let mut packages = apt.closure(&[KERNEL])?;
            packages.retain(|p| p.name.starts_with("linux-image-") && p.name != KERNEL);
            fetch(&apt, &packages, &cache_directory()?.join(kernel::DIRECTORY), say)?;
        }
    }
    // What was fetched is looked at, not trusted.
    image::mke2fs()?;
    let ready = Ready { emulator: Emulator::find()?, kernel: Kernel::find()? };
    ready.kernel.boot_file()?;
    Ok(ready)
}

/// Downloads packages and unpacks them in place of what was in a directory.
fn fetch(
    apt: &Apt<'_>,
    packages: &[Package],
    place: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), LabError> {
    let names: Vec<&str> = packages.iter().map(|p| p.name.as_str()).collect();
    say(&format!("fetching {}", names.join(", ")));
    let unpacked = apt.unpack(packages)?;
    if place.exists() {
        fs::remove_dir_all(place).map_err(LabError::at("remove", place))?;
    }
    fs::rename(&unpacked, place).map_err(LabError::at("put in place", place))
}

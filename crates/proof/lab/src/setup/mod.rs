//! `lab setup`: fetches QEMU and a kernel as far as they are not here.
//!
//! It uses apt and the archive that this machine is configured for, but installs nothing: the
//! packages are unpacked into the cache, and apt works on separate lists and a separate status
//! file. The machine's configuration and packages do not change, and no privileges are needed.

mod apt;
mod release;
mod sources;

use std::fs;
use std::path::Path;

use self::apt::{Apt, Package};
use self::release::Release;
use crate::emulator::Emulator;
use crate::unpacked::Unpacked;
use crate::{Kernel, LabError, cache_directory, kernel};

/// QEMU's package.
const QEMU: &str = "qemu-system-x86";
/// The package that depends on the newest kernel for virtual machines. That kernel is small, and
/// all drivers that the lab needs are built in.
const KERNEL: &str = "linux-image-cloud-amd64";

/// The parts of the lab.
#[derive(Clone, Debug)]
pub struct Ready {
    /// QEMU.
    pub emulator: Emulator,
    /// The kernel.
    pub kernel: Kernel,
}

/// Downloads what is missing; `say` receives progress messages.
///
/// # Errors
/// [`LabError::Unsupported`] on other systems, and [`LabError::Setup`] when a step fails. Existing
/// parts are kept then.
pub fn setup(say: &mut dyn FnMut(&str)) -> Result<Ready, LabError> {
    let mut tools = Vec::new();
    if let Err(why) = Emulator::find() {
        if matches!(why, LabError::Processor(_) | LabError::NoPart { .. }) {
            return Err(why);
        }
        say(&format!("QEMU: {why}"));
        tools.push(QEMU);
    }
    let needs_kernel = Kernel::find().is_err();
    if !tools.is_empty() || needs_kernel {
        let release = Release::of_this_machine()?;
        let mut apt = Apt::new(&release)?;
        say(&format!("reading the package lists of {}", release.suites().join(" and ")));
        apt.update()?;
        if !tools.is_empty() {
            // The installed versions must not satisfy a dependency with an older version of the
            // same source package.
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
    // The fetched parts are checked like installed ones.
    let ready = Ready { emulator: Emulator::find()?, kernel: Kernel::find()? };
    ready.kernel.boot_file()?;
    Ok(ready)
}

/// Downloads packages and unpacks them, replacing the contents of a directory.
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

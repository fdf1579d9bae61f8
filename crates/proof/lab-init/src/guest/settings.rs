//! The kernel settings of the task, and those of every guest.

use std::ffi::OsStr;
use std::fs;
use std::io;

use numapilot_lab_init::Setting;
use rustix::system::sethostname;

use super::Trouble;

/// Writes each setting. A kernel that lacks one is an error, because the measurement would be of
/// something else.
pub fn apply(settings: &[Setting]) -> Result<(), Trouble> {
    for setting in settings {
        fs::write(&setting.path, &setting.value)
            .map_err(Trouble::at::<io::Error>("cannot set", &setting.path))?;
    }
    Ok(())
}

/// Sets the machine's name, and brings up the loopback device, which servers listen on.
pub fn identity(hostname: &OsStr) -> Result<(), Trouble> {
    sethostname(hostname.as_encoded_bytes()).map_err(Trouble::at("cannot set", "hostname"))?;
    // IFF_UP | IFF_LOOPBACK; the kernel gives the device its address when it comes up.
    let loopback = "/sys/class/net/lo/flags";
    fs::write(loopback, "0x9").map_err(Trouble::at::<io::Error>("cannot set", loopback))
}

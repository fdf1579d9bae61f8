//! Kernel settings of the task, and what every guest gets.

use std::ffi::OsStr;
use std::fs;
use std::io;

use numapilot_lab_init::Setting;
use rustix::system::sethostname;

use super::Trouble;

/// Writes each setting where it belongs; a kernel that lacks one is an error, because a
/// measurement without it would be of something else.
pub fn apply(settings: &[Setting]) -> Result<(), Trouble> {
    for setting in settings {
        fs::write(&setting.path, &setting.value)
            .map_err(Trouble::at::<io::Error>("cannot set", &setting.path))?;
    }
    Ok(())
}

/// The kernel's thread that makes huge pages of small ones (Linux,
/// Documentation/admin-guide/mm/transhuge.rst).
const KHUGEPAGED: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged";

/// Keeps khugepaged asleep: how far it comes while a program runs is a matter of the host's
/// time, and so would be which of the program's memory is in huge pages. Those of page faults
/// are the same in every run. A program that wants it writes the kernel's own values here.
pub fn keep_khugepaged_asleep() -> Result<(), Trouble> {
    // Woken by the first program nevertheless, it looks at one page and sleeps for good.
    for (name, value) in [("pages_to_scan", 1), ("scan_sleep_millisecs", u32::MAX)] {
        let path = format!("{KHUGEPAGED}/{name}");
        match fs::write(&path, value.to_string()) {
            // A kernel without huge pages.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result.map_err(Trouble::at::<io::Error>("cannot set", &path))?,
        }
    }
    Ok(())
}

/// Name of the machine, and the loopback device, which servers listen on.
pub fn identity(hostname: &OsStr) -> Result<(), Trouble> {
    sethostname(hostname.as_encoded_bytes()).map_err(Trouble::at("cannot set", "hostname"))?;
    // IFF_UP | IFF_LOOPBACK; the kernel gives the device its address when it comes up.
    let loopback = "/sys/class/net/lo/flags";
    fs::write(loopback, "0x9").map_err(Trouble::at::<io::Error>("cannot set", loopback))
}

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

/// The kernel thread that collapses base pages into huge pages (Linux,
/// Documentation/admin-guide/mm/transhuge.rst).
const KHUGEPAGED: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged";

/// Keeps khugepaged asleep. Its progress while a program runs depends on the host's time, and so
/// would the choice of memory in huge pages. Huge pages from page faults are the same in every run.
/// A program that needs khugepaged can write the kernel's default values here.
pub fn keep_khugepaged_asleep() -> Result<(), Trouble> {
    // The first program wakes it anyway; it then scans one page and sleeps for good.
    for (name, value) in [("pages_to_scan", 1), ("scan_sleep_millisecs", u32::MAX)] {
        let path = format!("{KHUGEPAGED}/{name}");
        match fs::write(&path, value.to_string()) {
            // The kernel has no huge pages.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result.map_err(Trouble::at::<io::Error>("cannot set", &path))?,
        }
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

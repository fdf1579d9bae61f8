//! Levels of the allocator that are the default under another name.

use std::ffi::OsString;

use numapilot_place::allocators::{GLIBC, linked};
use numapilot_place::{AllocatorChoice, Plan};

use super::program_file::program_file;

/// Refuses glibc's malloc for a program that has it by itself, which would be measured as a second
/// default. A program may be linked with another one, or find one in `LD_PRELOAD`.
pub fn refuse_same_malloc(plan: &Plan, command: &[OsString]) -> Result<(), String> {
    let is_glibc = plan.allocator == AllocatorChoice::Named(GLIBC.to_owned());
    if !is_glibc || std::env::var_os("LD_PRELOAD").is_some() {
        return Ok(());
    }
    let Some(name) = command.first() else { return Ok(()) };
    match program_file(command).as_deref().and_then(linked) {
        Some(_) => Ok(()),
        None => Err(format!(
            "{} uses the C library's malloc by itself: it is the default",
            name.to_string_lossy()
        )),
    }
}

//! The entry points for QEMU: the two symbols of every plugin.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;

use numapilot_lab_init::{COMPLAINT, SUITABLE};

use crate::arguments::{Arguments, StartError};
use crate::clock;
use crate::internals::Internals;
use crate::machine::{Machine, machine};
use crate::ports::Ports;
use crate::qemu::{self, Info};
use crate::translate;

/// The version of QEMU's interface that this code uses.
// SAFETY: the name is the one QEMU looks up; nothing else in this process has it.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = qemu::API_VERSION;

/// Called by QEMU after loading the plugin; a result other than 0 ends QEMU.
///
/// # Safety
/// QEMU passes a valid `info`, and `argc` valid texts in `argv`.
// SAFETY: the name is the one QEMU looks up; nothing else in this process has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: qemu::Id,
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let count = usize::try_from(argc).unwrap_or(0);
    // SAFETY: QEMU gives `argc` texts that end with a zero byte.
    let arguments = (0..count).map(|i| unsafe { text(*argv.add(i)) });
    // SAFETY: QEMU gives a valid description of itself.
    let started = unsafe { info.as_ref() }
        .ok_or(StartError::Target { target: "an unknown machine".to_owned() })
        .and_then(|info| start(info, arguments));
    match started {
        Ok(Started::Installed) => {}
        // QEMU was started only for this message, so it ends.
        Ok(Started::Checked) => {
            eprintln!("{SUITABLE}");
            return 1;
        }
        Err(error) => {
            eprintln!("{COMPLAINT}{error}");
            return 1;
        }
    }
    translate::prepare();
    // SAFETY: registering callbacks is what installation is for.
    unsafe {
        qemu::qemu_plugin_register_vcpu_init_cb(id, on_init);
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, translate::translate);
        qemu::qemu_plugin_register_atexit_cb(id, on_exit, ptr::null_mut());
    }
    0
}

/// The purpose for which the plugin was loaded.
enum Started {
    /// To check whether it can run in this QEMU.
    Checked,
    /// To run a machine.
    Installed,
}

fn start(info: &Info, arguments: impl Iterator<Item = String>) -> Result<Started, StartError> {
    // SAFETY: QEMU gives a text that ends with a zero byte.
    let target = unsafe { text(info.target_name) };
    if target != "x86_64" || !info.system_emulation {
        return Err(StartError::Target { target });
    }
    let arguments = Arguments::parse(arguments)?;
    if arguments.only_checks() {
        return Internals::find().map(|_| Started::Checked);
    }
    let model = arguments.read_model()?;
    let cpus = model.node_of_cpu.len();
    if c_int::try_from(cpus) != Ok(info.max_vcpus) {
        return Err(StartError::Cpus { model: cpus, qemu: info.max_vcpus });
    }
    let (report, pmu) = (arguments.open_report()?, arguments.map_pmu()?);
    let (mailbox, descriptors) = (arguments.map_mailbox()?, arguments.descriptors()?);
    // SAFETY: the process that started QEMU opened these descriptors for the plugin only.
    let ports = unsafe { Ports::new(mailbox, descriptors) };
    Machine::install(model, report, pmu, ports, arguments.pace()?)?;
    Ok(Started::Installed)
}

/// # Safety
/// `text` is null or ends with a zero byte.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, and the caller vouches for the end.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

extern "C" fn on_init(_id: qemu::Id, cpu: c_uint) {
    if let Some(machine) = machine() {
        // SAFETY: QEMU calls this while it sets this CPU up, on the CPU thread.
        if let Err(error) = unsafe { machine.add_cpu(cpu, translate::scoreboard_of, clock::HOOKS) }
        {
            eprintln!("{COMPLAINT}{error}");
            // The guest has not run yet, so there is no report to write.
            std::process::exit(1);
        }
    }
}

extern "C" fn on_exit(_id: qemu::Id, _data: *mut c_void) {
    if let Some(machine) = machine() {
        machine.end();
    }
}

//! Checks hardware counters, software counters of the kernel, and sampled memory accesses by
//! opening each of them.
//!
//! Source: perf_event_open(2), Documentation/admin-guide/perf-security.rst, and the
//! format files below `/sys/bus/event_source/devices`.

use std::io;

use numapilot_observe::hardware::AccessPmu;
use numapilot_observe::lab::{LabError, LabPmu};
use numapilot_observe::pmu::PERMIT_COUNTING;
use numapilot_sys::perf::{Counter, Event, Scope};
use numapilot_sys::sampling::{SampledEvent, Sampling};

use super::check::{Check, Files};

const PARANOID: &str = "proc/sys/kernel/perf_event_paranoid";

pub fn checks(files: &Files) -> Vec<Check> {
    let open = |event, scope, user_only| Counter::open(event, scope, None, user_only).map(drop);
    let everywhere = open(Event::CONTEXT_SWITCHES, Scope::Cpu(first_cpu(files)), false);
    let unbound = everywhere.is_ok();
    let lab = LabPmu::find();
    let emulated_samples = matches!(lab, Ok(Some(_)));
    vec![
        hardware(files, open(Event::CYCLES, Scope::Thread(0), true)),
        software(files, open(Event::PAGE_FAULTS, Scope::Thread(0), true)),
        machine_wide(files, everywhere),
        samples(files, emulated_samples, |pmu| {
            let open = |user_only, scope| {
                let sampling = Sampling { user_only, ..pmu.sampling };
                SampledEvent::open(&sampling, scope, first_cpu(files)).map(drop)
            };
            // On older kernels, IBS can neither exclude the kernel nor follow a thread.
            let trial = open(true, Scope::Thread(0)).or_else(|_| open(false, Scope::Thread(0)));
            trial.or_else(|error| open(false, Scope::Cpu(first_cpu(files))).map_err(|_| error))
        }),
        paranoid(files, unbound),
    ]
    .into_iter()
    .chain(emulated(lab))
    .collect()
}

/// The PMU of an emulated machine; absent on a real machine.
fn emulated(found: Result<Option<LabPmu>, LabError>) -> Option<Check> {
    const NAME: &str = "lab PMU";
    match found {
        Ok(None) => None,
        Ok(Some(lab)) => Some(Check::works(
            NAME,
            format!("tried: {} CPUs count in {}", lab.pmu().shape().cpus, lab.path().display()),
        )),
        Err(error) => Some(Check::missing(
            NAME,
            "tried: it cannot be read",
            error.to_string(),
            "run as root, with the numapilot that started the lab",
        )),
    }
}

/// A CPU that is online; on some machines CPU 0 can be offline.
fn first_cpu(files: &Files) -> u32 {
    let online = files.text("sys/devices/system/cpu/online").unwrap_or_default();
    let first = numapilot_topology::CpuSet::parse_list(&online).ok().and_then(|set| set.first());
    first.map_or(0, u32::from)
}

/// Whether the kernel refused for lack of permission and not of hardware.
fn forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

/// Whether this is a virtual machine, according to an x86 processor's flags.
fn virtual_machine(files: &Files) -> bool {
    files.text("proc/cpuinfo").is_some_and(|text| {
        text.lines()
            .find(|line| line.starts_with("flags"))
            .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
    })
}

fn no_permission(name: &str, files: &Files, error: &io::Error, remedy: &str) -> Check {
    let level = files.text(PARANOID).unwrap_or_else(|| "unknown".to_owned());
    Check::missing(
        name,
        "tried: refused",
        format!("{error}; perf_event_paranoid is {level}, or a seccomp filter forbids it"),
        remedy,
    )
}

/// The text for an event that the kernel refused.
fn refused(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENXIO | libc::ENODEV | libc::EOPNOTSUPP) => {
            "the kernel knows no such event".to_owned()
        }
        _ => format!("perf_event_open: {error}"),
    }
}

fn hardware(files: &Files, trial: io::Result<()>) -> Check {
    const NAME: &str = "hardware counters";
    match trial {
        Ok(()) => Check::works(NAME, "tried: cycles can be counted"),
        Err(error) if forbidden(&error) => no_permission(
            NAME,
            files,
            &error,
            "sudo sysctl kernel.perf_event_paranoid=2 (or lower); docker: --cap-add PERFMON",
        ),
        Err(error) if virtual_machine(files) => Check::missing(
            NAME,
            "tried: none",
            format!("this virtual machine has no PMU ({})", refused(&error)),
            "ask for one: QEMU/KVM -cpu host,pmu=on; in a cloud: a metal or dedicated-host size",
        ),
        Err(error) => Check::missing(
            NAME,
            "tried: none",
            format!("no driver for this processor's PMU ({})", refused(&error)),
            "boot a kernel that knows the processor, without nmi_watchdog or another profiler on it",
        ),
    }
}

/// Software counters of the kernel: faults, context switches, migrations.
fn software(files: &Files, trial: io::Result<()>) -> Check {
    const NAME: &str = "kernel counters";
    match trial {
        Ok(()) => Check::works(NAME, "tried: faults, switches, migrations can be counted"),
        Err(error) if forbidden(&error) => no_permission(
            NAME,
            files,
            &error,
            "sudo sysctl kernel.perf_event_paranoid=2 (or lower); docker: --cap-add PERFMON",
        ),
        Err(error) => Check::missing(
            NAME,
            "tried: none",
            error.to_string(),
            "boot a kernel with CONFIG_PERF_EVENTS=y",
        ),
    }
}

fn machine_wide(files: &Files, trial: io::Result<()>) -> Check {
    const NAME: &str = "machine-wide counting";
    match trial {
        Ok(()) => Check::works(NAME, "tried: permitted"),
        Err(error) if forbidden(&error) => no_permission(NAME, files, &error, PERMIT_COUNTING),
        Err(error) => Check::missing(
            NAME,
            "tried: none",
            error.to_string(),
            "boot a kernel with CONFIG_PERF_EVENTS=y",
        ),
    }
}

/// The samples for `balance`. `emulated` tells whether a lab's PMU provides samples.
fn samples(
    files: &Files,
    emulated: bool,
    open: impl FnOnce(&AccessPmu) -> io::Result<()>,
) -> Check {
    const NAME: &str = "memory access samples";
    let Some(pmu) = AccessPmu::find(&files.path("")) else {
        return Check::missing(
            NAME,
            "no IBS, PEBS or SPE",
            match virtual_machine(files) {
                true => "this virtual machine shows none of them",
                false => "the kernel shows none of them for this processor",
            },
            match emulated {
                true => "none needed: those of the lab PMU are used instead",
                false => {
                    "hints of AutoNUMA are used instead; for exact samples use the bare machine, \
                     kernel 6.1 or later (Arm: with the arm_spe_pmu module)"
                }
            },
        );
    };
    match open(&pmu) {
        Ok(()) => Check::works(NAME, format!("tried: {} can be opened", pmu.name)),
        Err(error) if forbidden(&error) => Check {
            found: pmu.name.to_owned(),
            ..no_permission(NAME, files, &error, PERMIT_COUNTING)
        },
        Err(error) => Check::missing(
            NAME,
            pmu.name,
            format!("opening it failed: {error}"),
            "end other profilers that hold it (perf record, the NMI watchdog), or update the kernel",
        ),
    }
}

/// The setting itself. `unbound` tells whether this process was found to count machine-wide despite
/// it.
fn paranoid(files: &Files, unbound: bool) -> Check {
    const NAME: &str = "perf_event_paranoid";
    match files.number::<i32>(PARANOID) {
        None => Check::missing(
            NAME,
            "not in this kernel",
            "/proc/sys/kernel/perf_event_paranoid is not there",
            "boot a kernel with CONFIG_PERF_EVENTS=y",
        ),
        Some(level @ ..=0) => Check::works(NAME, format!("{level}: machine-wide for everybody")),
        Some(level) if unbound => Check::works(NAME, format!("{level}: does not bind this user")),
        Some(1) => Check::limited(
            NAME,
            "1",
            "users without CAP_PERFMON count their own programs, kernel included",
            PERMIT_COUNTING,
        ),
        Some(2) => Check::limited(
            NAME,
            "2",
            "users without CAP_PERFMON count their own programs, without the kernel",
            PERMIT_COUNTING,
        ),
        Some(level) => Check::limited(
            NAME,
            level.to_string(),
            "users without CAP_PERFMON count nothing",
            PERMIT_COUNTING,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::super::check::tests::recorded;
    use super::*;

    fn errno(number: i32) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(number))
    }

    #[test]
    fn a_source_must_open() {
        let (_dir, files) =
            recorded(&[("sys/bus/event_source/devices/ibs_op/type", "11\n"), (PARANOID, "4\n")]);
        assert_eq!(samples(&files, false, |_| Ok(())).state, State::Works);
        let check = samples(&files, false, |_| errno(libc::EACCES));
        assert!(check.cause.unwrap().contains("perf_event_paranoid is 4"));
        assert_eq!(samples(&files, false, |_| errno(libc::EBUSY)).state, State::Missing);
        // Without a sampling unit, the check names the substitute.
        let (_dir, files) = recorded(&[("proc/cpuinfo", "flags\t\t: fpu hypervisor\n")]);
        for (emulated, instead) in [(false, "hints of AutoNUMA"), (true, "lab PMU")] {
            let check = samples(&files, emulated, |_| Ok(()));
            assert!(check.remedy.unwrap().contains(instead));
        }
    }

    #[test]
    fn no_pmu_is_distinguished_from_no_permission() {
        let (_dir, files) =
            recorded(&[("proc/cpuinfo", "flags\t\t: fpu hypervisor\n"), (PARANOID, "3\n")]);
        assert!(hardware(&files, errno(libc::ENOENT)).cause.unwrap().contains("virtual machine"));
        assert!(hardware(&files, errno(libc::EACCES)).cause.unwrap().contains("paranoid is 3"));
        let (_dir, files) = recorded(&[("proc/cpuinfo", "flags\t\t: fpu\n")]);
        assert!(hardware(&files, errno(libc::ENOENT)).cause.unwrap().contains("no driver"));
        assert_eq!(hardware(&files, Ok(())).state, State::Works);
    }

    #[test]
    fn the_setting_has_levels() {
        for (level, state) in [
            ("-1", State::Works),
            ("0", State::Works),
            ("2", State::Limited),
            ("4", State::Limited),
        ] {
            let (_dir, files) = recorded(&[(PARANOID, level)]);
            assert_eq!(paranoid(&files, false).state, state, "{level}");
            assert_eq!(paranoid(&files, true).state, State::Works, "{level}");
        }
        let (_dir, files) = recorded(&[]);
        assert_eq!(paranoid(&files, true).state, State::Missing);
    }

    #[test]
    fn the_first_cpu_need_not_be_0() {
        let (_dir, files) = recorded(&[("sys/devices/system/cpu/online", "2-7\n")]);
        assert_eq!(first_cpu(&files), 2);
    }
}

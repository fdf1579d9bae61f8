//! Starts programs under plans, and checks the settings from inside the program.
#![allow(clippy::unwrap_used, reason = "a failed expectation is what a test is for")]

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use numapilot_place::{
    Finished, MemoryMode, MemoryPolicy, NumaBalancing, Options, PlaceError, Plan, Prepared, Thp,
    prepare,
};
use numapilot_test_kit::make_executable;
use numapilot_topology::{CpuId, Machine};

/// Node 0 and CPU 0, which every machine that runs this test has.
fn machine() -> Machine {
    Machine::uniform(1, 1)
}

fn words(command: &[&str]) -> Vec<OsString> {
    command.iter().map(OsString::from).collect()
}

fn prepared(plan: &Plan, command: &[&str]) -> Prepared {
    prepare(plan, &machine(), &words(command), &Options::default()).unwrap()
}

fn output(plan: &Plan, command: &[&str]) -> (String, Finished) {
    let mut text = String::new();
    let (mut reader, writer) = std::io::pipe().unwrap();
    let running = prepared(plan, command)
        .spawn(|c| {
            c.stdout(writer);
        })
        .unwrap();
    reader.read_to_string(&mut text).unwrap();
    (text, running.wait(None).unwrap())
}

fn with_memory(mode: MemoryMode) -> Plan {
    let memory = MemoryPolicy { mode, ..MemoryPolicy::default() };
    Plan { memory, ..Plan::default() }
}

#[test]
fn every_policy_is_seen_by_the_program() {
    for (mode, seen) in [
        (MemoryMode::Inherit, " default "),
        (MemoryMode::Local, " local "),
        (MemoryMode::Interleave, " interleave:0 "),
        (MemoryMode::Bind, " bind:0 "),
        (MemoryMode::Preferred, " prefer:0 "),
        (MemoryMode::PreferredMany, " prefer (many):0 "),
        (MemoryMode::WeightedInterleave, " weighted interleave:0 "),
    ] {
        let plan = with_memory(mode);
        if let Some(note) = prepared(&plan, &["true"]).notes.first() {
            println!("skipped: {note}");
            continue;
        }
        let (maps, finished) = output(&plan, &["cat", "/proc/self/numa_maps"]);
        assert!(maps.lines().next().unwrap().contains(seen), "{mode:?}: {maps}");
        assert!(finished.status.success());
    }
}

#[test]
fn balancing_off_gives_an_explicit_local_policy() {
    let plan = Plan { numa_balancing: NumaBalancing::Off, ..Plan::default() };
    let (maps, _) = output(&plan, &["cat", "/proc/self/numa_maps"]);
    assert!(maps.lines().next().unwrap().contains(" local "), "{maps}");
}

#[test]
fn cpus_huge_pages_and_environment_arrive() {
    let plan = Plan {
        cpus: Some("0".into()),
        thp: Thp::Never,
        env: [("NUMAPILOT_TEST".to_owned(), "a b".to_owned())].into(),
        ..Plan::default()
    };
    let (text, finished) =
        output(&plan, &["sh", "-c", "cat /proc/self/status; echo \"[$NUMAPILOT_TEST]\""]);
    assert!(text.contains("Cpus_allowed_list:\t0\n"), "{text}");
    assert!(text.contains("THP_enabled:\t0\n"), "{text}");
    assert!(text.contains("[a b]"), "{text}");
    assert!(finished.usage.peak_rss_bytes > 0 && finished.usage.minor_faults > 0);
    assert!(finished.wall > Duration::ZERO);
}

#[test]
fn a_time_limit_ends_the_whole_group() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let command = words(&["sh", "-c", "trap '' TERM; sleep 600 & echo $!; sleep 600"]);
    let options = Options { new_group: true, ..Options::default() };
    let running = prepare(&Plan::default(), &machine(), &command, &options)
        .unwrap()
        .spawn(|c| {
            c.stdout(writer);
        })
        .unwrap();
    let finished = running.wait(Some(Duration::from_millis(200))).unwrap();
    assert!(finished.timed_out);
    assert_eq!(finished.status.signal(), Some(libc::SIGKILL));
    // The pipe is closed only when every process that holds it has ended.
    let mut sleeper = String::new();
    reader.read_to_string(&mut sleeper).unwrap();
    assert!(sleeper.trim().parse::<u32>().is_ok());
}

#[test]
fn a_dropped_program_is_not_left_behind() {
    let running = prepared(&Plan::default(), &["sleep", "600"])
        .spawn(|c| {
            c.stdin(Stdio::null());
        })
        .unwrap();
    let pid = u32::try_from(running.pid()).unwrap();
    drop(running);
    assert!(numapilot_sys::process::start_time(pid).is_err());
}

#[test]
fn failures_are_named() {
    let start = |program: &str| prepared(&Plan::default(), &[program]).spawn(|_| {}).unwrap_err();
    let error = start("no-such-program-here");
    assert!(matches!(error, PlaceError::NotFound { .. }), "{error:?}");
    assert_eq!(error.exit_status(), 127);
    let error = start("/etc/passwd");
    assert!(matches!(error, PlaceError::NotExecutable { .. }), "{error:?}");
    assert_eq!(error.exit_status(), 126);
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    make_executable(&script, &mut "#!/no/such/interpreter\n".as_bytes());
    let error = start(script.to_str().unwrap());
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("interpreter"), "{cause}");
    let none = prepare(&Plan::default(), &machine(), &[], &Options::default()).unwrap_err();
    assert_eq!(none.exit_status(), 125);
}

#[test]
fn cpus_the_kernel_refuses_stop_the_start() {
    // CPU 4000 exists only in this description.
    let mut machine = Machine::uniform(1, 4001);
    machine.allowed.cpus = [CpuId(4000)].into_iter().collect();
    let plan = Plan { cpus: Some("all".into()), ..Plan::default() };
    let error = prepare(&plan, &machine, &words(&["true"]), &Options::default())
        .unwrap()
        .spawn(|_| {})
        .unwrap_err();
    assert!(matches!(error, PlaceError::Step { .. }), "{error:?}");
}

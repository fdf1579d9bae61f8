//! Snapshots of every launcher, for plans that use every setting.

use std::process::Command;

use numapilot_topology::Machine;

use super::*;
use crate::allocators::{Found, known};
use crate::{
    AllocatorChoice, Daemons, MemoryMode, MemoryPolicy, NumaBalancing, Thp, ThreadPlacement,
    find_program,
};

const BIND: &str = "/usr/lib/numapilot/libnumapilot_bind.so";

fn jemalloc() -> Found {
    let path = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2".into();
    Found { known: known("jemalloc"), path, version: None }
}

/// A plan of what most launchers can do, on a machine of four nodes.
fn usual() -> Plan {
    Plan {
        allocator: AllocatorChoice::Named("jemalloc".into()),
        memory: MemoryPolicy { mode: MemoryMode::Interleave, ..MemoryPolicy::default() },
        cpu_nodes: Some("0-1".into()),
        thp: Thp::Never,
        env: [("MALLOC_CONF".to_owned(), "narenas:4,note:'50% \\ $(x)'".to_owned())].into(),
        ..Plan::default()
    }
}

fn exported(plan: &Plan, launcher: Launcher, version: Option<&str>) -> Exported {
    let targets = Targets::of(plan, &Machine::uniform(4, 2)).unwrap();
    let allocator = (plan.allocator != AllocatorChoice::Inherit).then(jemalloc);
    let settings = settings(plan, &targets, allocator.as_ref(), Some(Path::new(BIND))).unwrap();
    let version = version.map(|text| text.parse().unwrap());
    write(plan, &settings, Path::new("/etc/numapilot/app.toml"), launcher, version)
}

fn text(plan: &Plan, launcher: Launcher, version: Option<&str>) -> String {
    exported(plan, launcher, version).text
}

/// Subjects of what is missing.
fn missing(plan: &Plan, launcher: Launcher, version: Option<&str>) -> Vec<String> {
    exported(plan, launcher, version).missing.into_iter().map(|note| note.subject).collect()
}

#[test]
fn daemons_are_started_beside_the_program() {
    let plan = Plan { daemons: Daemons::BalanceAndCores, ..Plan::default() };
    let note = exported(&plan, Launcher::Systemd, Some("260")).missing.remove(0).to_string();
    assert_eq!(
        note,
        "daemons balance+cores: they run beside the program; start them as well: numapilot balance \
         --unit NAME and numapilot cores --unit NAME (-p PID for a process)"
    );
}

fn memory(mode: MemoryMode, nodes: &str) -> Plan {
    let memory = MemoryPolicy { mode, nodes: nodes.into(), balancing: false };
    Plan { memory, ..Plan::default() }
}

#[test]
fn every_launcher_writes_the_usual_plan() {
    let versions = [Some("252"), Some("1.5.0"), None, None, None, None, Some("2.0.16"), None];
    for (launcher, version) in Launcher::ALL.iter().zip(versions) {
        insta::assert_snapshot!(launcher.name(), text(&usual(), *launcher, version));
    }
}

#[test]
fn what_old_versions_ignore_is_a_comment_and_missing() {
    let never = Plan { thp: Thp::Never, ..Plan::default() };
    let weighted = memory(MemoryMode::WeightedInterleave, "0-1");
    let many = memory(MemoryMode::PreferredMany, "0-1");
    let bind = memory(MemoryMode::Bind, "1");
    for (plan, launcher, old, new, word) in [
        (&never, Launcher::Systemd, "252", "260", "\nMemoryTHP=disable\n"),
        (&bind, Launcher::Systemd, "242", "243", "\nNUMAPolicy=bind\nNUMAMask=\nNUMAMask=1\n"),
        (&weighted, Launcher::Systemd, "261", "262", "\nNUMAPolicy=weighted-interleave\n"),
        (&bind, Launcher::Oci, "1.3.9", "1.4", "{\"mode\": \"MPOL_BIND\", \"nodes\": \"1\"}"),
        (&weighted, Launcher::Numactl, "2.0.18", "2.0.19", "numactl --weighted-interleave=0-1 "),
        (&many, Launcher::Shell, "2.0.14", "2.0.15", "exec numactl --preferred-many=0-1 "),
    ] {
        let (before, after) =
            (exported(plan, launcher, Some(old)), exported(plan, launcher, Some(new)));
        assert!(!before.text.contains(word) && after.text.contains(word), "{before:?} {after:?}");
        assert_eq!((before.missing.len(), after.missing.len()), (1, 0), "{before:?} {after:?}");
        let note = before.missing[0].to_string();
        assert!(before.text.contains(&format!("# {note}\n")), "{before:?}");
        assert!(note.contains("numapilot run --profile /etc/numapilot/app.toml --"), "{note}");
        // Without a version, it is written and in doubt.
        let unknown = exported(plan, launcher, None);
        assert!(unknown.text.contains(word) && unknown.missing.len() == 1, "{unknown:?}");
        assert!(unknown.text.contains("--target-version"), "{unknown:?}");
    }
}

#[test]
fn each_launcher_has_the_policies_that_it_can_have() {
    use MemoryMode::{Bind, Interleave, Local, Preferred, PreferredMany, WeightedInterleave};
    let all = [
        (Local, ""),
        (Interleave, "0-1"),
        (WeightedInterleave, "0-1"),
        (Bind, "0-1"),
        (Preferred, "1"),
        (PreferredMany, "0-1"),
    ];
    let can = |launcher, version| -> Vec<&str> {
        let able = |(mode, nodes): &(MemoryMode, &str)| {
            missing(&memory(*mode, nodes), launcher, version).is_empty()
        };
        all.iter().filter(|policy| able(policy)).map(|(mode, _)| mode.name()).collect()
    };
    let every: Vec<&str> = all.iter().map(|(mode, _)| mode.name()).collect();
    let old = ["local", "interleave", "bind", "preferred"];
    assert_eq!(can(Launcher::Systemd, Some("252")), old);
    assert_eq!(can(Launcher::Systemd, Some("262")), every);
    assert_eq!(can(Launcher::Oci, Some("1.4.0")), every);
    assert_eq!(can(Launcher::Numactl, Some("2.0.14")), old);
    assert_eq!(can(Launcher::Shell, Some("2.0.19")), every);
    assert_eq!(can(Launcher::Docker, None), ["bind"]);
    assert_eq!(can(Launcher::Slurm, None), ["bind", "preferred"]);
    assert_eq!(can(Launcher::Spark, None), [""; 0]);
    assert_eq!(can(Launcher::Kubernetes, None), [""; 0]);
}

#[test]
fn what_exists_for_the_whole_machine_is_missing_everywhere() {
    let plan = Plan { thp: Thp::Always, numa_balancing: NumaBalancing::On, ..Plan::default() };
    for launcher in Launcher::ALL {
        let exported = exported(&plan, *launcher, Some("9999"));
        let subjects: Vec<&str> = exported.missing.iter().map(|n| n.subject.as_str()).collect();
        assert_eq!(subjects, ["thp always", "numa-balancing on"], "{exported:?}");
        assert!(exported.text.contains("glibc.malloc.hugetlb=1"), "{exported:?}");
        assert!(exported.text.contains("# thp always: "), "{exported:?}");
    }
    for (list, cause) in [
        ("glibc.malloc.hugetlb=0", "the plan's own GLIBC_TUNABLES decides"),
        ("glibc.malloc.hugetlb=1", "the malloc asks for huge pages by a variable"),
    ] {
        let env = [("GLIBC_TUNABLES".to_owned(), list.to_owned())].into();
        let exported =
            exported(&Plan { thp: Thp::Always, env, ..Plan::default() }, Launcher::Docker, None);
        assert!(exported.missing[0].cause.contains(cause), "{exported:?}");
    }
    // AutoNUMA is switched off for a program by an explicit policy.
    let off = Plan { numa_balancing: NumaBalancing::Off, ..Plan::default() };
    assert!(text(&off, Launcher::Systemd, Some("252")).contains("\nNUMAPolicy=local\n"));
}

#[test]
fn balancing_under_a_policy_that_excludes_it_is_missing_everywhere() {
    let mut plan = memory(MemoryMode::Interleave, "all");
    plan.memory.balancing = true;
    for launcher in Launcher::ALL {
        let missing = missing(&plan, *launcher, Some("999"));
        assert!(missing.contains(&"memory balancing".to_owned()), "{missing:?}");
    }
}

#[test]
fn variables_are_those_of_the_command_alone() {
    let mut plan = memory(MemoryMode::Local, "");
    plan.env.insert("PATH".to_owned(), "/opt".to_owned());
    let script = text(&plan, Launcher::Shell, Some("2.0.16"));
    assert!(script.ends_with("exec numactl --localalloc env PATH=/opt \"$@\"\n"), "{script}");
    let plan = Plan { memory: MemoryPolicy::default(), ..plan };
    let script = text(&plan, Launcher::Shell, None);
    assert!(script.ends_with("export PATH=/opt\nexec \"$@\"\n"), "{script}");
}

#[test]
fn threads_are_placed_by_variables() {
    let plan = Plan {
        threads: ThreadPlacement::Sparse,
        env: [("LD_PRELOAD".to_owned(), "/mine.so".to_owned())].into(),
        ..usual()
    };
    let text = text(&plan, Launcher::Systemd, Some("260"));
    assert!(text.contains(&format!(
        "\nEnvironment=\"LD_PRELOAD={BIND}:/usr/lib/x86_64-linux-gnu/libjemalloc.so.2:/mine.so\"\n"
    )));
    assert!(text.contains("\nEnvironment=\"NUMAPILOT_BIND_CPUS=0,2,1,3\"\n"), "{text}");
    assert_eq!(missing(&plan, Launcher::Systemd, Some("260")), ["threads"]);
    let glibc = Plan { allocator: AllocatorChoice::Named("glibc".into()), ..Plan::default() };
    let exported =
        export(&glibc, &Targets::default(), Path::new("p"), Launcher::Docker, None).unwrap();
    assert!(exported.text.contains("--env LD_PRELOAD=libc.so.6 IMAGE"), "{exported:?}");
}

#[test]
fn a_plan_that_changes_nothing_is_valid_everywhere() {
    for launcher in Launcher::ALL {
        let exported = exported(&Plan::default(), *launcher, Some("9999"));
        assert_eq!(exported.missing, []);
        assert!(exported.text.starts_with('#') && exported.text.ends_with('\n'), "{exported:?}");
    }
    let of = |launcher| text(&Plan::default(), launcher, Some("9999"));
    assert!(of(Launcher::Numactl).ends_with("\nCOMMAND\n"));
    assert!(of(Launcher::Oci).ends_with("\n.\n"));
    assert!(of(Launcher::Kubernetes).ends_with("- name: CONTAINER\n"));
}

#[test]
fn foreign_text_stays_in_its_place() {
    let names = [("with space", "x"), ("LINES", "a\nb\t\"'\u{1}%n$HOME")];
    let env = names.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let plan = Plan { env, ..Plan::default() };
    let others = [Launcher::Oci, Launcher::Docker];
    for launcher in Launcher::ALL.iter().filter(|launcher| !others.contains(launcher)) {
        assert_eq!(missing(&plan, *launcher, Some("9999")), ["variable with space"]);
        // It would be an option of env.
        let option = Plan { env: [("-u".to_owned(), "x".to_owned())].into(), ..Plan::default() };
        let exported = exported(&option, *launcher, Some("9999"));
        assert_eq!(exported.missing[0].cause, NO_IDENTIFIER);
    }
    let never =
        settings(&Plan { thp: Thp::Never, ..Plan::default() }, &Targets::default(), None, None);
    let path = Path::new("/my dir/it's.toml");
    let spaced = write(&Plan::default(), &never.unwrap(), path, Launcher::Docker, None);
    assert!(spaced.text.contains("--profile '/my dir/it'\\''s.toml' -- COMMAND"), "{spaced:?}");
    let text = text(&plan, Launcher::Systemd, Some("252"));
    assert!(text.contains("\nEnvironment=\"LINES=a\\nb\\t\\\"'\\x01%%n$HOME\"\n"), "{text}");
    // A comment ends at the end of its line, whatever the plan contains.
    assert!(text.starts_with("# The plan of /etc/numapilot/app.toml: LINES=a b \"' %n$HOME, with"));
}

/// bash and jq read back what was written, whatever the value is.
#[test]
fn values_survive() {
    let value = "a\nb\t\"'\\ \u{1}%n$HOME $(x) `y` \\(z) \u{e4}";
    let plan = Plan { env: [("VALUE".to_owned(), value.to_owned())].into(), ..Plan::default() };
    let output = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let has = |program: &str| find_program(program.as_ref(), "/usr/bin:/bin".as_ref()).is_some();
    let script = text(&plan, Launcher::Shell, Some("2.0.16"));
    let printed = output("bash", &["-c", &script, "x", "printenv", "VALUE"]);
    assert_eq!(printed, format!("{value}\n"));
    let line = text(&plan, Launcher::Numactl, None).replace("COMMAND", "printenv VALUE");
    assert_eq!(output("bash", &["-c", &line]), format!("{value}\n"));
    if has("jq") {
        let filter = format!(
            "{{\"process\": {{\"env\": [\"A=1\"]}}}} | {} | .process.env[]",
            text(&plan, Launcher::Oci, None)
        );
        assert_eq!(output("jq", &["-n", "-r", &filter]), format!("A=1\nVALUE={value}\n"));
    } else {
        println!("skipped: no jq");
    }
}

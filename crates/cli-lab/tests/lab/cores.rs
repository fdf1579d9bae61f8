//! `cores` with cgroup v2 on a machine of four nodes: cores are given, taken and restored, and CPUs
//! go offline.

use std::fs;
use std::process::{Command, Stdio};

use numapilot_topology::{CpuId, CpuSet};

use crate::guests::{NUMAPILOT, boots, compiled, err};

/// Two computing threads, held by each actuator. `where` prints their allowed CPUs. `settle` waits
/// until they have changed and then stayed the same for two seconds of the guest's clock, and
/// prints them.
const SCRIPT: &str = r#"
allowed() { sed -n 's/^Cpus_allowed_list:\s*//p' /proc/$P/status; }
where() { LAST=$(allowed); echo "$1 $LAST"; }
settle() {
    previous=$LAST tries=0
    while [ $((tries += 1)) -le 40 ]; do
        sleep 2
        now=$(allowed)
        [ "$now" != "$LAST" ] && [ "$now" = "$previous" ] && break
        previous=$now
    done
    where "$1"
}
start() { mkfifo "/tmp/$1"; PROGRAM 2 < "/tmp/$1" > /dev/null & P=$!; exec 3> "/tmp/$1"; }
for way in cgroup-v2 affinity; do
    start $way
    where before
    numapilot cores -p $P --actuator $way -v 2> /tmp/message & D=$!
    settle busy
    kill $D; wait $D; echo "status $?"
    where after
    echo "way $(grep -o 'held by .*' /tmp/message)"
    numapilot cores -p $P --actuator $way --placement sparse --max 4 & D=$!
    settle sparse
    kill -9 $D; wait $D
    numapilot restore
    where restored
    exec 3>&-; wait $P
done
start online
numapilot cores -p $P --max 2 & D=$!
settle two
echo 0 > /sys/devices/system/cpu/cpu1/online
settle offline
echo 1 > /sys/devices/system/cpu/cpu1/online
kill $D; wait $D; echo "status $?"
where after
ls -d /sys/fs/cgroup/numapilot* 2>/dev/null
echo "left $(ls /run/numapilot-cores | wc -l) $(cat /sys/fs/cgroup/cgroup.subtree_control)"
"#;

#[test]
fn cores_are_given_taken_and_put_back_by_cgroup_v2() {
    if !boots() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled("busy.c", directory.path()) else { return };
    let file = directory.path().join("script");
    fs::write(&file, SCRIPT.replace("PROGRAM", program.to_str().unwrap())).unwrap();
    let output = Command::new(NUMAPILOT)
        .args([
            "lab",
            "run",
            "-m",
            "opteron-8387",
            "--no-model",
            "--time-scale",
            "100",
            "--include",
        ])
        .arg(&program)
        .args(["--include", "sed", "--include", "grep", "--include", "mkfifo"])
        .args(["--", "sh", file.to_str().unwrap()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success(), "{text}{}", err(&output));
    let lines: Vec<&str> = text.lines().collect();
    let values = |name: &str| -> Vec<&str> {
        lines.iter().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).collect()
    };
    let all = values("before")[0];
    let count = CpuSet::parse_list(all).unwrap().len();
    assert!(count >= 8, "{text}");
    // Two busy threads need at least two cores, but not all. The dense order fills the first nodes.
    for busy in values("busy") {
        let cpus = CpuSet::parse_list(busy).unwrap();
        assert!((2..count).contains(&cpus.len()), "{text}");
        assert_eq!(cpus.to_string(), format!("0-{}", cpus.len() - 1), "{text}");
    }
    // The sparse order takes one CPU from each node in turn.
    let sparse: CpuSet =
        (0..4).map(|node| CpuId(node * u32::try_from(count).unwrap() / 4)).collect();
    assert_eq!(values("sparse"), [sparse.to_string(), sparse.to_string()], "{text}");
    assert!(values("way")[0].starts_with("held by cgroup v2, /sys/fs/cgroup/numapilot-cores-"));
    assert_eq!(values("after"), [all; 3], "{text}");
    assert_eq!(values("restored"), [all; 2], "{text}");
    assert_eq!(values("status"), ["0"; 3], "{text}");
    assert_eq!((values("two"), values("offline")), (vec!["0-1"], vec!["0,2"]), "{text}");
    assert_eq!(values("left"), ["0 "], "{text}");
}

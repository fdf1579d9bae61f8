//! `cores` on a program in a group as systemd leaves it: populated, with an empty `cpuset.cpus`
//! that the kernel does not allow to be emptied again. Also CPUs that go offline under a program
//! held by affinity. Where a daemon is killed, its guard is killed too. All cases share one boot.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

use crate::guests::{NUMAPILOT, boots, err};

/// The script prints lines of the form `NAME VALUE`. The machine has CPUs 0 to 3; `$G` is the
/// target's group.
const SCRIPT: &str = r#"
C=/sys/fs/cgroup
[ -e $C/cgroup.controllers ] || { mkdir -p $C; mount -t cgroup2 none $C; }
G=$C/system.slice/a.service
mkdir -p $G
echo +cpuset > $C/cgroup.subtree_control
echo +cpuset > $C/system.slice/cgroup.subtree_control
allowed() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$P/status; }
cpus() { cat $G/cpuset.cpus; }
effective() { cat $G/cpuset.cpus.effective; }
until_is() { for i in $(seq 300); do [ "$($1)" = "$2" ] && return; sleep 0.1; done; echo "$1-is-not $2 but $($1)"; cat /tmp/message >&2; }
online() { echo $2 > /sys/devices/system/cpu/cpu$1/online; }
fresh() { echo $P > $C/cgroup.procs; echo > $G/cpuset.cpus; echo $P > $G/cgroup.procs; }
until_said() { for i in $(seq 300); do grep -q "$1" /tmp/message && return; sleep 0.1; done; }
has() { grep -q "$1" /tmp/message && echo yes || { echo no; cat /tmp/message >&2; }; }
guard() { grep -lz "^$1:" /proc/[0-9]*/cmdline 2> /dev/null | cut -d/ -f3; }
hold() { numapilot cores -p $P "$@" > /tmp/out 2> /tmp/message & D=$!; }

sleep 10000 & P=$!
echo $P > $G/cgroup.procs
echo "empty '$(cpus)'"

hold --max 1
until_is effective 0
kill $D; wait $D; echo "ended $? $(effective) $(allowed)"
echo "message $(has 'does not let .*cpuset.cpus be emptied')"

echo > $G/cpuset.cpus 2> /dev/null || echo "refused still"
fresh
hold --max 1
until_is effective 0
kill -9 $(guard $D) $D; wait $D
numapilot restore > /tmp/message; echo "restored $? $(effective)"
# The next daemon finds all CPUs, even before anything restores what a killed one left.
hold --max 1
until_is effective 0
kill -9 $(guard $D) $D; wait $D
hold -v --min 4
until_is effective 0-3
until_said 'begins with'
echo "again $(has 'begins with 4 cores (CPUs 0-3)')"
kill $D; wait $D; echo "twice $? $(effective)"

# The settings cannot be restored.
fresh
hold --max 1
until_is effective 0
mount -o remount,ro $C
kill $D; wait $D; echo "failed $? $(has 'could not be put back: writing .*cpuset.cpus: Read-only')"
hold; wait $D; echo "second $? $(has 'first put back what a killed numapilot cores has left')"
numapilot restore > /tmp/message 2>&1; echo "unrestored $? $(has 'not put back')"
mount -o remount,rw $C
numapilot restore > /dev/null; echo "late $? $(effective)"

# A value that an administrator sets stays.
hold --max 1
until_is effective 0
echo 1-2 > $G/cpuset.cpus
wait $D; echo "administrator $? $(cpus) $(has "was set to '1-2' by somebody else")"
hold --max 1
until_is effective 1
kill -9 $(guard $D) $D; wait $D
echo 2 > $G/cpuset.cpus
numapilot restore > /tmp/message; echo "left $? $(cpus) $(has 'left as it is')"
echo 0-3 > $G/cpuset.cpus

# A CPU that is offline at the start is used when it comes online, and is the target's at the end:
# both in the target's group and in the root group.
for where in group first; do
    [ $where = first ] && echo $P > $C/cgroup.procs
    online 1 0
    hold --actuator affinity --min 2 --max 2
    until_is allowed 0,2
    online 1 1; online 2 0; online 3 0
    until_is allowed 0-1
    online 2 1; online 3 1
    kill $D; wait $D; echo "$where-ended $? $(allowed)"
    # A CPU goes offline while it is held; the daemon or `restore` puts it back.
    for end in TERM KILL; do
        hold --actuator affinity --min 2 --max 2
        until_is allowed 0-1
        online 1 0
        until_is allowed 0,2
        [ $end = KILL ] && kill -9 $(guard $D)
        kill -$end $D; wait $D
        [ $end = KILL ] && numapilot restore > /dev/null
        online 1 1
        until_is allowed 0-3
        echo "$where-$end $(allowed)"
    done
done
kill $P
echo "records $(ls /run/numapilot-cores | grep -c json)"
"#;

#[test]
fn a_group_of_systemd_gets_its_cpus_back() {
    if !boots() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("script");
    fs::write(&file, SCRIPT).unwrap();
    let output = Command::new(NUMAPILOT)
        .args(["lab", "run", "-m", "i9-7900x", "--no-model", "--timeout", "300s"])
        .args(["--include", "sed", "--include", "grep", "--include", "mount", "--include", "seq"])
        .args(["--include", "cut"])
        .args(["--", "sh", file.to_str().unwrap()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", err(&output));
    let found: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.split_once(' ')).collect();
    let expected = [
        ("empty", "''"),
        ("ended", "0 0-3 0-3"),
        ("message", "yes"),
        ("refused", "still"),
        ("restored", "0 0-3"),
        ("again", "yes"),
        ("twice", "0 0-3"),
        ("failed", "125 yes"),
        ("second", "125 yes"),
        ("unrestored", "125 yes"),
        ("late", "0 0-3"),
        ("administrator", "125 1-2 yes"),
        ("left", "0 2 yes"),
        ("group-ended", "0 0-3"),
        ("group-TERM", "0-3"),
        ("group-KILL", "0-3"),
        ("first-ended", "0 0-3"),
        ("first-TERM", "0-3"),
        ("first-KILL", "0-3"),
        ("records", "0"),
    ];
    assert_eq!(found, expected.into_iter().collect(), "{text}{}", err(&output));
}

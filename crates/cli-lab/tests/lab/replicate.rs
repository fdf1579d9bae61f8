//! Copies on every node, and memory of forked children: their real location. One boot.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::guests::{NUMAPILOT, boots, err};

/// Compiles the guest's program with this build's static library.
fn program(directory: &Path) -> Option<std::path::PathBuf> {
    let program = directory.join("replicate");
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = Path::new(NUMAPILOT).with_file_name("libnumapilot_replicate.a");
    if !library.exists() {
        println!("skipped: no {}: cargo build --workspace makes it", library.display());
        return None;
    }
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Werror", "-pthread", "-I"]);
    cc.arg(crates.join("../inside/replicate/c/include"));
    cc.arg("-o").arg(&program).arg(crates.join("../cli/tests/programs/replicate.c")).arg(library);
    let Ok(output) = cc.output() else {
        println!("skipped: no C compiler");
        return None;
    };
    assert!(output.status.success(), "{}", err(&output));
    Some(program)
}

#[test]
fn copies_and_children_are_on_their_nodes() {
    if !boots() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = program(directory.path()) else { return };
    let program = program.display().to_string();
    // In the last case node 3 is not allowed, so its CPUs read from the nearest other node.
    let script = format!(
        "{program} values
         {program} child
         NUMAPILOT_REHOME=1048576 numapilot run --threads sparse -- {program} server
         mkdir -p /tmp/cgroup && mount -t cgroup2 none /tmp/cgroup
         echo +cpuset > /tmp/cgroup/cgroup.subtree_control
         mkdir /tmp/cgroup/three && echo 0-2 > /tmp/cgroup/three/cpuset.mems
         echo $$ > /tmp/cgroup/three/cgroup.procs
         {program} values 0 1 2 1"
    );
    let output = Command::new(NUMAPILOT)
        .args(["lab", "run", "-m", "opteron-8385", "--no-model", "--numa-balancing", "off"])
        .args(["--include", &program, "--", "sh", "-c", &script])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let expected = "copies on 4 nodes\n\
                    the child has its own\n\
                    the child has its own\n\
                    copies on 3 nodes\n";
    assert_eq!(text, expected, "{}", err(&output));
}

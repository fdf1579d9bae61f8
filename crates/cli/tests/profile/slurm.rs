//! `--via slurm` with the daemons of Slurm.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::slurm_cluster::start;
use crate::{NUMAPILOT, err, folder, out};

#[test]
fn both_nodes_of_a_cluster_attest_the_plan() {
    let folder = folder("thp = \"never\"\n[env]\nVALUE = \"a b\"\n");
    let cluster = start(folder.path(), "");
    if let Err(reason) = &cluster {
        println!("skipped: {reason}");
        return;
    }
    let run = |arguments: &[&str]| {
        Command::new(NUMAPILOT)
            .current_dir(folder.path())
            .env("SLURM_CONF", folder.path().join("slurm.conf"))
            .args([&["run", "--profile=p.toml"], arguments].concat())
            .output()
            .unwrap()
    };
    let show = "echo \"$SLURMD_NODENAME $VALUE\" $(grep THP_enabled /proc/self/status); sleep 0.6";
    let output = run(&["--strict", "-v", "--via=slurm:-N2", "--attest=a", "--", "sh", "-c", show]);
    assert!(output.status.success(), "{}", err(&output));
    let text = out(&output);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["n1 a b THP_enabled: 0", "n2 a b THP_enabled: 0"]);
    let run_directory = fs::read_dir(folder.path().join("a")).unwrap().next().unwrap().unwrap();
    let mut ranks = Vec::new();
    for file in fs::read_dir(run_directory.path()).unwrap() {
        let text = fs::read(file.unwrap().path()).unwrap();
        let attestation: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(attestation["task"]["tasks"], 2, "{attestation}");
        assert_eq!(attestation["settings"][0]["state"], "in-effect", "{attestation}");
        ranks.push(attestation["task"]["rank"].as_u64().unwrap());
    }
    ranks.sort_unstable();
    assert_eq!(ranks, [0, 1]);
    // A task that never gets to numapilot is missing, and Slurm has told the other one how many
    // there are.
    let one = "[ \"$SLURM_PROCID\" = 1 ] || {}";
    let via = format!("srun -N2 sh -c '{one}'");
    let output = run(&["--strict", "--via", &via, "--", "true"]);
    assert_eq!(output.status.code(), Some(125), "{}", err(&output));
    assert!(err(&output).contains("1 of 2 tasks of Slurm"), "{}", err(&output));
    assert!(err(&output).contains("attested what took effect; missing: 1;"), "{}", err(&output));
}

//! The warning about a command that starts the program elsewhere.

use std::os::unix::fs::symlink;
use std::process::Output;

use numapilot_test_kit::make_executable;

use crate::{err, failure, folder, numapilot, success};

fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", err(output));
    err(output).lines().map(str::to_owned).collect()
}

#[test]
fn a_plan_that_stays_on_this_side_is_reported() {
    let folder = folder("thp = \"never\"\n");
    symlink("/bin/echo", folder.path().join("srun")).unwrap();
    let with_profile = numapilot(folder.path(), &["run", "--profile", "p.toml", "./srun", "ran"]);
    assert_eq!(with_profile.stdout, b"ran\n");
    let warning = lines(&with_profile);
    assert_eq!(warning.len(), 1, "{warning:?}");
    assert!(warning[0].contains("warning: srun: "), "{warning:?}");
    let remedy = "srun ... numapilot run --profile p.toml -- COMMAND";
    assert!(warning[0].contains(remedy), "{warning:?}");
    assert!(warning[0].ends_with("--via 'srun ... {}'"), "{warning:?}");
    let strict = failure(folder.path(), &["run", "--strict", "--thp=never", "--", "./srun", "ran"]);
    assert!(strict.contains("srun ... numapilot run OPTIONS -- COMMAND"), "{strict}");
    // Without a plan, nothing is lost.
    assert!(lines(&numapilot(folder.path(), &["run", "--strict", "--", "./srun"])).is_empty());
    let stat = numapilot(folder.path(), &["stat", "--profile", "p.toml", "./srun"]);
    assert!(err(&stat).contains("warning: srun: "), "{}", err(&stat));
}

#[test]
fn a_search_that_cannot_reach_the_program_is_reported() {
    let folder = folder("# nothing\n");
    let script = "#!/bin/sh\nexec sleep 0.01\n";
    make_executable(&folder.path().join("mpirun"), &mut script.as_bytes());
    let output = numapilot(
        folder.path(),
        &[
            "tune",
            "--state=state",
            "--factor=allocator=inherit",
            "--factor=threads=none",
            "--factor=memory=inherit",
            "--factor=thp=inherit",
            "--factor=numa-balancing=inherit",
            "--",
            "./mpirun",
        ],
    );
    let text = err(&output);
    assert!(
        text.contains("warning: mpirun: ")
            && text.contains("numapilot tune --via 'mpirun ... {}' -- COMMAND"),
        "{text}"
    );
    success(folder.path(), &["profile", "show", "p.toml"]);
}

//! Exported plans in the programs for which they are written.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::{err, failure, folder, numapilot, out, success};

/// A plan that most launchers can express. A variable shows that quoting survives.
pub const PLAN: &str =
    "cpus = \"+0\"\n[memory]\nmode = \"interleave\"\n[env]\nVALUE = \"50% of 'x' \\\\ $HOME\"\n";
const VALUE: &str = "50% of 'x' \\ $HOME";

/// Prints the policy, the CPUs and the variable of a process.
pub const SHOW: &str = "read address policy rest < /proc/self/numa_maps; echo \"$policy\"; \
                    grep Cpus_allowed_list /proc/self/status; printenv VALUE";

/// What [`SHOW`] prints under the plan.
pub fn shows_the_plan(text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("interleave:"), "{text}");
    let cpus = lines[1].split_whitespace().nth(1).unwrap();
    assert!(cpus.parse::<u32>().is_ok(), "{text}");
    assert_eq!(lines[2..], [VALUE], "{text}");
}

/// What a program printed that ended well.
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", out(output), err(output));
    out(output)
}

pub fn export(folder: &Path, target: &str, more: &[&str]) -> String {
    success(folder, &[&["profile", "export", "p.toml", "--to", target], more].concat())
}

/// Whether a program is there, or says that the test is skipped.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: no {program}");
    }
    found
}

#[test]
fn numactl_and_bash_make_the_plan() {
    if !has("numactl") || !has("bash") {
        return;
    }
    let folder = folder(PLAN);
    let bash = |arguments: &[&str]| {
        Command::new("bash").args(arguments).current_dir(folder.path()).output().unwrap()
    };
    let line = export(folder.path(), "numactl", &["--strict"]);
    let command = format!("bash -c '{SHOW}'");
    shows_the_plan(&printed(&bash(&["-c", &line.replace("COMMAND", &command)])));
    fs::write(folder.path().join("plan"), export(folder.path(), "shell", &["--strict"])).unwrap();
    assert!(bash(&["-n", "plan"]).status.success());
    shows_the_plan(&printed(&bash(&["plan", "bash", "-c", SHOW])));
    fs::write(folder.path().join("job"), export(folder.path(), "slurm", &[])).unwrap();
    assert!(bash(&["-n", "job"]).status.success());
}

/// Output without colours is stripped of escape sequences, and these are the user's.
#[test]
fn escape_sequences_of_a_value_are_exported() {
    let folder = folder("[env]\nVALUE = \"a\\u001B[31mb\\u007F\"\n");
    for (target, value) in [
        ("shell", r"a\x1b[31mb\x7f"),
        ("numactl", r"a\x1b[31mb\x7f"),
        ("docker", r"a\x1b[31mb\x7f"),
        ("slurm", r"a\x1b[31mb\x7f"),
        ("spark", r"a\x1b[31mb\x7f"),
        ("systemd", r"a\x1b[31mb\x7f"),
        ("oci", r"a\u001b[31mb\u007f"),
        ("kubernetes", r"a\u001b[31mb\u007f"),
    ] {
        let text = export(folder.path(), target, &[]);
        assert!(text.contains(value), "{target}: {text}");
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{target}: {text:?}");
    }
    let script = folder.path().join("plan");
    fs::write(&script, export(folder.path(), "shell", &[])).unwrap();
    let run = Command::new("bash").arg(&script).args(["printenv", "VALUE"]).output().unwrap();
    assert_eq!(printed(&run), "a\x1b[31mb\x7f\n");
}

#[test]
fn systemd_knows_every_line() {
    if !has("systemd-analyze") {
        return;
    }
    let folder = folder(&format!("thp = \"never\"\n{PLAN}"));
    let unit = folder.path().join("x.service");
    let drop_in = folder.path().join("x.service.d");
    fs::create_dir(&drop_in).unwrap();
    fs::write(&unit, "[Service]\nExecStart=/bin/true\n").unwrap();
    let complaints = |text: String| {
        fs::write(drop_in.join("numa.conf"), text).unwrap();
        let mut verify = Command::new("systemd-analyze");
        let output = verify.args(["verify", "--man=no"]).arg(&unit).output().unwrap();
        let text = err(&output);
        text.lines().filter(|line| line.contains("numa.conf")).map(str::to_owned).collect()
    };
    let own: Vec<String> = complaints(export(folder.path(), "systemd", &[]));
    assert_eq!(own, [""; 0]);
    // It complains about what it does not know, so silence means something.
    let wrong = complaints("[Service]\nNUMAPolicy=sideways\n".to_owned());
    if wrong.is_empty() {
        println!("skipped: systemd-analyze verify does not read units here");
    }
}

#[test]
fn runc_gets_cpus_and_variables_and_ignores_what_it_does_not_know() {
    if !has("runc") || !has("jq") {
        return;
    }
    let folder = folder(PLAN);
    let run = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).current_dir(folder.path()).output().unwrap()
    };
    fs::create_dir(folder.path().join("rootfs")).unwrap();
    assert!(run("runc", &["spec"]).status.success());
    let show = SHOW.replace('"', "\\\"");
    let bundle = format!(
        ".process.args = [\"/bin/sh\", \"-c\", \"{show}\"] | .process.terminal = false \
         | .root.readonly = false | .mounts += ([\"/bin\", \"/lib\", \"/lib64\", \"/usr\"] | map({{\
         destination: ., type: \"bind\", source: ., options: [\"rbind\", \"ro\"]}}))"
    );
    let patch = |filter: &[&str]| {
        let output = run("jq", &[filter, &["config.json"]].concat());
        assert!(output.status.success(), "{}", err(&output));
        fs::write(folder.path().join("config.json"), output.stdout).unwrap();
    };
    let container = |name: &str| {
        let name = format!("numapilot-test-{}-{name}", std::process::id());
        run("runc", &["run", &name])
    };
    patch(&[&bundle]);
    let plain = container("plain");
    if !out(&plain).starts_with("default") {
        println!("skipped: runc starts no container here: {}", err(&plain));
        return;
    }
    let filter = export(folder.path(), "oci", &["--target-version", "1.4.0"]);
    assert!(filter.contains("MPOL_INTERLEAVE"), "{filter}");
    fs::write(folder.path().join("plan.jq"), filter).unwrap();
    patch(&["-f", "plan.jq"]);
    let patched = container("patched");
    let here = numapilot(folder.path(), &["profile", "export", "p.toml", "--to", "oci"]);
    if out(&here).contains("ignores linux.memoryPolicy") {
        let text = out(&patched);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines[2]), ("default", VALUE), "{text}{}", err(&patched));
        failure(folder.path(), &["profile", "export", "p.toml", "--to", "oci", "--strict"]);
    } else {
        shows_the_plan(&printed(&patched));
    }
}

//! Programs that another launcher starts: `--via`, with launchers that start them on this machine.

use std::fs;
use std::path::Path;
use std::process::Command;

use numapilot_test_kit::make_executable;
use serde_json::Value;

use crate::{NUMAPILOT, err, failure, folder, numapilot, out, success};

/// A launcher that clears everything that a parent passes on but the path.
const LAUNCHER: &str = "#!/bin/sh\nexec env -i PATH=\"$PATH\" HOME=\"$HOME\" \"$@\"\n";

fn launcher(folder: &Path, name: &str, script: &str) {
    make_executable(&folder.join(name), &mut script.as_bytes());
}

#[test]
fn the_plan_reaches_the_far_side_and_is_attested() {
    let folder = folder("thp = \"never\"\n[env]\nVALUE = \"a 'b' $c\"\n");
    launcher(folder.path(), "srun", LAUNCHER);
    let show = "grep THP_enabled /proc/self/status; echo \"$VALUE\"; sleep 0.6";
    for template in ["./srun {}", "./srun sh -c 'true; {}'"] {
        let output = numapilot(
            folder.path(),
            &[
                "run",
                "-v",
                "--strict",
                "--profile=p.toml",
                "--via",
                template,
                "--",
                "sh",
                "-c",
                show,
            ],
        );
        assert!(output.status.success(), "{}", err(&output));
        assert_eq!(out(&output), "THP_enabled:\t0\na 'b' $c\n");
        assert!(
            err(&output).contains(": thp never: in effect (THP_enabled: 0"),
            "{}",
            err(&output)
        );
    }
    let left = fs::read_dir(folder.path()).unwrap();
    let left =
        left.filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().contains("numapilot-"));
    assert_eq!(left.count(), 0);
    // What is in the caller's directory is kept, in one for each run.
    let given = ["run", "--profile=p.toml", "--attest=a", "--via=./srun {}", "true"];
    success(folder.path(), &given);
    success(folder.path(), &given);
    assert_eq!(fs::read_dir(folder.path().join("a")).unwrap().count(), 2);
    for run in fs::read_dir(folder.path().join("a")).unwrap() {
        let mut files = fs::read_dir(run.unwrap().path()).unwrap();
        let text = fs::read(files.next().unwrap().unwrap().path()).unwrap();
        assert!(files.next().is_none());
        let attestation: Value = serde_json::from_slice(&text).unwrap();
        assert!(attestation["plan"].as_str().unwrap().starts_with("thp never"), "{attestation}");
        assert!(attestation["settings"].is_array(), "{attestation}");
    }
}

#[test]
fn a_missing_attestation_is_reported() {
    let folder = folder("thp = \"never\"\n");
    let run = |more: &[&str]| numapilot(folder.path(), &[&["run", "--thp=never"], more].concat());
    let output = run(&["--via", "true {}", "--", "app"]);
    assert!(output.status.success() && err(&output).contains("no attestation"), "{}", err(&output));
    let output = run(&["--strict", "--via", "true {}", "--", "app"]);
    assert_eq!(output.status.code(), Some(125));
    // The status of the program passes through the launcher.
    let output = run(&["--via", "env {}", "--", "sh", "-c", "exit 3"]);
    assert_eq!((output.status.code(), err(&output)), (Some(3), String::new()));
    // The far end says why it cannot run the program, and nothing is said twice.
    for strict in [&["--strict"][..], &[]] {
        let output = run(&[strict, &["--via", "env {}", "--", "nosuch"]].concat());
        assert_eq!(output.status.code(), Some(127), "{}", err(&output));
        assert_eq!(err(&output).matches("nosuch").count(), 1, "{}", err(&output));
    }
    let error = failure(folder.path(), &["run", "--attest=p.toml/a", "--via=env {}", "true"]);
    assert!(
        error.contains("/p.toml/a/attest-")
            && error.contains("Not a directory")
            && error.contains("give --attest DIR"),
        "{error}"
    );
    for (template, part) in [
        ("srun", "has no {}"),
        ("a {} {}", "more than once"),
        ("'{}", "no end"),
        ("docker", "docker:IMAGE"),
        ("spark:x", "nothing can follow"),
    ] {
        let error = failure(folder.path(), &["run", "--via", template, "true"]);
        assert!(error.contains(part), "{error}");
    }
    let error = failure(folder.path(), &["run", "--attest=/nonexistent", "true"]);
    assert!(error.contains("/nonexistent") && error.contains("make the directory"), "{error}");
}

#[test]
fn text_of_the_far_side_stays_on_its_line() {
    let folder = folder("");
    // It attests in place of numapilot: the word behind --attest is the directory.
    let script = concat!(
        "#!/bin/sh\nwhile [ \"$1\" != --attest ]; do shift; done\n\
         printf %s '{\"host\":\"a\\nb\\u001b\",\"process\":1,\"plan\":\"x\\ny\",\"version\":\"",
        env!("CARGO_PKG_VERSION"),
        "\"}' >\"$2/attest-1-x.json\"\n"
    );
    launcher(folder.path(), "forge", script);
    for verb in [&["run", "-v"][..], &["stat"]] {
        let output = numapilot(folder.path(), &[verb, &["--via=./forge {}", "true"]].concat());
        let text = err(&output);
        assert!(text.contains(r"a\x0ab\x1b, process 1: the plan was 'x\x0ay'"), "{text}");
    }
}

#[test]
fn a_setting_without_effect_is_attested_as_such() {
    let folder = folder("");
    fs::create_dir(folder.path().join("a")).unwrap();
    let undone = [
        "run",
        "--strict",
        "-i=all",
        "--attest=a",
        "--",
        env!("CARGO_BIN_EXE_numapilot"),
        "run",
        "-l",
        "sleep",
        "0.5",
    ];
    failure(folder.path(), &undone);
    let output = numapilot(folder.path(), &["stat", "--attest=a", "--via=env {}", "true"]);
    // The earlier attestation, of another plan, is not one of this run.
    assert!(!err(&output).contains("--via"), "{}", err(&output));
}

/// Prints a figure that follows from the plan's environment.
const PROGRAM: &str = "echo figure=${FIGURE:-100}";

fn tune<'a>(via: &'a str, state: &'a str) -> Vec<&'a str> {
    let mut words =
        vec!["tune", "--state", state, "--json", "--metric=figure=([0-9]+)", "--via", via];
    words.extend(["--factor=allocator=inherit", "--factor=threads=none", "--factor=thp=inherit"]);
    words.extend(["--factor=memory=inherit", "--factor=numa-balancing=inherit", "--plan=p.toml"]);
    words.extend(["--", "sh", "-c", PROGRAM]);
    words
}

#[test]
fn plans_are_measured_on_the_far_side() {
    let folder = folder("[env]\nFIGURE = \"80\"\n");
    launcher(folder.path(), "srun", LAUNCHER);
    let report: Value =
        serde_json::from_str(&success(folder.path(), &tune("./srun {}", "state"))).unwrap();
    assert_eq!(report["best"]["plan"], "FIGURE=80", "{report}");
    assert_eq!(report["default"]["median"], 100.0);
    assert_eq!(fs::read_dir(folder.path().join("state/attest")).unwrap().count(), 0);
}

#[test]
fn a_run_without_the_right_attestation_fails_with_the_reason() {
    let folder = folder("[env]\nFIGURE = \"80\"\n");
    // It keeps the plan away from the program.
    let script = "#!/bin/sh\nfor a do shift; case $a in --env=*) ;; *) set -- \"$@\" \"$a\";; esac; \
                  done\nexec \"$@\"\n";
    launcher(folder.path(), "srun", script);
    let report: Value =
        serde_json::from_str(&success(folder.path(), &tune("./srun {}", "state"))).unwrap();
    assert!(report["best"].is_null(), "{report}");
    let failed = report["plans"].as_array().unwrap();
    let failed = failed.iter().find(|plan| plan["plan"] == "FIGURE=80").unwrap();
    let reason = failed["reason"].as_str().unwrap();
    assert!(reason.contains("the plan was 'default', not 'FIGURE=80'"), "{reason}");
    // What is missing on the other side is attested as well.
    let gone = "sh -c 'PATH=/nonexistent; exec {}'";
    let error = failure(folder.path(), &tune(gone, "third"));
    assert!(error.contains("plan: not in effect: sh: not found"), "{error}");
    // Without any attestation, even the default has no figure.
    let silent = "sh -c 'echo figure=1; : {}'";
    let error = failure(folder.path(), &tune(silent, "other"));
    assert!(error.contains("no attestation"), "{error}");
}

#[test]
fn the_number_of_far_ends_is_checked() {
    let folder = folder("");
    // It tells each task its number and that of all, and loses the second one if it is asked to.
    let script = "#!/bin/sh\nfor rank in 0 1; do\n[ \"$LOSE\" = $rank ] ||\n\
                  PMI_RANK=$rank PMI_SIZE=2 \"$@\" || exit\ndone\n";
    launcher(folder.path(), "mpiexec", script);
    let run = |lose: &str, more: &[&str]| {
        let fixed = ["--thp=never", "--via=./mpiexec {}", "--", "true"];
        Command::new(NUMAPILOT)
            .current_dir(folder.path())
            .env("LOSE", lose)
            .args([&["run"], more, &fixed].concat())
            .output()
            .unwrap()
    };
    for more in [&[][..], &["--via-count=2"]] {
        let output = run("", more);
        assert_eq!((output.status.code(), err(&output)), (Some(0), String::new()));
    }
    let text = err(&run("1", &[]));
    assert!(text.contains("1 of 2 tasks of MPI attested what took effect; missing: 1;"), "{text}");
    let text = err(&run("1", &["--via-count=2"]));
    assert!(text.contains("1 of 2 far ends attested what took effect"), "{text}");
    let output = run("", &["--strict", "--via-count=3"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(err(&output).contains("2 of 3 far ends"), "{}", err(&output));
    // Each of several runs has as many.
    let stat = ["stat", "-r2", "--via=./mpiexec {}", "--via-count=2", "--", "true"];
    assert!(!err(&numapilot(folder.path(), &stat)).contains("far ends"));
    // What this process was told is not what a launcher tells its tasks.
    let output = Command::new(NUMAPILOT)
        .env("PMI_SIZE", "2")
        .env("PMI_RANK", "0")
        .current_dir(folder.path())
        .args(["run", "--thp=never", "--via=env {}", "--", "true"])
        .output()
        .unwrap();
    assert_eq!((output.status.code(), err(&output)), (Some(0), String::new()));
}

#[test]
fn a_trial_without_all_far_ends_fails_with_the_reason() {
    let folder = folder("[env]\nFIGURE = \"80\"\n");
    let error = failure(
        folder.path(),
        &[&tune("env {}", "state")[..1], &["--via-count=2"], &tune("env {}", "state")[1..]]
            .concat(),
    );
    assert!(error.contains("1 of 2 far ends attested what took effect"), "{error}");
}

#[test]
fn a_far_end_that_differs_is_named() {
    let folder = folder("");
    let run = |via: &str| {
        let output = numapilot(folder.path(), &["run", "--thp=never", "--via", via, "--", "app"]);
        (output.status.code(), err(&output))
    };
    // No numapilot under the path, as on a machine where it is not installed, or is for another one.
    let (status, text) = run("sh -c 'exec /nonexistent{}'");
    assert_eq!(status, Some(127));
    assert!(text.contains("install numapilot there under this path, for that machine"), "{text}");
    // The environment of the other side lacks the program.
    let (status, text) = run("env PATH=/nonexistent {}");
    assert_eq!(status, Some(127));
    assert_eq!(text.matches("app: not found in").count(), 1, "{text}");
    // stat says it once as well.
    let stat = numapilot(folder.path(), &["stat", "--via=env {}", "--", "nosuch"]);
    assert_eq!(stat.status.code(), Some(127));
    assert_eq!(err(&stat).matches("nosuch: not found").count(), 1, "{}", err(&stat));
}

/// Prints where an executor's Java is, and runs it, as a worker of Spark does.
const SPARK: &str = "#!/bin/sh\nfor word; do case $word in\n\
                     spark.executorEnv.JAVA_HOME=*) home=${word#*=};; esac; done\n\
                     JAVA_HOME=$home \"$home/bin/java\" -version\n\
                     test -e \"$home/lib\" && echo \"$1\"\n";

#[test]
fn spark_starts_its_executors_under_the_plan() {
    let folder = folder("");
    let java = folder.path().join("jdk");
    fs::create_dir_all(java.join("bin")).unwrap();
    fs::create_dir(java.join("lib")).unwrap();
    let script =
        "#!/bin/sh\necho \"$JAVA_HOME\" \"$@\"; grep THP_enabled /proc/self/status; sleep 0.6\n";
    launcher(&java.join("bin"), "java", script);
    launcher(folder.path(), "spark-submit", SPARK);
    let run = |more: &[&str]| {
        Command::new(NUMAPILOT)
            .current_dir(folder.path())
            .env("JAVA_HOME", &java)
            .args([&["run", "--strict", "--thp=never", "--via=spark"], more].concat())
            .output()
            .unwrap()
    };
    let output = run(&["-v", "--via-count=1", "--", "./spark-submit", "app.jar"]);
    assert!(output.status.success(), "{}", err(&output));
    let seen = format!("{} -version\nTHP_enabled:\t0\n--conf\n", java.display());
    assert_eq!(out(&output), seen, "{}", err(&output));
    assert!(err(&output).contains("thp never: in effect"), "{}", err(&output));
    for (command, part) in [
        (&["--", "python3", "x.py"][..], "--via spark starts spark-submit, "),
        (&["--dry-run", "--", "spark-submit", "x"], "profile export"),
    ] {
        let output = run(command);
        assert_eq!(output.status.code(), Some(125));
        assert!(err(&output).contains(part), "{}", err(&output));
    }
}

#[test]
fn dask_and_docker_start_programs_by_numapilot() {
    let folder = folder("");
    let dask = "#!/bin/sh\n[ \"$1 $2\" = 'ssh --remote-python' ] && exec \"$3\" -c \
                'print(\"worker\")'\n";
    launcher(folder.path(), "dask", dask);
    let run = |more: &[&str]| numapilot(folder.path(), &[&["run", "--thp=never"], more].concat());
    if Command::new("python3").arg("--version").output().is_ok() {
        let output = run(&["--via=dask", "--via-count=1", "--", "./dask", "ssh", "host"]);
        assert_eq!((out(&output).as_str(), err(&output).as_str()), ("worker\n", ""));
        let queue = "exec \"$DASK_JOBQUEUE__SLURM__PYTHON\" -c 'print(1)'";
        let output = run(&["--via=dask", "--via-count=1", "--", "sh", "-c", queue]);
        assert_eq!((out(&output).as_str(), err(&output).as_str()), ("1\n", ""));
    } else {
        println!("skipped: no python3");
    }
    // What is behind the image is run.
    let docker = "#!/bin/sh\nwhile [ \"$1\" != image:1 ]; do echo \"$1\" >>words; shift; done\n\
                  shift\nexec \"$@\"\n";
    launcher(folder.path(), "docker", docker);
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let output = Command::new(NUMAPILOT)
        .current_dir(folder.path())
        .env("PATH", path)
        .args(["run", "--thp=never", "--via=docker:image:1", "--", "echo", "ran"])
        .output()
        .unwrap();
    assert_eq!((out(&output).as_str(), err(&output).as_str()), ("ran\n", ""));
    let words = fs::read_to_string(folder.path().join("words")).unwrap();
    let program = fs::canonicalize(NUMAPILOT).unwrap();
    let mount = format!("--mount=type=bind,source={0},target={0},readonly\n", program.display());
    assert!(words.contains(&mount) && words.contains("--cap-add=SYS_NICE\n"), "{words}");
}

#[test]
fn a_profile_is_compared_with_the_machine_of_the_far_end() {
    let measured = "thp = \"never\"\n[measured]\ntopology = \"0123456789abcdef\"\n";
    let folder = folder(measured);
    // The far end has the topology of this machine, which is not that of the profile.
    let run = |more: &[&str]| {
        let words = ["run", "--profile", "p.toml", "--via", "sh -c \"exec {}\""];
        numapilot(folder.path(), &[&words[..], more, &["--", "true"]].concat())
    };
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(0));
    let text = "it was measured on a machine of another topology (0123456789abcdef)";
    assert_eq!(err(&output).matches(text).count(), 1, "{}", err(&output));
    let output = run(&["--strict"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(err(&output).contains(text), "{}", err(&output));
    // Nothing begins there, and so nothing is known about that machine.
    let words = ["run", "--profile", "p.toml", "--via", "sh -c \": {}\"", "--", "true"];
    let output = numapilot(folder.path(), &words);
    assert!(!err(&output).contains(text) && err(&output).contains("no attestation"));
}

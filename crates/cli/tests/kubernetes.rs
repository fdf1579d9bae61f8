//! The manifests of the manual: they follow the schema of Kubernetes, and numapilot understands the
//! commands in them.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const NUMAPILOT: &str = env!("CARGO_BIN_EXE_numapilot");

fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/kubernetes")
}

/// Python with the modules that `scripts/setup test` installs, or a message that the test is skipped.
fn python(arguments: &[&str]) -> Option<Output> {
    let modules = Path::new(NUMAPILOT).ancestors().nth(2).unwrap().join("python-kubernetes");
    let output = Command::new("python3")
        .args(arguments)
        .env("PYTHONPATH", modules)
        .output()
        .ok()
        .filter(|output| !String::from_utf8_lossy(&output.stderr).contains("No module named"));
    if output.is_none() {
        println!("skipped: python3 has no module kubernetes_validate");
    }
    output
}

/// The documents of a manifest.
fn documents(name: &str) -> Option<Vec<Value>> {
    let path = manifests().join(name);
    let program = "import json, sys, yaml; \
                   print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let output = python(&["-c", program, path.to_str().unwrap()])?;
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn words(command: &Value) -> Vec<String> {
    command.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_manifest_follows_the_schema() {
    let mut files: Vec<String> = fs::read_dir(manifests())
        .unwrap()
        .map(|entry| entry.unwrap().path().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    assert_eq!(files.len(), 3);
    let mut arguments = vec!["-m", "kubernetes_validate", "--strict"];
    arguments.extend(files.iter().map(String::as_str));
    let Some(output) = python(&arguments) else { return };
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn an_exported_plan_is_a_part_of_a_pod() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("p.toml");
    fs::write(&profile, "[env]\nVALUE = \"50% of 'x' \\\\ $HOME\"\n").unwrap();
    let output = Command::new(NUMAPILOT)
        .args(["profile", "export", profile.to_str().unwrap(), "--to", "kubernetes"])
        .output()
        .unwrap();
    let part = String::from_utf8(output.stdout).unwrap().replace("CONTAINER", "app");
    let pod = folder.path().join("pod.yaml");
    fs::write(&pod, format!("apiVersion: v1\nkind: Pod\nmetadata:\n  name: app\n{part}")).unwrap();
    let arguments = ["-m", "kubernetes_validate", "--strict", pod.to_str().unwrap()];
    let Some(output) = python(&arguments) else { return };
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn numapilot_understands_the_commands() {
    let Some(exporter) = documents("export-metrics.yaml") else { return };
    let container = &exporter[0]["spec"]["template"]["spec"]["containers"][0];
    let mut command = words(&container["command"]);
    assert_eq!(command.remove(0), "numapilot");
    // One collection in place of a server.
    command.retain(|word| !word.starts_with("--listen="));
    let output = Command::new(NUMAPILOT)
        .args(&command)
        .args(["--once", "--interval=50ms"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");

    let balance = documents("balance.yaml").unwrap();
    let container = &balance[0]["spec"]["template"]["spec"]["containers"][0];
    let [shell, option, line] = &words(&container["command"])[..] else { panic!("{container}") };
    assert_eq!((shell.as_str(), option.as_str()), ("sh", "-c"));
    let output = Command::new("sh").args(["-n", "-c", line]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(line.contains("numapilot balance --cgroup=\"$GROUP\""), "{line}");
    let group = container["env"][0]["value"].as_str().unwrap();
    let output = Command::new(NUMAPILOT).args(["balance", "--cgroup", group]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || error.contains("has no process now"), "{error}");

    let pod = documents("pod.yaml").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("app.toml");
    fs::write(&profile, pod[0]["data"]["app.toml"].as_str().unwrap()).unwrap();
    let output = Command::new(NUMAPILOT)
        .args(["profile", "show", profile.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("memory: interleave all"));
}

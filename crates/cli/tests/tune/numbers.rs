//! How figures are read.

use assert_cmd::Command;
use serde_json::Value;

use super::{error, folder, json, tune, tune_default};

/// The manual's expressions for `bench`, whose output begins with other lines.
#[test]
fn expressions_are_matched_line_by_line() {
    let folder = folder(&[]);
    let script = "echo workload w1; echo seconds 1.5; echo checksum 0f; echo threads 2";
    let more = ["--json", "--metric", r"^seconds (\S+)", "--check", r"^checksum (\w+)$"];
    let report = json(tune_default(folder.path(), &more, script));
    assert_eq!(report["default"]["median"], 1.5);
    assert_eq!(report["metric"], r"^seconds (\S+)");
}

#[test]
fn decimal_commas_are_read_as_the_user_says() {
    let folder = folder(&[("slow", "FIGURE", "1,5")]);
    let run = |more: &[&str]| {
        let mut command = Command::cargo_bin("numapilot").unwrap();
        command.current_dir(folder.path()).args(["tune", "--state", "state", "--plan", "slow"]);
        command.args(["--force", "--factor", "allocator=inherit", "--factor", "thp=inherit"]);
        command.args(["--factor", "threads=none", "--factor", "memory=inherit"]);
        command.args(["--factor", "numa-balancing=inherit"]).args(more);
        command.args(["--metric", "real.*m([0-9,]+)s", "--", "sh", "-c"]);
        command.arg("echo real 0m${FIGURE:-1,021}s");
        command
    };
    let text = error(run(&[]), 125);
    assert!(text.contains("1,021") && text.contains("--decimal"), "{text}");
    let report = json(run(&["--decimal", "comma", "--json"]));
    assert_eq!(report["best"], Value::Null);
    let plans = report["plans"].as_array().unwrap();
    let slow = plans.iter().find(|plan| plan["plan"] == "FIGURE=1,5").unwrap();
    assert!((slow["ratio"].as_f64().unwrap() - 1.5 / 1.021).abs() < 1e-6, "{slow}");
    assert!(!folder.path().join("numapilot.toml").exists());
}

#[test]
fn numbers_whose_units_are_not_known_are_compared_in_one_unit_only() {
    let folder = folder(&[("scaled", "RATE", "1.10 Mops/s")]);
    let more = ["--json", "--plan", "scaled", "--maximize", "--metric", "rate ([0-9.]+)"];
    let script = "echo rate ${RATE:-950 kops/s}";
    let report = json(tune_default(folder.path(), &more, script));
    let plans = report["plans"].to_string();
    assert!(plans.contains("'1.10 Mops/s' and '950 kops/s' of an earlier run"), "{report}");
}

#[test]
fn more_is_better_when_maximising() {
    let folder = folder(&[("a", "FIGURE", "80"), ("b", "FIGURE", "130")]);
    let report = json(tune(folder.path(), &["a", "b"], &["--json", "--maximize"]));
    assert_eq!(report["best"]["plan"], "FIGURE=130");
}

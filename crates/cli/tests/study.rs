//! `numapilot study`, where it needs no emulator.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use assert_cmd::Command;
use predicates::str::contains;

fn study(arguments: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = Command::cargo_bin("numapilot").unwrap();
    command.arg("study").args(arguments).assert()
}

#[test]
fn without_a_name_the_studies_are_listed() {
    study(&[]).success().stdout("lab\nw1\n");
}

#[test]
fn what_does_not_exist_is_named() {
    let unknown = "there is no study 'w9'; there are lab, w1, or give a file";
    study(&["w9"]).code(125).stderr(contains(unknown));
    let run = "the study has no run 'x'; it has none, sparse";
    study(&["w1", "--only", "x"]).code(125).stderr(contains(run));
    study(&["w1", "--svg", "x.svg"]).code(125).stderr(contains("no curve to draw"));
}

#[test]
fn a_damaged_file_says_where() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.toml");
    std::fs::write(&path, "title = 3").unwrap();
    study(&[path.to_str().unwrap()]).code(125).stderr(contains("the study is damaged"));
}

#[test]
fn kept_runs_are_judged_again_and_a_miss_is_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    put("r-counted.json", r#"{"regions": [{"name": "all", "v": 95.5}]}"#);
    put("r-printed.txt", "");
    let text = |expected: f64| {
        format!(
            "title = 'T'\nsource = 'S'\n[[runs]]\nname = 'r'\nmachine = 'machine-a'\ncommand = []\n\
             [[figures]]\nclaim = 'A'\nname = 'f'\nvalue = {{ run = 'r', field = 'v' }}\n\
             expected = {expected:.1}\ntolerance = 0.03\n"
        )
    };
    let keep = directory.path().to_str().unwrap();
    let path = directory.path().join("s.toml");
    std::fs::write(&path, text(95.0)).unwrap();
    let file = path.to_str().unwrap();
    study(&[file, "--keep", keep]).success().stdout(contains("95.00  95.50  reproduced"));
    std::fs::write(&path, text(90.0)).unwrap();
    study(&[file, "--keep", keep]).code(1).stdout(contains("not reproduced"));
    study(&[file, "--keep", keep, "--json"]).code(1).stdout(contains("\"not-reproduced\""));
}

//! Tests of `numapilot man` and `numapilot completions`: they contain every verb.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod programs;

use std::fs;
use std::process::Command;

use programs::{NUMAPILOT, numapilot_lab};

fn numapilot(arguments: &[&str]) -> std::process::Output {
    Command::new(NUMAPILOT).args(arguments).output().unwrap()
}

/// Verbs as `--help` lists them.
fn verbs() -> Vec<String> {
    let help = String::from_utf8(numapilot(&["--help"]).stdout).unwrap();
    help.lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .collect()
}

#[test]
fn every_verb_has_a_page() {
    let dir = tempfile::tempdir().unwrap();
    for program in [NUMAPILOT, &numapilot_lab()] {
        let mut command = Command::new(program);
        let output = command.arg("man").arg(dir.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let verbs = verbs();
    assert!(verbs.contains(&"man".to_owned()), "{verbs:?}");
    for verb in verbs.iter().filter(|verb| *verb != "help") {
        let page = dir.path().join(format!("numapilot-{verb}.1"));
        let text = fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        assert!(text.contains(".SH SYNOPSIS"), "{text}");
    }
    assert!(dir.path().join("numapilot.1").exists());
}

#[test]
fn every_variable_of_the_libraries_is_on_a_page() {
    let dir = tempfile::tempdir().unwrap();
    assert!(numapilot(&["man", dir.path().to_str().unwrap()]).status.success());
    let page = fs::read_to_string(dir.path().join("numapilot-environment.7")).unwrap();
    for variable in numapilot_bind::env::TABLE {
        assert!(page.contains(&format!(".TP\n.B {}\n", variable.name)), "{page}");
    }
}

#[test]
fn a_mistyped_directory_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let mistyped = dir.path().join("mann");
    for program in [NUMAPILOT, &numapilot_lab()] {
        let output = Command::new(program).arg("man").arg(&mistyped).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{stderr}");
        assert!(stderr.contains("it is no directory; make it with mkdir -p"), "{stderr}");
        assert!(!mistyped.exists());
    }
}

#[test]
fn a_page_that_cannot_be_written_whole_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    // Smaller than any page; without the signal, the write fails.
    let script = "trap '' XFSZ; ulimit -f 0; exec \"$0\" man \"$1\"";
    let mut command = Command::new("sh");
    let output = command.args(["-c", script, NUMAPILOT]).arg(dir.path()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("cannot write ") && stderr.contains("File too large"), "{stderr}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn without_a_directory_the_page_goes_to_standard_output() {
    let output = numapilot(&["man"]);
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains(".TH numapilot 1"));
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let output = numapilot(&["man", "/proc/nothing"]);
    assert_eq!(output.status.code(), Some(125));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("/proc/nothing"), "{error}");
}

#[test]
fn completions_know_every_verb() {
    for shell in ["bash", "zsh", "fish"] {
        let output = numapilot(&["completions", shell]);
        assert!(output.status.success());
        let script = String::from_utf8(output.stdout).unwrap();
        for verb in verbs() {
            assert!(script.contains(&verb), "{shell}: {verb}");
        }
    }
}

/// The words that bash offers after these and a space.
fn offered_by_bash(words: &[&str]) -> Vec<String> {
    let script = "eval \"$(\"$0\" completions bash)\"\n\
                  [[ $(complete -p numapilot) =~ -F\\ ([^ ]+) ]] && function=${BASH_REMATCH[1]}\n\
                  COMP_WORDS=(\"$0\" \"$@\" '') COMP_CWORD=$(($# + 1))\n\
                  \"$function\" \"$0\" '' \"${!#}\"\n\
                  printf '%s\\n' \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["-c", script, NUMAPILOT]).args(words).output().unwrap();
    assert!(output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_the_verbs_of_the_other_program() {
    // It must have been built.
    assert!(fs::exists(numapilot_lab()).unwrap());
    for (words, expected) in [
        (&["lab"][..], "setup"),
        (&["--color", "never", "lab"], "setup"),
        (&["lab", "run"], "--machine"),
        (&["bench"], "w1"),
        (&["study"], "run"),
        (&["profile"], "export"),
        (&["run"], "--dry-run"),
    ] {
        let offered = offered_by_bash(words);
        assert!(offered.contains(&expected.to_owned()), "{words:?}: {offered:?}");
    }
    // A program that is run may have such a name.
    assert!(!offered_by_bash(&["run", "lab"]).contains(&"setup".to_owned()));
}

#[test]
fn completions_into_a_closed_pipe_are_success() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(NUMAPILOT);
    assert!(command.args(["completions", "bash"]).stdout(writer).status().unwrap().success());
}

/// Paragraphs are as wide as the terminal and not wrapped twice.
#[test]
fn help_fills_its_lines() {
    for words in [
        &["bench"][..],
        &["bench", "alloc"],
        &["study", "report"],
        &["study", "run"],
        &["tune"],
        &["run"],
    ] {
        let mut command = Command::new(NUMAPILOT);
        let output = command.args(words).arg("--help").env("COLUMNS", "80").output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = help.lines().collect();
        for pair in lines.windows(2) {
            let is_text = |line: &str| !line.is_empty() && !line.starts_with(' ');
            let first = pair[1].split(' ').next().unwrap_or_default();
            let would_fit = pair[0].chars().count() + 1 + first.chars().count() <= 80;
            assert!(!(is_text(pair[0]) && is_text(pair[1]) && would_fit), "{words:?}: {pair:?}");
            assert!(pair[0].chars().count() <= 80, "{words:?}: {pair:?}");
        }
    }
}

/// The usage shows the forms for a command and for running processes.
#[test]
fn usage_names_what_can_be_given_instead_of_a_command() {
    for (verb, others) in
        [("stat", &["-p PID", "-a"][..]), ("balance", &["-p PID"]), ("cores", &["-p PID"])]
    {
        let output = numapilot(&[verb]);
        let error = String::from_utf8(output.stderr).unwrap();
        for other in others {
            assert!(error.contains(&format!("numapilot {verb} [OPTIONS] {other}")), "{error}");
        }
    }
}

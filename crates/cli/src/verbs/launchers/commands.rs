//! The commands that a command line runs: behind programs that run another one (`env`, `timeout`,
//! `nice`), and in the line of a shell.

use std::ffi::OsString;
use std::path::Path;

/// Deepest nesting, as of `sh -c "sh -c ..."`, that is looked into.
const DEPTH: usize = 8;

/// A program that runs the command in its arguments.
struct Runner {
    name: &'static str,
    /// The letters of its options whose argument is the next word.
    with_argument: &'static str,
    /// Its long options whose argument is the next word.
    long_with_argument: &'static [&'static str],
    /// Arguments before the command.
    before: usize,
}

const fn runner(
    name: &'static str,
    with_argument: &'static str,
    long_with_argument: &'static [&'static str],
    before: usize,
) -> Runner {
    Runner { name, with_argument, long_with_argument, before }
}

/// Source: their manual pages.
const RUNNERS: [Runner; 15] = [
    runner("chrt", "TPD", &[], 1),
    runner("command", "", &[], 0),
    runner("env", "uC", &["--unset", "--chdir"], 0),
    runner("exec", "a", &[], 0),
    runner("ionice", "cnpPu", &["--class", "--classdata"], 0),
    runner("nice", "n", &["--adjustment"], 0),
    runner("nohup", "", &[], 0),
    runner("numactl", "iwpPmNC", &[], 0),
    runner("prlimit", "op", &["--output"], 0),
    runner("setsid", "", &[], 0),
    runner("stdbuf", "ioe", &["--input", "--output", "--error"], 0),
    runner("sudo", "ugpCDRThr", &["--user", "--group"], 0),
    runner("taskset", "", &[], 1),
    runner("time", "fo", &["--format", "--output"], 0),
    runner("timeout", "ks", &["--kill-after", "--signal"], 1),
];

const SHELLS: [&str; 7] = ["sh", "bash", "dash", "ash", "ksh", "zsh", "busybox"];
/// Words of a shell's grammar after which a command follows.
const GRAMMAR: [&str; 9] = ["!", "{", "if", "then", "elif", "else", "while", "until", "do"];

/// The file names of all commands that this one runs, as far as its words show it; the first is its
/// own, unless it is one that runs another command.
pub fn programs(command: &[OsString]) -> Vec<String> {
    let words: Vec<String> =
        command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut found = Vec::new();
    collect(&words, DEPTH, &mut found);
    found
}

fn collect(words: &[String], depth: usize, found: &mut Vec<String>) {
    let words = skip_while(words, |word| is_assignment(word) || GRAMMAR.contains(&word));
    let (Some(first), Some(depth)) = (words.first(), depth.checked_sub(1)) else { return };
    let Some(name) = Path::new(first).file_name().and_then(|name| name.to_str()) else { return };
    if SHELLS.contains(&name) {
        for line in shell_line(&words[1..]).map(simple_commands).into_iter().flatten() {
            collect(&line, depth, found);
        }
    } else if let Some(runner) = RUNNERS.iter().find(|runner| runner.name == name) {
        collect(runner.command(&words[1..]), depth, found);
    } else {
        found.push(name.to_owned());
    }
}

impl Runner {
    /// The words of the command, behind the options and what else precedes it.
    fn command<'a>(&self, words: &'a [String]) -> &'a [String] {
        let mut rest = words;
        while let Some((word, after)) = rest.split_first() {
            if word == "--" {
                rest = after;
                break;
            }
            if !word.starts_with('-') || word == "-" && self.name != "env" {
                break;
            }
            rest = if self.takes_next(word) { after.get(1..).unwrap_or_default() } else { after };
        }
        rest.get(self.before..).unwrap_or_default()
    }

    /// Whether the argument of this option is the next word: `-n 5` and not `-n5` or `--unset=A`.
    fn takes_next(&self, option: &str) -> bool {
        if option.starts_with("--") {
            return self.long_with_argument.contains(&option);
        }
        let mut letters = option.chars().skip(1).skip_while(|c| !self.with_argument.contains(*c));
        letters.next().is_some() && letters.next().is_none()
    }
}

/// The line of a shell's `-c`.
fn shell_line(words: &[String]) -> Option<&str> {
    let is_option = |word: &&String| word.starts_with('-') && !word.starts_with("--");
    // `busybox sh -c`.
    let words = skip_while(words, |word| SHELLS.contains(&word));
    let at = words.iter().take_while(is_option).position(|word| word.contains('c'))?;
    words[at + 1..].iter().find(|word| !word.starts_with('-')).map(String::as_str)
}

/// Splits a line of a shell into its simple commands, at operators that are not quoted, and each into
/// words. A part that has an open quote is left out.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut quote: Option<char> = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        if quote.is_none() && ";&|()\n".contains(c) {
            parts.push(std::mem::take(&mut part));
            continue;
        }
        part.push(c);
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None | Some('"'), '\\') => part.extend(characters.next()),
            _ => {}
        }
    }
    parts.push(part);
    parts.iter().filter_map(|part| shlex::split(part)).collect()
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn skip_while(words: &[String], is_skipped: impl Fn(&str) -> bool) -> &[String] {
    let count = words.iter().take_while(|word| is_skipped(word)).count();
    &words[count..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Vec<String> {
        let words: Vec<OsString> =
            shlex::split(line).unwrap().into_iter().map(OsString::from).collect();
        programs(&words)
    }

    #[test]
    fn the_command_behind_others_is_found() {
        for line in [
            "/usr/bin/srun -N2 app",
            "env srun",
            "env -i -u HOME PATH=/bin srun",
            "env --unset A --chdir=/x A=b srun",
            "env - srun",
            "timeout 5 srun",
            "timeout -k 5 --signal=INT 1m srun app",
            "nice srun",
            "nice -n 5 srun",
            "nice -n5 -- srun",
            "nohup setsid srun",
            "numactl -C 0 --interleave=all srun",
            "taskset -c 0-3 srun",
            "stdbuf -oL time -f %e srun",
            "sudo -u me A=b srun",
            "env timeout 5 nice -n 1 srun",
            "sh -c srun",
            "bash -euc 'exec srun app'",
            "busybox sh -c 'srun app'",
            "sh -c 'A=b timeout 9 srun app'",
            "sh -c \"sh -c 'srun app'\"",
        ] {
            assert_eq!(of(line), ["srun"], "{line}");
        }
    }

    #[test]
    fn every_command_of_a_line_is_found() {
        let line = "sh -c 'cd /x && if srun a; then echo \"ssh; x\" | tee l; fi & (mpirun b)'";
        assert_eq!(of(line), ["cd", "srun", "echo", "tee", "fi", "mpirun"]);
        assert_eq!(of("sh -c 'echo \\; ssh'"), ["echo"]);
    }

    #[test]
    fn arguments_are_no_commands() {
        assert_eq!(of("./sruns srun"), ["sruns"]);
        assert_eq!(of("grep -c srun file"), ["grep"]);
        for line in ["sh script.sh srun", "sh", "", "env", "timeout 5", "nice -n", "sh -c", "A=b"] {
            assert!(of(line).is_empty(), "{line}: {:?}", of(line));
        }
        let deep = (0..20).fold("srun".to_owned(), |line, _| format!("env {line}"));
        assert!(of(&deep).is_empty());
    }
}

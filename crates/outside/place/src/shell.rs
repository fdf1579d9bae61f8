//! A prepared command as a line for a shell: it uses numactl(8), taskset(1) and env(1), and
//! comments describe settings without a command.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use numapilot_sys::mempolicy::{self, Mode};
use numapilot_sys::prctl::ThpSwitch;
use numapilot_topology::{CpuSet, NodeSet};

use crate::environment::Environment;
use crate::visible::is_obeyed;
use crate::{Prepared, Reach};

impl Prepared {
    /// The line, without a newline at its end; a word of it may have some. Lines that begin with `#`
    /// may precede it, for settings without a command.
    #[must_use]
    pub fn shell_line(&self) -> OsString {
        let mut text = Vec::new();
        for change in &self.settings {
            let path = change.setting.path(Path::new("/"));
            let comment =
                format!("# as root, until it ends: echo {} > {}\n", change.value, path.display());
            text.extend(comment.into_bytes());
        }
        if let Some(switch) = self.steps.thp {
            let disable = u8::from(switch != ThpSwitch::Enabled);
            let comment = format!("# before it starts: prctl(PR_SET_THP_DISABLE, {disable})\n");
            text.extend(comment.into_bytes());
        }
        for command in self.daemons.iter().flat_map(|daemons| daemons.commands()) {
            text.extend(format!("# beside it, until it ends: {command}\n").into_bytes());
        }
        let cpus = self.steps.cpus.as_ref().map(|words| CpuSet::from_words(words));
        let memory = self.steps.memory.as_ref();
        let memory = memory.map(|(mode, flags, nodes)| (*mode, *flags, NodeSet::from_words(nodes)));
        let memory = memory.as_ref().map(|(mode, flags, nodes)| (*mode, *flags, nodes));
        let words =
            placement_words(cpus.as_ref(), memory, self.reach).into_iter().map(OsString::from);
        let words = words.chain(environment_words(&self.environment));
        let words: Vec<Vec<u8>> =
            words.chain(self.words.iter().cloned()).map(|word| quote_visibly(&word)).collect();
        text.extend(words.join(&b' '));
        OsString::from_vec(text)
    }
}

fn environment_words(environment: &Environment) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    for (name, value) in environment.changes() {
        if words.is_empty() {
            words.push("env".into());
            // The first word that is no option ends them.
            if name.as_bytes().starts_with(b"-") {
                words.push("--".into());
            }
        }
        let mut word = name.to_owned();
        word.push("=");
        word.push(value);
        words.push(word);
    }
    words
}

/// The words of numactl(8), or of taskset(1) if only CPUs are set.
pub(crate) fn placement_words(
    cpus: Option<&CpuSet>,
    memory: Option<(Mode, i32, &NodeSet)>,
    reach: Reach,
) -> Vec<String> {
    let Some((mode, flags, nodes)) = memory else {
        return match cpus {
            Some(cpus) => vec!["taskset".to_owned(), "-c".to_owned(), cpus.to_string()],
            None => Vec::new(),
        };
    };
    let mut words = vec!["numactl".to_owned()];
    // First, because numactl checks the nodes and CPUs of each option as it reads it.
    words.extend(reach.option().map(str::to_owned));
    words.extend(cpus.map(|cpus| format!("--physcpubind={cpus}")));
    if flags & mempolicy::F_NUMA_BALANCING != 0 {
        words.push("--balancing".to_owned());
    }
    words.push(match mode {
        Mode::Default | Mode::Local => "--localalloc".to_owned(),
        Mode::Preferred => format!("--preferred={nodes}"),
        Mode::Bind => format!("--membind={nodes}"),
        Mode::Interleave => format!("--interleave={nodes}"),
        Mode::PreferredMany => format!("--preferred-many={nodes}"),
        Mode::WeightedInterleave => format!("--weighted-interleave={nodes}"),
    });
    words
}

/// Quotes a word for a line that is printed: see `quote_visibly`.
#[must_use]
pub fn quoted(word: &str) -> String {
    String::from_utf8_lossy(&quote_visibly(OsStr::new(word))).into_owned()
}

/// Quotes a word for a line that is printed. A terminal would obey control characters, and output
/// without colours is stripped of them. So a word with control characters other than tabs and line
/// feeds, or with characters that change the writing direction, is written as `$'...'`, like bytes
/// that are not UTF-8.
pub(crate) fn quote_visibly(word: &OsStr) -> Vec<u8> {
    match word.to_str() {
        Some(text) if text.contains(|c| is_obeyed(c) && !matches!(c, '\n' | '\t')) => {
            escaped(word.as_bytes()).into_bytes()
        }
        _ => quote(word),
    }
}

/// Quotes a word for a line that a shell reads. Text stands in `'...'`, with its control characters
/// as they are, because every shell reads that. Bytes that are not UTF-8 are written as `$'\xff'`, so
/// that the line is text; bash, zsh, ksh and POSIX.1-2024 read it, and dash does not.
pub(crate) fn quote(word: &OsStr) -> Vec<u8> {
    let bytes = word.as_bytes();
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(b);
    if !bytes.is_empty() && bytes.iter().all(is_plain) {
        return bytes.to_vec();
    }
    match word.to_str() {
        Some(text) => format!("'{}'", text.replace('\'', "'\\''")).into_bytes(),
        None => escaped(bytes).into_bytes(),
    }
}

/// Writes `$'...'`.
fn escaped(bytes: &[u8]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("\\x{b:02x}")).collect::<String>();
    let mut text = "$'".to_owned();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' | '\\' => text.extend(['\\', c]),
                c if is_obeyed(c) => {
                    text += &hex(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                c => text.push(c),
            }
        }
        text += &hex(chunk.invalid());
    }
    text.push('\'');
    text
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_words_stay_plain() {
        assert_eq!(quote(OsStr::new("/bin/a-b=c")), b"/bin/a-b=c");
        assert_eq!(quote(OsStr::new("")), b"''");
        assert_eq!(quote(OsStr::new("it's")), b"'it'\\''s'");
        assert_eq!(quote(OsStr::new("$HOME")), b"'$HOME'");
        assert_eq!(quote(OsStr::from_bytes(b"a\xffb'\\\n")), b"$'a\\xffb\\'\\\\\\x0a'");
        assert_eq!(quote(OsStr::new("\u{e4} b")), "'\u{e4} b'".as_bytes());
        assert_eq!(quote(OsStr::new("a\nb\t\u{1}")), b"'a\nb\t\x01'");
    }

    #[test]
    fn a_printed_word_has_nothing_that_a_terminal_obeys() {
        let visible = |word: &str| String::from_utf8(quote_visibly(OsStr::new(word))).unwrap();
        assert_eq!(visible("a\nb\t"), "'a\nb\t'");
        assert_eq!(visible("\u{e4} b"), "'\u{e4} b'");
        assert_eq!(visible("a\x1b[31m'\n"), "$'a\\x1b[31m\\'\\x0a'");
        assert_eq!(visible("\u{9b}\u{7f}"), "$'\\xc2\\x9b\\x7f'");
        assert_eq!(visible("\u{202e}x"), "$'\\xe2\\x80\\xaex'");
        assert_eq!(quoted("\r"), "$'\\x0d'");
    }

    /// Which is dash on Debian and its kin.
    #[test]
    fn every_shell_reads_text_back() {
        for word in ["a\nb", "\n", "\t'\\\u{1}\u{7f}\u{85}\r$x`y`", "'\n'", "\u{e4}\u{2028}"] {
            let line = [b"printf %s ".to_vec(), quote(OsStr::new(word))].concat();
            let line = OsString::from_vec(line);
            let out = Command::new("sh").arg("-c").arg(&line).output().unwrap();
            assert_eq!(String::from_utf8(out.stdout).unwrap(), word, "{line:?}");
        }
    }

    #[test]
    fn a_variable_is_no_option_of_env() {
        let words = |name: &str| {
            environment_words(&Environment::new(&[(name.into(), "x".into())].into()).unwrap())
        };
        assert_eq!(words("-u"), ["env", "--", "-u=x"]);
        assert_eq!(words("A"), ["env", "A=x"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn the_shell_reads_back_what_was_quoted(bytes in proptest::collection::vec(1u8..=255, 0..40)) {
            let word = OsStr::from_bytes(&bytes);
            // dash of Debian 12 does not support it.
            let Ok(bash) = Command::new("bash").arg("-c").arg(":").status() else {
                println!("skipped: no bash");
                return Ok(());
            };
            prop_assert!(bash.success());
            for quoted in [quote(word), quote_visibly(word)] {
                let line = [b"printf %s ".to_vec(), quoted].concat();
                let line = OsStr::from_bytes(&line);
                let out = Command::new("bash").arg("-c").arg(line).output().unwrap();
                prop_assert_eq!(&out.stdout, &bytes);
            }
        }
    }
}

//! A prepared command as a line for a shell: numactl(8), taskset(1) and env(1) do what
//! they can, and comments say the rest.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use numapilot_sys::mempolicy::{self, Mode};
use numapilot_topology::{CpuSet, NodeSet};

use crate::Prepared;

impl Prepared {
    /// The line, without a newline; lines that begin with `#` may precede it, for what
    /// has no command.
    #[must_use]
    pub fn shell_line(&self) -> OsString {
        let mut text = Vec::new();
        for change in &self.settings {
            let path = change.setting.path(Path::new("/"));
            let comment =
                format!("# as root, until it ends: echo {} > {}\n", change.value, path.display());
            text.extend(comment.into_bytes());
        }
        if let Some(disable) = self.steps.thp_disable {
            let comment =
                format!("# before it starts: prctl(PR_SET_THP_DISABLE, {})\n", u8::from(disable));
            text.extend(comment.into_bytes());
        }
        let words = self.placement_words().into_iter().chain(self.environment_words());
        let words: Vec<Vec<u8>> =
            words.chain(self.words.iter().cloned()).map(|word| quote(&word)).collect();
        text.extend(words.join(&b' '));
        OsString::from_vec(text)
    }

    fn placement_words(&self) -> Vec<OsString> {
        let cpus = self.steps.cpus.as_ref().map(|words| CpuSet::from_words(words).to_string());
        let Some((mode, flags, nodes)) = &self.steps.memory else {
            return match cpus {
                Some(cpus) => vec!["taskset".into(), "-c".into(), cpus.into()],
                None => Vec::new(),
            };
        };
        let nodes = NodeSet::from_words(nodes);
        let mut words: Vec<OsString> = vec!["numactl".into()];
        words.extend(cpus.map(|cpus| format!("--physcpubind={cpus}").into()));
        if flags & mempolicy::F_NUMA_BALANCING != 0 {
            words.push("--balancing".into());
        }
        words.push(
            match mode {
                Mode::Default | Mode::Local => "--localalloc".to_owned(),
                Mode::Preferred => format!("--preferred={nodes}"),
                Mode::Bind => format!("--membind={nodes}"),
                Mode::Interleave => format!("--interleave={nodes}"),
                Mode::PreferredMany => format!("--preferred-many={nodes}"),
                Mode::WeightedInterleave => format!("--weighted-interleave={nodes}"),
            }
            .into(),
        );
        words
    }

    fn environment_words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        for (name, value) in self.environment.changes() {
            if words.is_empty() {
                words.push("env".into());
            }
            let mut word = name.to_owned();
            word.push("=");
            word.push(value);
            words.push(word);
        }
        words
    }
}

/// A word as POSIX shells read it back.
fn quote(word: &OsStr) -> Vec<u8> {
    let bytes = word.as_bytes();
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(b);
    if !bytes.is_empty() && bytes.iter().all(is_plain) {
        return bytes.to_vec();
    }
    let mut quoted = vec![b'\''];
    for byte in bytes {
        match byte {
            b'\'' => quoted.extend(b"'\\''"),
            other => quoted.push(*other),
        }
    }
    quoted.push(b'\'');
    quoted
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
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn the_shell_reads_back_what_was_quoted(bytes in proptest::collection::vec(1u8..=255, 0..40)) {
            let word = OsStr::from_bytes(&bytes);
            let mut line = b"printf %s ".to_vec();
            line.extend(quote(word));
            let out = Command::new("sh").arg("-c").arg(OsStr::from_bytes(&line)).output().unwrap();
            prop_assert_eq!(out.stdout, bytes);
        }
    }
}

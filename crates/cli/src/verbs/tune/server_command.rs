//! The command of `--server`: words that are quoted as in a shell, and run without one. The process
//! that is started is then the server itself, on which the plan can be checked before it runs.

use std::ffi::OsString;

use numapilot_place::quoted;

/// The command of `--server`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCommand {
    /// As the user wrote it.
    pub text: String,
    /// Its words.
    pub words: Vec<OsString>,
}

impl ServerCommand {
    /// Splits a command into words, by the quotes of a shell.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words = shlex::split(text).ok_or("a quote is not closed, or it ends in a backslash")?;
        if words.is_empty() {
            return Err("it has no words; write the server and its arguments".to_owned());
        }
        let words = words.into_iter().map(OsString::from).collect();
        Ok(Self { text: text.to_owned(), words })
    }

    /// The remedy for a command that only a shell can run.
    pub fn shell_remedy(&self) -> Option<String> {
        let is_shell = |c: char| "|&;<>$`*".contains(c);
        let first = self.words.first()?.to_string_lossy();
        if first.contains('=') {
            return Some(format!("put env before it: --server 'env {}'", self.text));
        }
        let of_shell = ["cd", "exec", "export", "set", "source", "ulimit", "umask"];
        let needs_shell = self.text.contains(is_shell) || of_shell.contains(&&*first);
        if !needs_shell {
            return None;
        }
        Some(format!(
            "no shell runs it; have one run it, and the server in its place: --server \"sh -c {}\", \
             with exec before the server",
            quoted(&self.text)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_by_the_quotes_of_a_shell() {
        let words = |text: &str| ServerCommand::parse(text).map(|command| command.words);
        assert_eq!(
            words("nginx -g 'daemon off;'"),
            Ok(vec!["nginx".into(), "-g".into(), "daemon off;".into()])
        );
        assert!(words("a 'b").unwrap_err().contains("quote"));
        assert!(words("  ").unwrap_err().contains("no words"));
    }

    #[test]
    fn a_command_for_a_shell_gets_the_remedy() {
        let remedy = |text: &str| ServerCommand::parse(text).unwrap().shell_remedy();
        assert!(remedy("cd /srv && ./server").unwrap().contains("sh -c 'cd /srv && ./server'"));
        assert!(remedy("PORT=80 ./server").unwrap().contains("env PORT=80 ./server"));
        assert_eq!(remedy("./server --port 80"), None);
    }
}

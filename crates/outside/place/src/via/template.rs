//! The command line of a launcher, with `{}` where `numapilot run` belongs, or the name of a launcher.
//!
//! The template is split into words as a shell does: at blanks, except within quotes and behind a
//! backslash. Nothing else is special in it, and no shell reads it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::str::FromStr;

use thiserror::Error;

use super::detached::missing_option;
use super::named::{Far, NameError, Named};
use super::wrapper::WrapperError;
use crate::shell::quote;

/// The text that is replaced.
const PLACE: &str = "{}";

/// Why a template cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// It has no place for the command.
    #[error(
        "the template has no {{}}; write it where `numapilot run` belongs, as in 'srun -N2 {{}}', or \
         give the name of a launcher: slurm[:OPTIONS], docker:IMAGE, spark, dask"
    )]
    NoPlace,
    /// It has several.
    #[error("the template has {{}} more than once; write it once, as in 'srun -N2 {{}}'")]
    SeveralPlaces,
    /// A quote has no end, or the last character is a backslash.
    #[error("a quote in the template has no end; close it, or write a backslash before it")]
    OpenQuote,
    /// A container has no image.
    #[error(
        "{0} needs an image, with options of `{0} run` before it if there are any: {0}:IMAGE, \
         '{0}:--network=host IMAGE'"
    )]
    NoImage(&'static str),
    /// The launcher takes no options here.
    #[error("nothing can follow the name {0}; write its options into the command")]
    NoOptions(&'static str),
    /// The launcher returns before the program has started.
    #[error(
        "{program} returns before the program has started, so what takes effect there cannot be \
         checked; let it wait: '{program} {option} ...'"
    )]
    Detached {
        /// The launcher.
        program: &'static str,
        /// The option that makes it wait.
        option: &'static str,
    },
}

/// A template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: String,
    form: Form,
}

/// What the text is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// The command line of a launcher.
    Words(Vec<Word>),
    /// A name.
    Named(Named),
}

/// One word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Word {
    text: String,
    /// Whether a part of it was quoted.
    is_quoted: bool,
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// [`TemplateError`].
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let form = |form| Ok(Self { text: text.to_owned(), form });
        let words = split(text)?;
        match words.iter().map(|word| word.text.matches(PLACE).count()).sum() {
            0 => {}
            1 => {
                check_wait(&words)?;
                return form(Form::Words(words));
            }
            _ => return Err(TemplateError::SeveralPlaces),
        }
        let (name, rest) = match text.split_once(':') {
            Some((name, rest)) => (name, Some(split(rest)?)),
            None => (text, None),
        };
        let rest = rest.map(|rest| rest.into_iter().map(|word| word.text).collect());
        match Named::find(name, rest) {
            Some(Ok(named)) => form(Form::Named(named)),
            Some(Err(NameError::NoImage(name))) => Err(TemplateError::NoImage(name)),
            Some(Err(NameError::NoOptions(name))) => Err(TemplateError::NoOptions(name)),
            None => Err(TemplateError::NoPlace),
        }
    }

    /// The command of the launcher, which starts `command` by `far`.
    ///
    /// # Errors
    /// [`WrapperError`], only for some of the names.
    pub(super) fn command(
        &self,
        far: &Far<'_>,
        command: &[OsString],
    ) -> Result<Vec<OsString>, WrapperError> {
        match &self.form {
            Form::Words(words) => Ok(expand(words, &[far.run, command].concat())),
            Form::Named(named) => named.command(far, command),
        }
    }

    /// How many far ends there are, if there cannot be another number.
    pub(super) fn count(&self) -> Option<u32> {
        match &self.form {
            Form::Words(words) => (first_program(words) == Some(OsStr::new("ssh"))).then_some(1),
            Form::Named(named) => named.count(),
        }
    }

    /// Whether programs on the other side may still run when the launcher has ended.
    pub(super) fn ends_early(&self) -> bool {
        matches!(&self.form, Form::Named(named) if named.ends_early())
    }
}

/// The command: `words` in place of a word `{}`, and one line that is quoted for a shell in place of
/// `{}` in quotes or in a longer word. ssh(1) joins its words to a line for a shell on the other
/// side, so each word is quoted for it.
fn expand(template: &[Word], words: &[OsString]) -> Vec<OsString> {
    let quoted = || words.iter().map(|word| quote(word));
    let program = first_program(template);
    let mut command = Vec::new();
    for Word { text, is_quoted } in template {
        match text.split_once(PLACE) {
            None => command.push(OsString::from(text)),
            Some(("", "")) if !is_quoted && program == Some(OsStr::new("ssh")) => {
                command.extend(quoted().map(OsString::from_vec));
            }
            Some(("", "")) if !is_quoted => command.extend(words.iter().cloned()),
            Some((before, after)) => {
                let line = quoted().collect::<Vec<_>>().join(&b' ');
                let mut whole = OsString::from(before);
                whole.push(OsStr::from_bytes(&line));
                whole.push(after);
                command.push(whole);
            }
        }
    }
    command
}

fn check_wait(words: &[Word]) -> Result<(), TemplateError> {
    let before = words.iter().map(|word| word.text.as_str()).take_while(|word| *word != PLACE);
    match missing_option(before) {
        Some((program, option)) => Err(TemplateError::Detached { program, option }),
        None => Ok(()),
    }
}

/// The file name of the launcher.
fn first_program(words: &[Word]) -> Option<&OsStr> {
    words.first().and_then(|word| Path::new(&word.text).file_name())
}

/// Writes the text.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        Self::parse(text)
    }
}

/// The words of a text (IEEE Std 1003.1, "Token Recognition" and "Quoting").
fn split(text: &str) -> Result<Vec<Word>, TemplateError> {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if matches!(c, ' ' | '\t' | '\n') {
            words.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_default();
        word.is_quoted |= matches!(c, '\'' | '"' | '\\');
        let mut next = || characters.next().ok_or(TemplateError::OpenQuote);
        match c {
            '\'' => loop {
                match next()? {
                    '\'' => break,
                    c => word.text.push(c),
                }
            },
            '"' => loop {
                match next()? {
                    '"' => break,
                    '\\' => {
                        let c = next()?;
                        if !matches!(c, '"' | '\\' | '$' | '`') {
                            word.text.push('\\');
                        }
                        word.text.push(c);
                    }
                    c => word.text.push(c),
                }
            },
            '\\' => word.text.push(next()?),
            c => word.text.push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expanded(template: &str, words: &[&str]) -> Vec<String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let far = Far { run: &words, program: Path::new("/n"), directory: None };
        let command = Template::parse(template).unwrap().command(&far, &[]).unwrap();
        command.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn words_replace_a_word_and_a_line_a_part_of_one() {
        assert_eq!(expanded("srun -N2 {}", &["run", "a b"]), ["srun", "-N2", "run", "a b"]);
        assert_eq!(expanded("{}", &["run"]), ["run"]);
        assert_eq!(
            expanded("sh -c 'cd /x; {} | cat'", &["run", "a b"])[2],
            "cd /x; run 'a b' | cat"
        );
        assert_eq!(expanded("sh -c \"{}\"", &["run", "a b"]), ["sh", "-c", "run 'a b'"]);
        let ssh = expanded("/usr/bin/ssh host {}", &["run", "a b"]);
        assert_eq!(ssh, ["/usr/bin/ssh", "host", "run", "'a b'"]);
        assert_eq!(expanded(r#"a "b \"c\" \d" e\ f {}"#, &["x"]), ["a", r#"b "c" \d"#, "e f", "x"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |text: &str| Template::parse(text).unwrap_err();
        assert_eq!(error(""), TemplateError::NoPlace);
        assert_eq!(error("srun"), TemplateError::NoPlace);
        assert_eq!(error("srun {} {}"), TemplateError::SeveralPlaces);
        for open in ["sh -c '{}", "\"{}", "{} \\"] {
            assert_eq!(error(open), TemplateError::OpenQuote, "{open}");
        }
        assert!(TemplateError::NoPlace.to_string().contains("no {}; write it"));
        assert_eq!(error("docker"), TemplateError::NoImage("docker"));
        assert_eq!(error("spark:x"), TemplateError::NoOptions("spark"));
        assert_eq!(error("srun:-N2"), TemplateError::NoPlace);
        let text = error("/usr/bin/sbatch -N2 --wrap 'srun {}'").to_string();
        assert!(text.ends_with("let it wait: 'sbatch -W ...'"), "{text}");
    }

    #[test]
    fn a_name_is_a_template() {
        assert_eq!(expanded("slurm:-N2 -p 'a b'", &["run"]), ["srun", "-N2", "-p", "a b", "run"]);
        assert_eq!(Template::parse("docker:alpine:3").unwrap().count(), Some(1));
        assert_eq!(Template::parse("ssh host {}").unwrap().count(), Some(1));
        assert_eq!(Template::parse("srun {}").unwrap().count(), None);
    }

    proptest! {
        #[test]
        fn quoted_words_are_split_as_they_were(words in proptest::collection::vec("[ -~]{0,8}", 0..5)) {
            let line = words.iter().map(|w| quote(OsStr::new(w))).collect::<Vec<_>>().join(&b' ');
            let split = split(&String::from_utf8(line).unwrap()).unwrap();
            let texts: Vec<String> = split.into_iter().map(|word| word.text).collect();
            prop_assert_eq!(texts, words);
        }
    }
}

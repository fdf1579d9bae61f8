//! The guest's task, as a file of the image.
//!
//! The file has zero-terminated strings, as the kernel passes arguments, because neither arguments
//! nor paths need be text. A list starts with its length.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use thiserror::Error;

/// The program to run, and the guest's setup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Name of the guest.
    pub hostname: OsString,
    /// Path of the program's file.
    pub program: PathBuf,
    /// The arguments, starting with the program's name.
    pub arguments: Vec<OsString>,
    /// The complete environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The working directory.
    pub directory: PathBuf,
    /// The user that runs it; root if `None`.
    pub user: Option<User>,
    /// Kernel settings.
    pub settings: Vec<Setting>,
    /// Delay before the program's start, in nanoseconds of the guest's clock.
    pub delay_ns: u64,
    /// The size of the program's terminal; a program without a terminal gets pipes.
    pub terminal: Option<WindowSize>,
}

/// A user with a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// A value for a file below `/proc` or `/sys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The file.
    pub path: PathBuf,
    /// The text to write.
    pub value: String,
}

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSize {
    /// Height.
    pub rows: u16,
    /// Width.
    pub columns: u16,
}

/// Why the bytes do not form a task.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("the task is damaged: {0}")]
pub struct TaskError(&'static str);

impl Task {
    /// Encodes the task.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer(Vec::new());
        out.string(&self.hostname);
        out.string(self.program.as_os_str());
        out.number(self.arguments.len());
        self.arguments.iter().for_each(|argument| out.string(argument));
        out.number(self.environment.len());
        for (name, value) in &self.environment {
            out.string(name);
            out.string(value);
        }
        out.string(self.directory.as_os_str());
        out.number(self.user.iter().len());
        if let Some(user) = self.user {
            out.number(user.uid);
            out.number(user.gid);
        }
        out.number(self.settings.len());
        for setting in &self.settings {
            out.string(setting.path.as_os_str());
            out.string(OsStr::new(&setting.value));
        }
        out.number(self.delay_ns);
        out.number(self.terminal.iter().len());
        if let Some(size) = self.terminal {
            out.number(size.rows);
            out.number(size.columns);
        }
        out.0
    }

    /// Decodes a task.
    ///
    /// # Errors
    /// [`TaskError`] when the bytes are incomplete or have another format.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TaskError> {
        let mut input = Reader(bytes);
        Ok(Self {
            hostname: input.string()?,
            program: input.string()?.into(),
            arguments: input.list(Reader::string)?,
            environment: input.list(|input| Ok((input.string()?, input.string()?)))?,
            directory: input.string()?.into(),
            user: input
                .list(|input| Ok(User { uid: input.number()?, gid: input.number()? }))?
                .pop(),
            settings: input.list(|input| {
                let path = input.string()?.into();
                let value = input.string()?.into_string();
                Ok(Setting { path, value: value.map_err(|_| TaskError("a value is not text"))? })
            })?,
            delay_ns: input.number()?,
            terminal: input
                .list(|input| Ok(WindowSize { rows: input.number()?, columns: input.number()? }))?
                .pop(),
        })
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn string(&mut self, text: &OsStr) {
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    fn number(&mut self, number: impl ToString) {
        self.string(OsStr::new(&number.to_string()));
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn string(&mut self) -> Result<OsString, TaskError> {
        let end = self.0.iter().position(|b| *b == 0).ok_or(TaskError("it ends too early"))?;
        let (text, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Ok(OsString::from_vec(text.to_vec()))
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T, TaskError> {
        let text = self.string()?;
        text.to_str().and_then(|t| t.parse().ok()).ok_or(TaskError("a number is invalid"))
    }

    fn list<T>(
        &mut self,
        item: impl Fn(&mut Self) -> Result<T, TaskError>,
    ) -> Result<Vec<T>, TaskError> {
        let length: usize = self.number()?;
        (0..length).map(|_| item(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes() -> impl Strategy<Value = OsString> {
        proptest::collection::vec(1u8..=255, 0..20).prop_map(OsString::from_vec)
    }

    fn task() -> impl Strategy<Value = Task> {
        let list = || proptest::collection::vec(bytes(), 0..5);
        let pairs = proptest::collection::vec((bytes(), bytes()), 0..5);
        let settings = proptest::collection::vec((bytes(), "[^\0]{0,9}"), 0..4);
        let pair = || proptest::option::of(any::<(u16, u16)>());
        (bytes(), bytes(), list(), pairs, bytes(), pair(), settings, pair(), any::<u64>()).prop_map(
            |(
                hostname,
                program,
                arguments,
                environment,
                directory,
                user,
                settings,
                terminal,
                delay_ns,
            )| {
                Task {
                    hostname,
                    program: program.into(),
                    arguments,
                    environment,
                    directory: directory.into(),
                    user: user.map(|(uid, gid)| User { uid: uid.into(), gid: gid.into() }),
                    settings: settings
                        .into_iter()
                        .map(|(path, value)| Setting { path: path.into(), value })
                        .collect(),
                    delay_ns,
                    terminal: terminal.map(|(rows, columns)| WindowSize { rows, columns }),
                }
            },
        )
    }

    proptest! {
        #[test]
        fn a_task_survives_the_way(task in task()) {
            prop_assert_eq!(Task::from_bytes(&task.to_bytes()), Ok(task));
        }

        #[test]
        fn a_task_that_is_cut_off_is_refused(task in task(), keep in 0.0..1.0f64) {
            let bytes = task.to_bytes();
            let end = (bytes.len() as f64 * keep) as usize;
            prop_assert!(Task::from_bytes(&bytes[..end]).is_err());
        }

        #[test]
        fn other_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Task::from_bytes(&bytes);
        }
    }
}

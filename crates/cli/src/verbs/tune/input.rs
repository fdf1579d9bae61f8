//! Provides the standard input of every run: the same bytes, from the beginning.
//!
//! Redirected input can be read only once if it is a pipe, and the program runs many times. So it
//! is kept in an unnamed file.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Value, json};

/// The input of the program.
#[derive(Debug)]
pub struct Input {
    /// The file to open for every run; without it the input is empty.
    pub path: Option<PathBuf>,
    /// Distinguishes it from other inputs when a search is resumed.
    pub identity: Value,
    /// Keeps the file of `path` open if it is unnamed.
    kept: Option<File>,
}

impl Input {
    /// The file given with `--stdin`, else what this process's standard input was redirected
    /// from: empty for a terminal or a device.
    ///
    /// # Errors
    /// Fails if there is no such file, or if it cannot be read or kept.
    pub fn of(given: Option<&Path>) -> anyhow::Result<Self> {
        match given {
            Some(path) => Self::given(path).with_context(|| format!("--stdin {}", path.display())),
            None if io::stdin().is_terminal() => Ok(Self::empty()),
            None => Self::redirected(io::stdin().as_fd().try_clone_to_owned()?.into()),
        }
    }

    fn given(path: &Path) -> anyhow::Result<Self> {
        let file = File::open(path).context("the file cannot be opened")?;
        let kind = file.metadata()?.file_type();
        if kind.is_dir() {
            bail!("it is a directory; give the file that each run is to read");
        }
        if kind.is_fifo() {
            return Self::redirected(file);
        }
        Ok(Self { path: Some(path.to_owned()), identity: json!(path), kept: None })
    }

    fn empty() -> Self {
        Self { path: None, identity: Value::Null, kept: None }
    }

    fn redirected(mut file: File) -> anyhow::Result<Self> {
        let kind = file.metadata().context("standard input")?.file_type();
        if kind.is_file() {
            let identity = identity(&mut file).context("reading standard input")?;
            return Ok(Self { path: Some(path(&file)), identity, kept: Some(file) });
        }
        if !kind.is_fifo() && !kind.is_socket() {
            return Ok(Self::empty());
        }
        let keep =
            "keeping standard input for the runs; of a file given with --stdin nothing is kept";
        let mut kept = tempfile::tempfile().context(keep)?;
        if io::copy(&mut file, &mut kept).context(keep)? == 0 {
            return Ok(Self::empty());
        }
        kept.flush().context(keep)?;
        let identity = identity(&mut kept).context(keep)?;
        Ok(Self { path: Some(path(&kept)), identity, kept: Some(kept) })
    }

    /// The number of redirected bytes; `None` for a named file or an empty input.
    pub fn redirected_bytes(&self) -> Option<u64> {
        Some(self.kept.as_ref()?.metadata().ok()?.len())
    }
}

/// A path that opens the file again, so that each run begins at its first byte.
fn path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn identity(file: &mut File) -> io::Result<Value> {
    let mut again = File::open(path(file))?;
    again.rewind()?;
    let mut hasher = DefaultHasher::new();
    let mut part = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        match again.read(&mut part)? {
            0 => return Ok(json!({"bytes": bytes, "hash": format!("{:x}", hasher.finish())})),
            n => {
                hasher.write(&part[..n]);
                bytes += n;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn read(input: &Input) -> String {
        std::fs::read_to_string(input.path.as_ref().unwrap()).unwrap()
    }

    #[test]
    fn a_pipe_can_be_read_again_and_again() {
        let mut child =
            Command::new("printf").arg("select 1;").stdout(Stdio::piped()).spawn().unwrap();
        let pipe: std::os::fd::OwnedFd = child.stdout.take().unwrap().into();
        let input = Input::redirected(pipe.into()).unwrap();
        child.wait().unwrap();
        assert_eq!(input.redirected_bytes(), Some(9));
        assert_eq!([read(&input), read(&input)], ["select 1;", "select 1;"]);
    }

    #[test]
    fn a_file_is_read_from_its_beginning_and_known_by_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            Input::redirected(File::open(path).unwrap()).unwrap()
        };
        let (a, same, other) = (file("a", "12"), file("b", "12"), file("c", "13"));
        assert_eq!([read(&a), read(&a)], ["12", "12"]);
        assert_eq!(a.identity, same.identity);
        assert_ne!(a.identity, other.identity);
    }

    #[test]
    fn a_directory_and_a_missing_file_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path| format!("{:#}", Input::of(Some(path)).unwrap_err());
        assert!(refused(folder.path()).contains("it is a directory"));
        assert!(refused(&folder.path().join("x")).contains("cannot be opened: No such file"));
    }

    /// `--stdin <(command)`.
    #[test]
    fn a_pipe_with_a_name_is_kept_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let script = ["-c", "printf 'select 1;' > \"$0\""];
        let mut writer = Command::new("sh").args(script).arg(&pipe).spawn().unwrap();
        let input = Input::of(Some(&pipe)).unwrap();
        writer.wait().unwrap();
        assert_eq!([read(&input), read(&input)], ["select 1;", "select 1;"]);
    }

    #[test]
    fn a_device_and_an_ended_pipe_are_empty() {
        let null = Input::redirected(File::open("/dev/null").unwrap()).unwrap();
        assert_eq!((null.path, null.identity), (None, Value::Null));
        let (reader, writer) = io::pipe().unwrap();
        drop(writer);
        let reader: std::os::fd::OwnedFd = reader.into();
        assert_eq!(Input::redirected(reader.into()).unwrap().path, None);
    }
}

//! The file for the textfile collector of the node exporter.
//!
//! Its first line says which process writes it, so that two exporters never replace each other's
//! file, and a file that is not of an exporter stays.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use numapilot_cli_kit::file::{self, Existing};
use numapilot_sys::process::start_time;

/// How the first line begins; the process ID and its start time follow.
const MARK: &str = "# Written by numapilot export-metrics, process ";
/// What separates them.
const STARTED: &str = " started at tick ";

/// The file.
pub struct Textfile {
    path: PathBuf,
    /// The first line of what this process writes.
    mark: String,
    written: bool,
}

impl Textfile {
    /// Checks that the file can be written and belongs to nobody else.
    ///
    /// # Errors
    /// The directory is missing or cannot be written, or the file is in use.
    pub fn new(directory: &Path, name: &str) -> anyhow::Result<Self> {
        if !directory.is_dir() {
            bail!(
                "--textfile {} is not a directory; make it, or give that of the node exporter's \
                 --collector.textfile.directory",
                directory.display()
            );
        }
        let own = std::process::id();
        let start = start_time(own).context("cannot read the start time of this process")?;
        let mark = format!("{MARK}{own}{STARTED}{start}");
        let textfile = Self { path: directory.join(format!("{name}.prom")), mark, written: false };
        textfile.check()?;
        file::check(&textfile.path, Existing::Replace)?;
        Ok(textfile)
    }

    /// Replaces the file. Everybody may read it, because the node exporter runs as another user.
    ///
    /// # Errors
    /// It cannot be written, or another exporter has taken it.
    pub fn write(&mut self, text: &str) -> anyhow::Result<()> {
        self.check()?;
        file::put_readable(&self.path, &format!("{}\n{text}", self.mark))?;
        self.written = true;
        Ok(())
    }

    /// Removes the file, so that the node exporter does not show the last figures for ever.
    ///
    /// # Errors
    /// It is there and cannot be removed.
    pub fn remove(self) -> anyhow::Result<()> {
        if !self.written || first_line(&self.path)?.is_none_or(|line| line != self.mark) {
            return Ok(());
        }
        fs::remove_file(&self.path)
            .with_context(|| format!("cannot remove {}", self.path.display()))
    }

    /// Fails if somebody else writes the file.
    fn check(&self) -> anyhow::Result<()> {
        let path = self.path.display();
        let Some(line) = first_line(&self.path)? else { return Ok(()) };
        let Some((pid, start)) = writer(&line) else {
            bail!(
                "{path} was not written by numapilot export-metrics; remove it, or choose another \
                 name with --name"
            );
        };
        if line != self.mark && start_time(pid).is_ok_and(|now| now == start) {
            bail!(
                "{path} is written by process {pid}, another numapilot export-metrics; give that \
                 one all targets, or choose another name with --name and add --targets-only"
            );
        }
        Ok(())
    }
}

/// The process that has written a file, by its first line.
fn writer(line: &str) -> Option<(u32, u64)> {
    let (pid, start) = line.strip_prefix(MARK)?.split_once(STARTED)?;
    Some((pid.parse().ok()?, start.parse().ok()?))
}

/// The first line of a file, if the file exists.
fn first_line(path: &Path) -> anyhow::Result<Option<String>> {
    const LONGEST: u64 = 200;
    let failed = || format!("cannot read {}", path.display());
    let about = match path.metadata() {
        Ok(about) => about,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(failed),
    };
    // Opening a pipe would wait for its writer.
    if !about.is_file() {
        bail!("{} is not a regular file; choose another name with --name", path.display());
    }
    let mut line = Vec::new();
    let file = File::open(path).with_context(failed)?;
    BufReader::new(file.take(LONGEST)).read_until(b'\n', &mut line).with_context(failed)?;
    Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_dead_exporter_is_replaced_and_any_other_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.prom");
        let new = || Textfile::new(directory.path(), "x");
        let mut own = new().unwrap();
        for _ in 0..2 {
            own.write("a 1\n").unwrap();
        }
        assert!(fs::read_to_string(&path).unwrap().ends_with("\na 1\n"));
        own.remove().unwrap();
        assert!(!path.exists());

        fs::write(&path, format!("{MARK}{}{STARTED}0\nb 1\n", std::process::id())).unwrap();
        let mut own = new().unwrap();
        own.write("c 1\n").unwrap();
        // Another one takes it, and it is not removed.
        let parent = std::os::unix::process::parent_id();
        let of_parent = format!("{MARK}{parent}{STARTED}{}\n", start_time(parent).unwrap());
        fs::write(&path, &of_parent).unwrap();
        assert!(new().err().unwrap().to_string().contains("another numapilot export-metrics"));
        assert!(own.write("d 1\n").unwrap_err().to_string().contains("--name"));
        own.remove().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), of_parent);

        fs::write(&path, "node_load1 1\n").unwrap();
        assert!(new().err().unwrap().to_string().contains("was not written by numapilot"));
        assert!(Textfile::new(&directory.path().join("none"), "x").is_err());
    }

    #[test]
    fn a_pipe_is_refused_and_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.prom");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
        let error = Textfile::new(directory.path(), "x").err().unwrap().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
}

//! One run: the occupancy table file that its processes share, and the result of placement.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use numapilot_bind::env::BIND_OCCUPANCY;
use numapilot_bind::occupancy::{FILE_BYTES, Tally};
use numapilot_topology::CpuId;
use tempfile::NamedTempFile;

use super::outcome::Outcome;
use super::watch::{Reported, Watcher};

/// The state of one run of a placed program. The occupancy table file is private to the user (0600)
/// and removed when this is dropped. Processes that still run have it mapped.
#[derive(Debug)]
pub struct Session {
    order: Vec<CpuId>,
    reported: Reported,
    occupancy: io::Result<NamedTempFile>,
    watcher: Option<Watcher>,
}

impl Session {
    pub(super) fn new(order: Vec<CpuId>, reported: Reported) -> Self {
        Self { order, reported, occupancy: occupancy_file(), watcher: None }
    }

    /// The variable that names the occupancy table. Without a table (if no directory can be
    /// written) every process counts its own threads.
    #[must_use]
    pub fn variable(&self) -> Option<(&'static str, &Path)> {
        Some((BIND_OCCUPANCY, self.occupancy()?))
    }

    /// The file of the occupancy table.
    pub(crate) fn occupancy(&self) -> Option<&Path> {
        self.occupancy.as_ref().ok().map(NamedTempFile::path)
    }

    /// The CPUs in the order in which threads take them.
    #[must_use]
    pub fn order(&self) -> &[CpuId] {
        &self.order
    }

    /// Call it after the program has been started. From then on, the threads of the program and its
    /// descendants that the library cannot place are placed from outside.
    ///
    /// # Errors
    /// If this process may not create another thread.
    pub fn watch(&mut self, program: i32) -> io::Result<()> {
        let occupancy = self.occupancy().map(Path::to_owned);
        let order = self.order.clone();
        self.watcher = Some(Watcher::start(program, order, occupancy, self.reported)?);
        Ok(())
    }

    /// Leaves the occupancy table to the program that this process becomes, which has the same
    /// identity as the name of the file: it is [stale](crate::remove_stale_files) once the program
    /// has ended. Returns the variable that names it.
    ///
    /// # Errors
    /// The one with which the table could not be created.
    pub fn leave(self) -> io::Result<(&'static str, PathBuf)> {
        let path = self.occupancy?.into_temp_path().keep()?;
        Ok((BIND_OCCUPANCY, path))
    }

    /// Call it after the program has ended. Returns the result of placement.
    #[must_use]
    pub fn finish(self) -> Outcome {
        let has_no_occupancy_table = self.occupancy.is_err();
        let tally = self.occupancy.ok().and_then(|file| tally(file.as_file())).unwrap_or_default();
        let watched = self.watcher.map(Watcher::finish).unwrap_or_default();
        Outcome {
            has_no_occupancy_table,
            placed: tally.placed + watched.placed,
            pins_itself: tally.pins_itself + watched.pins_itself,
            refused: tally.refused + watched.refused,
            from_outside: watched.from_outside,
        }
    }
}

/// Reads the totals at the beginning of the file.
fn tally(occupancy: &File) -> Option<Tally> {
    let mut bytes = [0; size_of::<Tally>()];
    occupancy.read_exact_at(&mut bytes, 0).ok()?;
    Tally::from_bytes(&bytes)
}

fn occupancy_file() -> io::Result<NamedTempFile> {
    crate::shared_memory("bind", FILE_BYTES)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_occupancy_table_is_private_and_gone_afterwards() {
        let session = Session::new(vec![CpuId(0)], Reported::Nothing);
        let (name, path) = session.variable().unwrap();
        let path = path.to_owned();
        let metadata = std::fs::metadata(&path).unwrap();
        assert_eq!(name, "NUMAPILOT_BIND_OCCUPANCY");
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        assert_eq!(metadata.len(), FILE_BYTES as u64);
        assert_eq!(session.finish(), Outcome::default());
        assert!(!path.exists());
    }
}

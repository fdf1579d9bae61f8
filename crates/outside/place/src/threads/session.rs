//! One run: the occupancy table file that its processes share, and what became of its threads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use numapilot_bind::env::BIND_OCCUPANCY;
use numapilot_bind::occupancy::{FILE_BYTES, Tally};
use numapilot_topology::CpuId;
use tempfile::NamedTempFile;

use super::outcome::Outcome;
use super::watch::Watcher;

/// What one run of a placed program needs. The occupancy table file is private to the user (0600)
/// and removed when this is dropped; processes that still run have it mapped.
#[derive(Debug)]
pub struct Session {
    order: Vec<CpuId>,
    occupancy: io::Result<NamedTempFile>,
    watcher: Option<Watcher>,
}

impl Session {
    pub(super) fn new(order: Vec<CpuId>) -> Self {
        Self { order, occupancy: occupancy_file(), watcher: None }
    }

    /// The variable that names the occupancy table. Without it (no directory can be written)
    /// every process counts for itself.
    #[must_use]
    pub fn variable(&self) -> Option<(&'static str, &Path)> {
        Some((BIND_OCCUPANCY, self.occupancy.as_ref().ok()?.path()))
    }

    /// The CPUs in the order in which threads take them.
    #[must_use]
    pub fn order(&self) -> &[CpuId] {
        &self.order
    }

    /// Call when the program has been started: what it and its descendants have of threads
    /// that the library cannot place is placed from outside from now on.
    ///
    /// # Errors
    /// When this process may not create another thread.
    pub fn watch(&mut self, program: i32) -> io::Result<()> {
        let occupancy = self.variable().map(|(_, path)| path.to_owned());
        self.watcher = Some(Watcher::start(program, self.order.clone(), occupancy)?);
        Ok(())
    }

    /// Call when the program has ended: what became of its threads.
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
        }
    }
}

/// The totals, which are at the beginning of the file.
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
        let session = Session::new(vec![CpuId(0)]);
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

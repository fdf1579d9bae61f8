//! A profile for this machine, which may have been measured on another one.

use std::path::Path;

use crate::{Note, PlaceError, Plan, Profile};

/// Reads the plan of a profile for this machine. The note says that it was measured on a machine of
/// another topology.
///
/// # Errors
/// As [`Profile::load`], and under `strict` with the note.
pub fn profile_here(path: &Path, strict: bool) -> Result<(Plan, Option<Note>), PlaceError> {
    let Profile { plan, measured } = Profile::load(path)?;
    let mut note = measured.and_then(|measured| measured.differs_here());
    if let Some(note) = &mut note {
        note.subject = format!("profile {}", path.display());
    }
    match note {
        Some(note) if strict => Err(PlaceError::Strict(vec![note])),
        note => Ok((plan, note)),
    }
}

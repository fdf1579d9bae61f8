//! Applies a profile to this process, which then becomes the program: for launchers that execute
//! the program themselves, such as Slurm.
//!
//! No process of numapilot stays. So no machine-wide setting is changed, because nothing would
//! restore it, and only the library in the program places threads.
//!
//! Source: execve(2): CPUs, memory policy and the switch for huge pages survive it.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use numapilot_sys::spawn::{SpawnError, Step, Steps};
use numapilot_sys::{affinity, prctl};
use numapilot_topology::CpuSet;

use super::memory::{current_mode, mode_name};
use super::{Options, Prepared, prepare_with};
use crate::{Note, PlaceError, Reach, Targets, profile_here, remove_stale_files};

/// What is left to do for the launcher.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Variables to set for the program, and their values.
    pub variables: Vec<(OsString, OsString)>,
    /// The settings that are impossible.
    pub notes: Vec<Note>,
}

/// Applies the plan of a profile to the calling thread and process, and reads it back. `command` is
/// the program and its arguments, which this process executes next. The environment of this process
/// counts as that of the program.
///
/// A malloc and placed threads take effect in the program, when the variables have been set.
///
/// # Errors
/// [`PlaceError`] if the profile cannot be read or applied, and under `strict` for every note. A
/// part of it may then have been applied, so the program should not be executed.
pub fn apply_profile(
    profile: &Path,
    command: &[OsString],
    strict: bool,
) -> Result<Applied, PlaceError> {
    let (plan, elsewhere) = profile_here(profile, strict)?;
    let targets = Targets::here(&plan, Reach::Allowed)?;
    let options = Options { strict, ..Options::default() };
    let prepared = prepare_with(&plan, targets, command, &options, false)?;
    let applied = prepared.steps.apply_here().and_then(|()| read_back(&prepared.steps));
    applied.map_err(|error| prepared.start_error(error))?;
    // Files of programs that have ended since.
    remove_stale_files();
    let mut applied = prepared.left_to_do();
    applied.notes.extend(elsewhere);
    Ok(applied)
}

impl Prepared {
    fn left_to_do(self) -> Applied {
        let mut variables: Vec<(OsString, OsString)> =
            self.environment.changes().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        let mut notes = self.notes;
        // Only the library reads the occupancy table.
        if let Some(placement) = self.placement.filter(|placement| placement.library().is_some()) {
            match placement.start().leave() {
                Ok((name, path)) => variables.push((name.into(), path.into())),
                Err(error) => notes.push(Note::new(
                    "threads",
                    format!(
                        "processes that the program starts place their threads from the first CPU \
                         on, because they share no table ({error})"
                    ),
                    "make room in /dev/shm",
                )),
            }
        }
        Applied { variables, notes }
    }
}

/// Checks that the settings of this thread are those of the steps.
fn read_back(steps: &Steps) -> Result<(), SpawnError> {
    let fail = |step, source| SpawnError::Step { step, source };
    if let Some(cpus) = &steps.cpus {
        let got = affinity::get(0).map_err(|error| fail(Step::Cpus, error))?;
        let (wanted, got) = (CpuSet::from_words(cpus), CpuSet::from_words(&got));
        // The kernel leaves out CPUs that the cpuset lacks, about which there is a note.
        if !got.is_subset(&wanted) {
            return Err(fail(Step::Cpus, without_effect(&got.to_string())));
        }
    }
    if let Some((mode, ..)) = &steps.memory {
        let got = current_mode().map_err(|error| fail(Step::Memory, error))?;
        if got != Some(*mode) {
            let got = got.map_or("another policy", mode_name);
            return Err(fail(Step::Memory, without_effect(got)));
        }
    }
    if let Some(switch) = steps.thp {
        let got = prctl::thp_switch().map_err(|error| fail(Step::Thp, error))?;
        if got != switch {
            return Err(fail(Step::Thp, without_effect(&format!("{got:?}").to_lowercase())));
        }
    }
    Ok(())
}

fn without_effect(got: &str) -> io::Error {
    io::Error::other(format!("it was accepted but has no effect: it reads {got}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use numapilot_sys::mempolicy::{self, Mode};

    use super::*;

    /// Affinity and memory policy belong to the thread, and each test has its own.
    fn applied(profile: &str, command: &[&str], strict: bool) -> Result<Applied, PlaceError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.toml");
        fs::write(&path, profile).unwrap();
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        apply_profile(&path, &command, strict)
    }

    #[test]
    fn cpus_and_memory_are_those_of_the_plan() {
        let cpu = CpuSet::from_words(&affinity::get(0).unwrap()).first().unwrap();
        let node =
            numapilot_topology::read(Path::new("/")).unwrap().memory_nodes().first().unwrap();
        let profile = format!(
            "cpus = \"{cpu}\"\n[memory]\nmode = \"bind\"\nnodes = \"{node}\"\n[env]\nX = \"a b\"\n"
        );
        let applied = applied(&profile, &["true"], true).unwrap();
        assert_eq!(applied, Applied { variables: vec![("X".into(), "a b".into())], notes: vec![] });
        let own = CpuSet::from_words(&affinity::get(0).unwrap());
        assert_eq!(own, [cpu].into_iter().collect());
        assert_eq!(mempolicy::get_mempolicy().unwrap().0, Mode::Bind as i32);
    }

    #[test]
    fn what_has_no_effect_is_an_error() {
        let steps = Steps { memory: Some((Mode::Bind, 0, vec![1])), ..Steps::default() };
        let error = read_back(&steps).unwrap_err();
        let SpawnError::Step { step: Step::Memory, source } = error else { panic!("{error}") };
        assert!(source.to_string().ends_with("it reads default"), "{source}");
    }

    /// Nothing would restore it.
    #[test]
    fn no_machine_wide_setting_is_changed() {
        let read = || fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok();
        let before = read();
        let _ = applied("thp = \"always\"\nallocator = \"glibc\"\n", &["true"], false).unwrap();
        assert_eq!(read(), before);
    }

    #[test]
    fn an_invalid_profile_or_command_is_an_error() {
        assert!(matches!(applied("thp = 1\n", &["true"], false), Err(PlaceError::Profile(_))));
        assert!(matches!(applied("thp = \"never\"\n", &[], false), Err(PlaceError::NoCommand)));
        let missing = apply_profile(Path::new("/nonexistent"), &["true".into()], false);
        assert!(missing.unwrap_err().to_string().contains("/nonexistent"));
    }
}

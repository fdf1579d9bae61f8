//! The journal on a simulated machine.

use std::os::unix::fs::MetadataExt;

use super::*;

struct Lab {
    root: tempfile::TempDir,
    journal: SettingsJournal,
}

impl Lab {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for setting in [Setting::NumaBalancing, Setting::Thp] {
            fs::create_dir_all(setting.path(root.path()).parent().unwrap()).unwrap();
        }
        fs::write(Setting::NumaBalancing.path(root.path()), "1\n").unwrap();
        fs::write(Setting::Thp.path(root.path()), "always [madvise] never\n").unwrap();
        let journal = SettingsJournal::at(root.path().join("journal"), root.path().to_owned());
        Self { root, journal }
    }

    fn acquire(&self, value: &str) -> Result<Option<Held>, SettingsJournalError> {
        let change = Change { setting: Setting::NumaBalancing, value: value.into() };
        self.journal.acquire(&[change], "test")
    }

    fn value(&self) -> String {
        Setting::NumaBalancing.read(self.root.path()).unwrap()
    }

    /// Simulates the death of the run that holds this.
    fn kill(&self, held: Held) {
        let path = held.path.clone().unwrap();
        std::mem::forget(held);
        let mut entry = load::<Entry>(&path).unwrap();
        entry.owner.start_time += 1;
        save(&entry, &path).unwrap();
    }

    fn entries(&self) -> usize {
        self.journal.entries().unwrap().0.len()
    }
}

fn restored(from: &str, to: &str) -> Done {
    Done::Restored { from: from.into(), to: to.into() }
}

#[test]
fn a_run_changes_and_puts_back() {
    let lab = Lab::new();
    assert!(lab.journal.is_empty());
    let held = lab.acquire("0").unwrap().unwrap();
    assert!(!lab.journal.is_empty());
    assert_eq!(lab.value(), "0");
    let file = held.path.clone().unwrap();
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(held.release()[0].done, restored("0", "1"));
    assert_eq!(lab.value(), "1");
    assert_eq!(lab.entries(), 0);
    // Without a change there is no entry.
    assert!(lab.acquire("1").unwrap().is_none());
}

#[test]
fn brackets_mark_the_chosen_value() {
    let lab = Lab::new();
    assert_eq!(Setting::Thp.read(lab.root.path()).unwrap(), "madvise");
    let change = Change { setting: Setting::Thp, value: "always".into() };
    let held = lab.journal.acquire(&[change], "test").unwrap().unwrap();
    assert_eq!(Setting::Thp.read(lab.root.path()).unwrap(), "always");
    drop(held);
    assert_eq!(Setting::Thp.read(lab.root.path()).unwrap(), "madvise");
}

#[test]
fn the_last_of_two_runs_puts_the_original_back() {
    for first_out in [0, 1] {
        let lab = Lab::new();
        let mut runs = vec![lab.acquire("0").unwrap().unwrap(), lab.acquire("0").unwrap().unwrap()];
        assert_eq!(runs.remove(first_out).release()[0].done, Done::HeldByOthers);
        assert_eq!(lab.value(), "0");
        assert_eq!(runs.remove(0).release()[0].done, restored("0", "1"));
        assert_eq!(lab.value(), "1");
    }
}

#[test]
fn a_conflicting_run_is_refused_and_changes_nothing() {
    let lab = Lab::new();
    let held = lab.acquire("0").unwrap().unwrap();
    assert!(matches!(lab.acquire("2"), Err(SettingsJournalError::Held { .. })));
    assert_eq!((lab.value().as_str(), lab.entries()), ("0", 1));
    drop(held);
    assert_eq!(lab.value(), "1");
}

#[test]
fn restore_settles_the_dead_and_spares_the_living() {
    let lab = Lab::new();
    assert!(lab.journal.restore(false).unwrap().is_empty());
    lab.kill(lab.acquire("0").unwrap().unwrap());
    assert_eq!(lab.journal.restore(false).unwrap()[0].done, restored("0", "1"));
    assert_eq!((lab.value().as_str(), lab.entries()), ("1", 0));

    let held = lab.acquire("0").unwrap().unwrap();
    assert_eq!(lab.journal.restore(false).unwrap()[0].done, Done::InUse);
    assert_eq!(lab.value(), "0");
    assert_eq!(lab.journal.restore(true).unwrap()[0].done, restored("0", "1"));
    assert_eq!(lab.value(), "1");
    assert!(held.release().is_empty());
}

#[test]
fn a_dead_run_overlapping_a_live_one_leaves_it_the_original() {
    let lab = Lab::new();
    let dead = lab.acquire("0").unwrap().unwrap();
    let live = lab.acquire("0").unwrap().unwrap();
    lab.kill(dead);
    let outcomes = lab.journal.restore(false).unwrap();
    assert!(outcomes.iter().any(|o| o.done == Done::HeldByOthers), "{outcomes:?}");
    assert_eq!(lab.value(), "0");
    assert_eq!(live.release()[0].done, restored("0", "1"));
}

#[test]
fn the_next_run_settles_a_dead_one_first() {
    let lab = Lab::new();
    lab.kill(lab.acquire("0").unwrap().unwrap());
    let held = lab.acquire("2").unwrap().unwrap();
    assert_eq!(lab.value(), "2");
    assert_eq!(held.release()[0].done, restored("2", "1"));
}

#[test]
fn what_somebody_else_changed_is_left_alone() {
    let lab = Lab::new();
    let held = lab.acquire("0").unwrap().unwrap();
    Setting::NumaBalancing.write(lab.root.path(), "3").unwrap();
    let done = held.release().remove(0).done;
    assert!(matches!(done, Done::ChangedByOthers { .. }), "{done:?}");
    assert_eq!((lab.value().as_str(), lab.entries()), ("3", 0));
}

#[test]
fn a_new_boot_has_put_everything_back() {
    let lab = Lab::new();
    let held = lab.acquire("0").unwrap().unwrap();
    let path = held.path.clone().unwrap();
    std::mem::forget(held);
    let mut entry = load::<Entry>(&path).unwrap();
    entry.owner.boot = "earlier".into();
    save(&entry, &path).unwrap();
    assert!(lab.journal.restore(false).unwrap().is_empty());
    assert_eq!((lab.value().as_str(), lab.entries()), ("0", 0));
}

#[test]
fn a_broken_entry_is_named_and_hides_no_other() {
    let lab = Lab::new();
    lab.kill(lab.acquire("0").unwrap().unwrap());
    fs::write(lab.journal.directory.path().join("1-1-1.json"), "{\"owner\":").unwrap();
    let outcomes = lab.journal.restore(false).unwrap();
    assert!(outcomes.iter().any(|o| matches!(o.done, Done::Failed(_))), "{outcomes:?}");
    assert!(outcomes.iter().any(|o| o.done == restored("0", "1")), "{outcomes:?}");
}

#[test]
fn a_directory_others_can_write_is_not_trusted() {
    use std::os::unix::fs::PermissionsExt;
    let lab = Lab::new();
    fs::create_dir(lab.journal.directory.path()).unwrap();
    fs::set_permissions(lab.journal.directory.path(), PermissionsExt::from_mode(0o777)).unwrap();
    assert!(matches!(lab.acquire("0"), Err(SettingsJournalError::NoDirectory { .. })));
    fs::remove_dir(lab.journal.directory.path()).unwrap();
    std::os::unix::fs::symlink(lab.root.path(), lab.journal.directory.path()).unwrap();
    assert!(matches!(lab.acquire("0"), Err(SettingsJournalError::NoDirectory { .. })));
    assert_eq!(lab.value(), "1");
}

#[test]
fn a_setting_the_kernel_lacks_leaves_no_entry() {
    let lab = Lab::new();
    fs::remove_file(Setting::NumaBalancing.path(lab.root.path())).unwrap();
    assert!(matches!(lab.acquire("0"), Err(SettingsJournalError::Setting { .. })));
    assert_eq!(lab.entries(), 0);
}

/// Gives the entry to another process.
fn of_another(held: &Held) {
    let path = held.path.clone().unwrap();
    let mut entry = load::<Entry>(&path).unwrap();
    entry.owner =
        Owner::of(rustix::process::getppid().unwrap().as_raw_pid().unsigned_abs()).unwrap();
    save(&entry, &path).unwrap();
}

#[test]
fn a_reserved_setting_is_changed_by_its_owner_alone() {
    let lab = Lab::new();
    let reserved = lab.journal.reserve(&[Setting::NumaBalancing], "tune").unwrap();
    for value in ["0", "2"] {
        let held = lab.acquire(value).unwrap().unwrap();
        assert_eq!(lab.value(), value);
        assert_eq!(held.release()[0].done, restored(value, "1"));
    }
    of_another(&reserved);
    // Any value is refused, even the present one, because it will not stay.
    for value in ["0", "1"] {
        let error = lab.acquire(value).unwrap_err();
        assert!(matches!(error, SettingsJournalError::Reserved { .. }), "{error}");
    }
    let error = lab.journal.reserve(&[Setting::NumaBalancing], "tune").unwrap_err();
    assert!(matches!(error, SettingsJournalError::Reserved { .. }), "{error}");
    let holders = lab.journal.holders().unwrap();
    assert_eq!((holders.len(), holders[0].value.as_deref()), (1, None));
    assert_eq!(lab.journal.restore(false).unwrap()[0].done, Done::InUse);
    assert!(reserved.release().is_empty());
    assert!(lab.journal.holders().unwrap().is_empty());
    drop(lab.acquire("0").unwrap().unwrap());
    assert_eq!(lab.value(), "1");
}

#[test]
fn what_another_run_holds_cannot_be_reserved() {
    let lab = Lab::new();
    let held = lab.acquire("0").unwrap().unwrap();
    of_another(&held);
    let error = lab.journal.reserve(&[Setting::NumaBalancing], "tune").unwrap_err().to_string();
    assert!(error.contains("is held at 0 by run") && error.contains("(test)"), "{error}");
    let other = lab.journal.reserve(&[Setting::Thp], "tune").unwrap();
    assert_eq!(lab.journal.holders().unwrap()[0].value.as_deref(), Some("0"));
    drop((other, held));
    assert_eq!((lab.value().as_str(), lab.entries()), ("1", 0));
}

#[test]
fn a_dead_reservation_is_in_nobodys_way() {
    let lab = Lab::new();
    lab.kill(lab.journal.reserve(&[Setting::NumaBalancing], "tune").unwrap());
    assert!(lab.journal.holders().unwrap().is_empty());
    drop(lab.acquire("0").unwrap().unwrap());
    assert_eq!((lab.value().as_str(), lab.entries()), ("1", 0));
}

#[test]
fn files_that_were_being_written_at_a_death_are_removed() {
    let lab = Lab::new();
    let held = lab.acquire("0").unwrap().unwrap();
    let path = |name: &str| lab.journal.directory.path().join(name);
    fs::write(path("1-1-1.new"), "{").unwrap();
    // Its owner may be rewriting it.
    let live = held.path.clone().unwrap().with_extension("new");
    fs::write(&live, "{").unwrap();
    lab.journal.restore(false).unwrap();
    assert!(!path("1-1-1.new").exists() && live.exists());
}

//! The machine's switches for transparent huge pages: one for all sizes, and one for each size.
//!
//! Source: Documentation/admin-guide/mm/transhuge.rst. Since Linux 6.8 each size has its own
//! switch, `hugepages-<size>kB/enabled`, and only sizes at `inherit` follow the switch for all.
//! Either can override the other, so the setting has to be determined for each size.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use numapilot_sys::mapping::Mapping;

use crate::settings_journal::chosen;

/// The directory of all switches.
const DIRECTORY: &str = "sys/kernel/mm/transparent_hugepage";

/// Size of a huge page if the kernel does not report it (before Linux 4.14).
const USUAL_BYTES: u64 = 2 << 20;

/// The memory that gets huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Choice {
    /// None.
    Never,
    /// Memory for which the program requests them with madvise(2).
    Madvise,
    /// All.
    Always,
}

impl Choice {
    /// The kernel's word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Madvise => "madvise",
            Self::Always => "always",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Never, Self::Madvise, Self::Always].into_iter().find(|c| c.name() == name)
    }
}

/// The switches of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switches {
    /// The switch for all sizes (`enabled`).
    pub top: Choice,
    /// The size that one entry of the page middle directory maps, in bytes: 2 MiB on x86-64. Only
    /// this size is counted in `AnonHugePages`.
    pub pmd_bytes: u64,
    /// The sizes with their own switch, in bytes. `None` is `inherit`.
    own: Vec<(u64, Option<Choice>)>,
}

impl Switches {
    /// Reads the switches below `root`. Returns `None` for a kernel without transparent huge pages.
    #[must_use]
    pub fn read(root: &Path) -> Option<Self> {
        let directory = root.join(DIRECTORY);
        let text = |path: &str| fs::read_to_string(directory.join(path)).ok();
        let top = Choice::from_name(chosen(&text("enabled")?))?;
        let pmd_bytes = text("hpage_pmd_size").and_then(|bytes| bytes.trim().parse().ok());
        let mut own = Vec::new();
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let kib = name.strip_prefix("hugepages-").and_then(|n| n.strip_suffix("kB"));
            let Some(kib) = kib.and_then(|kib| kib.parse::<u64>().ok()) else { continue };
            // A size without this file is for file mappings only.
            if let Some(text) = text(&format!("{name}/enabled")) {
                own.push((kib.saturating_mul(1024), Choice::from_name(chosen(&text))));
            }
        }
        own.sort_unstable();
        Some(Self { top, pmd_bytes: pmd_bytes.unwrap_or(USUAL_BYTES), own })
    }

    /// The switches with another value of the switch for all sizes.
    #[must_use]
    pub fn with_top(&self, top: Choice) -> Self {
        Self { top, ..self.clone() }
    }

    /// The setting for the size that `AnonHugePages` counts.
    #[must_use]
    pub fn pmd(&self) -> Choice {
        let own = self.own.iter().find(|(bytes, _)| *bytes == self.pmd_bytes);
        own.and_then(|(_, choice)| *choice).unwrap_or(self.top)
    }

    /// The most permissive setting of any size.
    #[must_use]
    pub fn most(&self) -> Choice {
        self.smaller().map(|(_, choice)| choice).fold(self.pmd(), Choice::max)
    }

    /// The sizes below [`Switches::pmd_bytes`] in bytes, with their settings.
    pub fn smaller(&self) -> impl Iterator<Item = (u64, Choice)> + '_ {
        let smaller = self.own.iter().filter(|(bytes, _)| *bytes < self.pmd_bytes);
        smaller.map(|(bytes, choice)| (*bytes, choice.unwrap_or(self.top)))
    }

    /// The command that lets the largest size follow the switch for all.
    #[must_use]
    pub fn inherit_command(&self) -> String {
        let kib = self.pmd_bytes / 1024;
        format!("echo inherit | sudo tee /{DIRECTORY}/hugepages-{kib}kB/enabled")
    }
}

/// Writes `always`, or `always, but 2048 kB never, 64 kB always` if sizes differ.
impl fmt::Display for Switches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.top.name())?;
        // Small sizes are usually switched off by their own switch, so they are not mentioned.
        let differs = |(bytes, choice): &&(u64, Option<Choice>)| {
            choice.is_some_and(|choice| {
                choice != self.top && (choice != Choice::Never || *bytes == self.pmd_bytes)
            })
        };
        let mut separator = ", but";
        for (bytes, choice) in self.own.iter().rev().filter(differs) {
            let choice = choice.unwrap_or(self.top).name();
            write!(f, "{separator} {} kB {choice}", bytes / 1024)?;
            separator = ",";
        }
        Ok(())
    }
}

/// The huge pages that the kernel gave to touched memory that requested them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Bytes in pages of [`Switches::pmd_bytes`].
    pub pmd_bytes: u64,
    /// Number of huge pages of smaller sizes, counted machine-wide while the memory was touched.
    pub smaller_pages: u64,
}

impl Given {
    /// Whether huge pages of any size were given.
    #[must_use]
    pub fn any(&self) -> bool {
        self.pmd_bytes > 0 || self.smaller_pages > 0
    }
}

/// Maps 8 MiB, requests huge pages with madvise(2), touches the memory, and counts its huge pages.
///
/// # Errors
/// If the kernel refuses one of these steps.
pub fn attempt() -> io::Result<Given> {
    const BYTES: usize = 8 << 20;
    let mut memory = Mapping::anonymous(BYTES)?;
    memory.advise(libc::MADV_HUGEPAGE)?;
    let before = smaller_faults();
    for byte in memory.as_mut_slice().iter_mut().step_by(4096) {
        *byte = 1;
    }
    let pmd_bytes = memory.residency()?.huge_bytes;
    // Faults of other programs are counted too, so a few of them prove nothing.
    let faults = smaller_faults().saturating_sub(before);
    let smaller_pages = if faults >= 8 { faults } else { 0 };
    Ok(Given { pmd_bytes, smaller_pages })
}

/// Number of huge pages, except of the largest size, that faults have allocated since boot.
fn smaller_faults() -> u64 {
    let root = Path::new("/");
    let Some(switches) = Switches::read(root) else { return 0 };
    let count = |(bytes, _)| {
        let path = format!("{DIRECTORY}/hugepages-{}kB/stats/anon_fault_alloc", bytes / 1024);
        fs::read_to_string(root.join(path)).ok()?.trim().parse::<u64>().ok()
    };
    switches.smaller().filter_map(count).sum()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Switches below a directory: for all sizes, for 2 MiB, for 64 KiB.
    pub(crate) fn recorded(top: &str, pmd: &str, small: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join(DIRECTORY);
        for (path, choices, choice) in [
            ("enabled", "always madvise never", top),
            ("hugepages-2048kB/enabled", "always inherit madvise never", pmd),
            ("hugepages-64kB/enabled", "always inherit madvise never", small),
        ] {
            let path = directory.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, choices.replace(choice, &format!("[{choice}]"))).unwrap();
        }
        root
    }

    fn read(top: &str, pmd: &str, small: &str) -> (Choice, Choice, String) {
        let switches = Switches::read(recorded(top, pmd, small).path()).unwrap();
        (switches.pmd(), switches.most(), switches.to_string())
    }

    #[test]
    fn each_size_has_the_last_word() {
        use Choice::{Always, Madvise, Never};
        assert_eq!(read("always", "inherit", "never"), (Always, Always, "always".into()));
        assert_eq!(read("madvise", "inherit", "never"), (Madvise, Madvise, "madvise".into()));
        // The switch for all is at always, and no program gets a huge page.
        assert_eq!(
            read("always", "never", "never"),
            (Never, Never, "always, but 2048 kB never".into())
        );
        assert_eq!(
            read("always", "madvise", "never"),
            (Madvise, Madvise, "always, but 2048 kB madvise".into())
        );
        // The switch for all is at never, and every program gets huge pages.
        assert_eq!(
            read("never", "inherit", "always"),
            (Never, Always, "never, but 64 kB always".into())
        );
        let switches = Switches::read(recorded("never", "inherit", "always").path()).unwrap();
        assert_eq!(switches.with_top(Always).pmd(), Always);
        assert!(Switches::read(Path::new("/nonexistent")).is_none());
    }

    #[test]
    fn kernels_with_one_switch_have_one_size() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join(DIRECTORY);
        fs::create_dir_all(directory.join("hugepages-2048kB/stats")).unwrap();
        fs::write(directory.join("enabled"), "always [madvise] never\n").unwrap();
        let switches = Switches::read(root.path()).unwrap();
        assert_eq!((switches.pmd(), switches.most()), (Choice::Madvise, Choice::Madvise));
        assert_eq!(switches.smaller().count(), 0);
    }

    #[test]
    fn a_try_leaves_an_answer() {
        let Some(switches) = Switches::read(Path::new("/")) else {
            println!("skipped: this kernel has no transparent huge pages");
            return;
        };
        let given = attempt().unwrap();
        if switches.most() == Choice::Never {
            assert_eq!(given.pmd_bytes, 0);
        }
    }
}

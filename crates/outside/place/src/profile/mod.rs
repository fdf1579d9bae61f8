//! Profile files: a plan in TOML, with comments that explain it, and where it was measured.

mod measured;

use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use numapilot_topology::remedy;
use numapilot_topology::toml_text;
use thiserror::Error;

pub use measured::Measured;

use crate::{Daemons, MemoryMode, NumaBalancing, Plan, Thp, ThreadPlacement, allocators};

/// The content of a profile file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The plan.
    pub plan: Plan,
    /// Where it was measured; absent in a profile that was written by hand or by an older version.
    pub measured: Option<Measured>,
}

/// Why a profile cannot be used.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// The file cannot be read.
    #[error("cannot read profile {}; {}", path.display(), remedy::reading(source))]
    File {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is empty, as one is that could not be written.
    #[error("profile {} is empty; write a setting into it, or a comment for none", .0.display())]
    Empty(PathBuf),
    /// The file is not a valid profile.
    #[error("profile {}, line {line}: {message}; {remedy}", path.display())]
    Content {
        /// Its path.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The problem.
        message: String,
        /// The remedy.
        remedy: &'static str,
    },
}

/// Maximum size of a profile, so a wrong path does not fill the memory.
const MAX_BYTES: u64 = 1 << 20;

impl Profile {
    /// Reads a profile.
    ///
    /// # Errors
    /// [`ProfileError`] with file, line and remedy.
    pub fn load(path: &Path) -> Result<Self, ProfileError> {
        let fail = |source| ProfileError::File { path: path.to_owned(), source };
        let mut text = String::new();
        let file = File::open(path).map_err(fail)?;
        file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(fail)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(fail(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("a file of more than {MAX_BYTES} bytes is not a profile"),
            )));
        }
        if text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}').is_empty() {
            return Err(ProfileError::Empty(path.to_owned()));
        }
        Self::parse(&text, path)
    }

    /// Parses the text of a profile. `path` is for the error.
    ///
    /// # Errors
    /// [`ProfileError::Content`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ProfileError> {
        match toml_text::parse_with(text, "measured") {
            Ok((plan, measured)) => Ok(Self { plan, measured }),
            Err(error) => Err(ProfileError::Content {
                path: path.to_owned(),
                line: error.line,
                message: with_measured(error.message),
                remedy: "the names and values are in the manual, page `profiles`",
            }),
        }
    }

    /// Writes the plan as [`Plan::to_profile`] does, and where it was measured.
    #[must_use]
    pub fn to_text(&self) -> String {
        let measured = self.measured.as_ref().map(Measured::to_text);
        self.plan.to_profile() + &measured.unwrap_or_default()
    }
}

/// Adds the table that is not part of a plan to the fields that are expected where an unknown one is.
fn with_measured(message: String) -> String {
    match message.strip_suffix("`memory`, `env`") {
        Some(start) if message.starts_with("unknown field") => {
            format!("{start}`memory`, `env`, `measured`")
        }
        _ => message,
    }
}

impl Plan {
    /// Writes the plan as a profile with a comment for every field. Fields that are not set are
    /// comments.
    #[must_use]
    pub fn to_profile(&self) -> String {
        let mut text = format!(
            "# numapilot profile: {}\n# Use: numapilot run --profile FILE -- COMMAND\n",
            self.to_string().replace(char::is_control, " ")
        );
        let known: Vec<&str> = allocators::KNOWN.iter().map(|k| k.name).collect();
        field(
            &mut text,
            &format!(
                "Malloc: \"inherit\" (the program's own), \"glibc\", or one found by name\n\
                 ({}),\nor the path of a shared library.",
                wrap(&known)
            ),
            "allocator",
            Some(&String::from(self.allocator.clone())),
        );
        field(
            &mut text,
            &choices(
                "Threads",
                ThreadPlacement::ALL,
                ThreadPlacement::name,
                ThreadPlacement::meaning,
            ),
            "threads",
            Some(self.threads.name()),
        );
        field(
            &mut text,
            "Nodes on whose CPUs it may run: \"0-2,4\", \"!0\" (all but), \"+0\" (first allowed), \"all\".",
            "cpu-nodes",
            self.cpu_nodes.as_deref(),
        );
        field(&mut text, "CPUs on which it may run: as above.", "cpus", self.cpus.as_deref());
        field(
            &mut text,
            &choices("Transparent huge pages", Thp::ALL, Thp::name, Thp::meaning),
            "thp",
            Some(self.thp.name()),
        );
        field(
            &mut text,
            &choices(
                "Automatic NUMA balancing",
                NumaBalancing::ALL,
                NumaBalancing::name,
                NumaBalancing::meaning,
            ),
            "numa-balancing",
            Some(self.numa_balancing.name()),
        );
        field(
            &mut text,
            &choices("Daemons beside it", Daemons::ALL, Daemons::name, Daemons::meaning),
            "daemons",
            Some(self.daemons.name()),
        );
        text.push_str("\n[memory]\n");
        field(
            &mut text,
            &choices(
                "Where pages come from",
                MemoryMode::ALL,
                MemoryMode::name,
                MemoryMode::meaning,
            ),
            "mode",
            Some(self.memory.mode.name()),
        );
        let nodes = Some(self.memory.nodes.as_str()).filter(|nodes| !nodes.is_empty());
        field(&mut text, "The nodes of the mode; \"all\" when not given.", "nodes", nodes);
        text.push_str(
            "# With bind or preferred-many: lets AutoNUMA move pages inside the nodes.\n",
        );
        let _ = writeln!(text, "balancing = {}", self.memory.balancing);
        text.push_str("\n# More environment variables.\n[env]\n");
        for (name, value) in &self.env {
            let _ = writeln!(text, "{} = {}", quoted(name), quoted(value));
        }
        text
    }
}

fn field(text: &mut String, comment: &str, key: &str, value: Option<&str>) {
    if !text.ends_with("]\n") {
        text.push('\n');
    }
    for line in comment.lines() {
        let _ = writeln!(text, "# {line}");
    }
    // Writing to a String cannot fail.
    let _ = match value {
        Some(value) => writeln!(text, "{key} = {}", quoted(value)),
        None => writeln!(text, "# {key} = \"all\""),
    };
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A comment that lists all choices of a field, in lines of readable length.
fn choices<T: Copy>(
    subject: &str,
    all: &[T],
    name: fn(T) -> &'static str,
    meaning: fn(T) -> &'static str,
) -> String {
    const WIDTH: usize = 94;
    let all: Vec<String> =
        all.iter().map(|choice| format!("\"{}\" ({})", name(*choice), meaning(*choice))).collect();
    let mut comment = format!("{subject}:");
    let mut column = comment.len();
    for word in format!("{}.", all.join(", ")).split(' ') {
        let begins = column + 1 + word.len() > WIDTH;
        comment.push(if begins { '\n' } else { ' ' });
        comment.push_str(word);
        column = if begins { word.len() } else { column + 1 + word.len() };
    }
    comment
}

/// Breaks a list into lines of readable length.
fn wrap(words: &[&str]) -> String {
    let lines: Vec<String> = words.chunks(6).map(|line| line.join(", ")).collect();
    lines.join(",\n")
}

#[cfg(test)]
mod tests {
    use numapilot_test_kit::damaged;
    use proptest::prelude::*;

    use super::*;
    use crate::{AllocatorChoice, MemoryPolicy};

    #[test]
    fn a_profile_explains_itself() {
        let plan = Plan {
            allocator: AllocatorChoice::Named("jemalloc".into()),
            memory: MemoryPolicy { mode: MemoryMode::Interleave, ..MemoryPolicy::default() },
            thp: Thp::Never,
            env: [("MALLOC_CONF".to_owned(), "narenas:4".to_owned())].into(),
            ..Plan::default()
        };
        insta::assert_snapshot!(plan.to_profile());
    }

    #[test]
    fn errors_name_file_and_line() {
        let error = |text: &str| Profile::parse(text, Path::new("p.toml")).unwrap_err().to_string();
        let text = error("allocator = \"jemalloc\"\nthp = \"sometimes\"\n");
        assert!(text.starts_with("profile p.toml, line 2: "), "{text}");
        assert!(text.contains("sometimes") && text.contains("`never`"), "{text}");
        let text = error("\n\nalocator = \"x\"\n");
        assert!(text.contains("line 3") && text.contains("allocator"), "{text}");
        assert!(text.contains("`env`, `measured`;"), "{text}");
        assert!(error("[memory\n").contains("line 1"));
        let missing = Profile::load(Path::new("/nonexistent/p.toml")).unwrap_err().to_string();
        assert!(missing.contains("/nonexistent/p.toml"), "{missing}");
        assert!(matches!(
            Profile::load(Path::new("/dev/zero")),
            Err(ProfileError::File { source, .. }) if source.kind() == io::ErrorKind::FileTooLarge
        ));
    }

    const PROFILE: &str = r#"allocator = "jemalloc"
threads = "sparse"
cpus = "0-3,8"
thp = "never"
numa-balancing = "off"
daemons = "balance+cores"

[memory]
mode = "interleave"
nodes = "0,2"

[env]
MALLOC_CONF = "narenas:4"

[measured]
topology = "0123456789abcdef"
processor = "Model X"
kernel = "6.18.0"
numapilot = "0.1.0"
command = "fedcba9876543210"
date = "2026-01-31"
metric = "wall time"
ratio = 0.8125
interval = [0.79, 0.84]
"#;

    #[test]
    fn the_profile_that_is_damaged_is_whole_before() {
        Profile::parse(PROFILE, Path::new("p")).unwrap();
    }

    #[test]
    fn where_it_was_measured_is_written_as_it_was_read() {
        let profile = Profile::parse(PROFILE, Path::new("p")).unwrap();
        assert!(
            profile
                .to_text()
                .ends_with(PROFILE.split("[env]\n").nth(1).unwrap().split_once("\n\n").unwrap().1)
        );
        assert_eq!(Profile::parse(&profile.to_text(), Path::new("p")).unwrap(), profile);
        // A record of a later version.
        let later = Profile::parse("[measured]\nhost = \"a\"\n", Path::new("p")).unwrap();
        assert_eq!(later.measured, Some(Measured::default()));
    }

    #[test]
    fn absurd_figures_are_refused_with_their_line() {
        for wrong in [
            "ratio = -1.0",
            "ratio = nan",
            "ratio = \"x\"",
            "interval = [2.0, 1.0]",
            "interval = [1.0]",
            "topology = \"zz\"",
            "command = 3",
        ] {
            let text = format!("thp = \"never\"\n[measured]\n{wrong}\n");
            let error = Profile::parse(&text, Path::new("p")).unwrap_err().to_string();
            assert!(error.starts_with("profile p, line 3: "), "{wrong}: {error}");
        }
    }

    #[test]
    fn nodes_without_effect_are_refused_with_their_line() {
        let refused = |table: &str| {
            let text = format!("thp = \"never\"\n[memory]\n{table}\n");
            Profile::parse(&text, Path::new("p")).unwrap_err().to_string()
        };
        for (table, mode) in
            [("nodes = \"0\"", "inherit"), ("mode = \"local\"\nnodes = \"0\"", "local")]
        {
            let error = refused(table);
            assert!(error.starts_with("profile p, line 2: "), "{error}");
            assert!(
                error.contains(&format!("`{mode}` takes no nodes; leave `nodes` out")),
                "{error}"
            );
        }
        let error = refused("mode = \"bind\"\nnodes = \"\"");
        assert!(error.starts_with("profile p, line 4: `nodes` is empty; leave it out"), "{error}");
    }

    fn plans() -> impl Strategy<Value = Plan> {
        let choice = prop_oneof![
            Just(AllocatorChoice::Inherit),
            "[a-z]{1,8}".prop_map(AllocatorChoice::from),
            "/[ -~]{1,20}".prop_map(AllocatorChoice::from),
        ];
        let memory = (proptest::sample::select(MemoryMode::ALL), "[0-9,!+-]{0,6}", any::<bool>())
            .prop_map(|(mode, nodes, balancing)| {
                let nodes = if mode.needs_nodes() { nodes } else { String::new() };
                MemoryPolicy { mode, nodes, balancing }
            });
        let text = || proptest::option::of("[0-9,!+-]{1,6}");
        (
            (choice, proptest::sample::select(ThreadPlacement::ALL), text(), text()),
            (
                proptest::sample::select(Thp::ALL),
                proptest::sample::select(NumaBalancing::ALL),
                proptest::sample::select(Daemons::ALL),
            ),
            memory,
            proptest::collection::btree_map("[A-Z]{1,5}", "\\PC*|[\\x00-\\x7f]{0,9}", 0..3),
        )
            .prop_map(|(placed, (thp, numa_balancing, daemons), memory, env)| {
                let (allocator, threads, cpu_nodes, cpus) = placed;
                let plan = Plan { allocator, threads, cpu_nodes, cpus, thp, ..Plan::default() };
                Plan { numa_balancing, daemons, memory, env, ..plan }
            })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(plan in plans()) {
            let text = plan.to_profile();
            let again = Profile::parse(&text, Path::new("p")).map_err(|e| {
                TestCaseError::fail(format!("{e}\n{text}"))
            })?;
            prop_assert_eq!(again, Profile { plan, measured: None });
        }

        #[test]
        fn a_damaged_profile_is_read_or_refused(text in damaged(PROFILE)) {
            if let Ok(profile) = Profile::parse(&text, Path::new("p")) {
                let again = Profile::parse(&profile.to_text(), Path::new("p")).unwrap();
                prop_assert_eq!(again.to_text(), profile.to_text());
            }
        }
    }
}

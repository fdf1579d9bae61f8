//! Compiles the C and C++ cases and runs them with the allocator under test.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};

use tempfile::TempDir;

/// The C and C++ sources.
pub const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/preload/tests");

/// The library that cases load, and the sources of those cases.
const PLUGIN: &str = "plugin.cpp";
const LOADING: [&str; 2] = ["lifecycle.cpp", "locks.c"];

/// The sources that become shared libraries.
const LIBRARIES: [&str; 2] = [PLUGIN, "call_graph.c"];

/// The exit status of a case that cannot be decided on this machine; its output is the reason.
const SKIPPED: i32 = 77;

/// A build of the library as it is shipped. It is not a dependency of these tests, because tests
/// unwind, which a library without `std` cannot do.
#[derive(Clone, Copy)]
pub struct Build {
    /// `None`: this machine.
    pub target: Option<&'static str>,
    /// The linker of that target.
    pub linker: Option<&'static str>,
    pub release: bool,
}

pub const DEBUG: Build = Build { target: None, linker: None, release: false };
pub const RELEASE: Build = Build { target: None, linker: None, release: true };

impl Build {
    /// The directory with `libnumapilot_alloc.so` and `.a`.
    pub fn directory(self) -> Result<PathBuf, String> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--offline", "-p", "numapilot-alloc-preload"]);
        let mut directory = target_directory();
        if let (Some(target), Some(linker)) = (self.target, self.linker) {
            let variable = target.to_uppercase().replace('-', "_");
            cargo.args(["--target", target]);
            cargo.env(format!("CARGO_TARGET_{variable}_LINKER"), linker);
            if target.ends_with("musl") {
                // Without this, no shared library is built.
                cargo.env("RUSTFLAGS", "-C target-feature=-crt-static");
            }
            directory.push(target);
        }
        if self.release {
            cargo.arg("--release");
        }
        directory.push(if self.release { "release" } else { "debug" });
        let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        if output.status.success() {
            Ok(directory)
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// A file of the library.
    pub fn library(self, name: &str) -> PathBuf {
        self.directory().unwrap_or_else(|e| panic!("the library does not build: {e}")).join(name)
    }
}

/// The build directory of these tests.
fn target_directory() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().to_owned()
}

/// The shared library, built once. `TESTED_MALLOC` names another one instead, whose result for a
/// case shows whether the case is fair.
pub fn shared_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        env::var_os("TESTED_MALLOC")
            .map_or_else(|| DEBUG.library("libnumapilot_alloc.so"), PathBuf::from)
    })
}

/// A way to build programs and to make them use the library.
pub struct Subject {
    /// Distinguishes its programs.
    pub name: &'static str,
    pub c: &'static str,
    pub cpp: &'static str,
    /// Options after the source.
    pub link: Vec<String>,
    /// The emulator that runs the program, with its options, if this machine cannot run it.
    pub emulator: Option<(&'static str, &'static [&'static str])>,
    /// The library is preloaded into the program, by `LD_PRELOAD`.
    pub preload: Option<PathBuf>,
}

impl Subject {
    /// The usual way: this machine's compiler, with the library preloaded.
    pub fn preloaded() -> Self {
        Self {
            name: "preloaded",
            c: "cc",
            cpp: "c++",
            link: Vec::new(),
            emulator: None,
            preload: Some(shared_library().to_owned()),
        }
    }

    /// The optimised library, preloaded.
    pub fn optimised() -> Self {
        let library = RELEASE.library("libnumapilot_alloc.so");
        Self { name: "optimised", preload: Some(library), ..Self::preloaded() }
    }

    /// One of the sources as a program (`.so`: as a library), compiled once.
    pub fn compile(&self, source: &str) -> PathBuf {
        static BUILT: Mutex<BTreeMap<PathBuf, PathBuf>> = Mutex::new(BTreeMap::new());
        static DIRECTORY: OnceLock<TempDir> = OnceLock::new();
        let directory = DIRECTORY.get_or_init(|| tempfile::tempdir().unwrap()).path();
        let program = directory.join(format!("{}-{source}", self.name));
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        if built.contains_key(&program) {
            return program;
        }
        let cpp = Path::new(source).extension() == Some(OsStr::new("cpp"));
        let shared = LIBRARIES.contains(&source);
        let mut compiler = Command::new(if cpp { self.cpp } else { self.c });
        // Without -fno-builtin the compiler would remove pairs of malloc and free.
        compiler.args(["-O2", "-g", "-Wall", "-Werror", "-fno-builtin", "-pthread"]);
        compiler.args(cpp.then_some("-std=c++17"));
        compiler.arg("-o").arg(&program).arg(Path::new(SOURCES).join(source));
        if shared {
            compiler.args(["-shared", "-fPIC"]);
        } else if !self.link.is_empty() {
            compiler.arg("-DLINKED").args(&self.link);
        }
        let output = compiler.output().unwrap_or_else(|e| panic!("{}: {e}", self.c));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{source} does not compile: {errors}");
        built.insert(program.clone(), program.clone());
        program
    }

    /// A command that runs this program with the library.
    pub fn command(&self, program: &Path) -> Command {
        let preload =
            self.preload.iter().map(|library| format!("LD_PRELOAD={}", library.display()));
        match self.emulator {
            None => {
                let mut command = Command::new(program);
                command.envs(self.preload.iter().map(|library| ("LD_PRELOAD", library)));
                command
            }
            // The emulator is a program of this machine; the variable is meant for the program that
            // it runs.
            Some((emulator, options)) => {
                let mut command = Command::new(emulator);
                command.args(options).args(preload.flat_map(|v| ["-E".to_owned(), v])).arg(program);
                command
            }
        }
    }

    /// Names of the cases of a source, listed without the library, so that each case reports a
    /// broken library.
    pub fn cases(&self, source: &str) -> Vec<String> {
        let alone = Self { preload: None, link: self.link.clone(), ..*self };
        let output = alone.command(&self.compile(source)).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    /// Runs a case; returns the reason if it was skipped.
    pub fn run(&self, source: &str, case: &str) -> Result<Option<String>, String> {
        self.run_with(source, case, &[])
    }

    /// The same with variables in its environment.
    pub fn run_with(
        &self,
        source: &str,
        case: &str,
        variables: &[(&str, &str)],
    ) -> Result<Option<String>, String> {
        let mut command = self.command(&self.compile(source));
        command.envs(variables.iter().copied());
        if LOADING.contains(&source) {
            command.env("PLUGIN", self.compile(PLUGIN));
        }
        judge(&command.arg(case).output().unwrap(), case)
    }

    /// A case as a test.
    pub fn holds(&self, source: &str, case: &str) {
        match self.run(source, case) {
            Ok(None) => {}
            Ok(Some(reason)) => println!("skipped: {reason}"),
            Err(message) => panic!("{message}"),
        }
    }

    /// All cases of a source except some, as one test; reports all that fail.
    pub fn all_hold(&self, source: &str, but: &[&str]) {
        self.all_hold_with(source, but, &[]);
    }

    /// The same with variables in their environment.
    pub fn all_hold_with(&self, source: &str, but: &[&str], variables: &[(&str, &str)]) {
        let failed: Vec<_> = self
            .cases(source)
            .iter()
            .filter(|case| !but.contains(&case.as_str()))
            .filter_map(|case| self.run_with(source, case, variables).err())
            .collect();
        assert!(failed.is_empty(), "{} of {source}:\n{}", failed.len(), failed.join("\n"));
    }
}

fn judge(output: &Output, case: &str) -> Result<Option<String>, String> {
    let stdout = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match output.status.code() {
        Some(0) => Ok(None),
        Some(SKIPPED) => Ok(Some(stdout)),
        _ => {
            let errors = String::from_utf8_lossy(&output.stderr);
            Err(format!("{case}: {}: {stdout} {}", output.status, errors.trim()))
        }
    }
}

/// Whether a program is installed; prints a message if not.
pub fn installed(program: &str) -> bool {
    let found = env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .any(|directory| directory.join(program).is_file());
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

/// Makes one test per case of a source, and one that fails when the lists differ.
macro_rules! cases {
    ($source:literal: $($case:ident)+) => {
        $(#[test]
        fn $case() {
            $crate::harness::Subject::preloaded().holds($source, stringify!($case));
        })+

        #[test]
        fn every_case_is_run() {
            let listed = [$(stringify!($case)),+];
            assert_eq!($crate::harness::Subject::preloaded().cases($source), listed);
        }
    };
}
pub(crate) use cases;

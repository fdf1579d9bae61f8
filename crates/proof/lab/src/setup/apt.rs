//! Runs apt-get(8) with its own lists, cache and status.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use numapilot_place::LockedDirectory;

use super::release::Release;
use super::sources;
use crate::LabError;
use crate::directories::scratch_directory;

/// A package with a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Name, with the architecture if that is a foreign one.
    pub name: String,
    /// Version.
    pub version: String,
}

/// The timeout in seconds and the number of retries for requests to servers.
const PATIENCE: [&str; 3] =
    ["Acquire::http::Timeout=20", "Acquire::https::Timeout=20", "Acquire::Retries=1"];

/// apt, working in a directory that is removed when this value is dropped.
#[derive(Debug)]
pub struct Apt<'a> {
    scratch: LockedDirectory,
    release: &'a Release,
    options: Vec<String>,
    status: PathBuf,
}

impl<'a> Apt<'a> {
    /// Prepares a directory in the cache.
    pub fn new(release: &'a Release) -> Result<Self, LabError> {
        let scratch = scratch_directory()?;
        let root = scratch.path();
        let found = sources::derive(Path::new("/etc/apt"), &release.codename, &release.suites());
        let found = found.ok_or_else(|| LabError::Setup {
            what: "deriving the package sources".to_owned(),
            message: format!(
                "/etc/apt names no archive with the suite {} and its component main",
                release.codename
            ),
        })?;
        let sources = root.join(format!("lab.{}", found.ending));
        fs::write(&sources, found.text).map_err(LabError::at("write", &sources))?;
        for directory in ["lists/partial", "cache/archives/partial", "parts", "packages"] {
            let path = root.join(directory);
            fs::create_dir_all(&path).map_err(LabError::at("make", &path))?;
        }
        let status = root.join("status");
        let at = |key: &str, path: &Path| format!("{key}={}", path.display());
        let mut options = vec![
            at("Dir::Etc::SourceList", &sources),
            at("Dir::Etc::SourceParts", &root.join("parts")),
            at("Dir::State::Lists", &root.join("lists")),
            at("Dir::Cache", &root.join("cache")),
            at("Dir::State::Status", &status),
            "APT::Install-Recommends=false".to_owned(),
            // A list that cannot be downloaded is an error, not a warning.
            "APT::Update::Error-Mode=any".to_owned(),
        ];
        options.extend(PATIENCE.map(str::to_owned));
        if rustix::process::getuid().is_root() {
            // apt's unprivileged user may not write here.
            options.push("APT::Sandbox::User=root".to_owned());
        }
        let apt = Self { scratch, release, options, status };
        apt.forget(&[])?;
        Ok(apt)
    }

    /// Marks packages whose names start with these prefixes as not installed.
    pub fn forget(&self, prefixes: &[&str]) -> Result<(), LabError> {
        let installed = Path::new("/var/lib/dpkg/status");
        let text = fs::read_to_string(installed).map_err(LabError::at("read", installed))?;
        let text = without(&text, prefixes);
        fs::write(&self.status, text).map_err(LabError::at("write", &self.status))
    }

    /// Downloads the package lists.
    pub fn update(&mut self) -> Result<(), LabError> {
        self.run("apt-get", &["update"], "reading the package lists").map(drop)
    }

    /// Packages with all dependencies that are not installed.
    pub fn closure(&self, packages: &[&str]) -> Result<Vec<Package>, LabError> {
        let target = self.release.target();
        let mut arguments = vec!["install", "--simulate"];
        if let Some(target) = &target {
            arguments.extend(["--target-release", target]);
        }
        arguments.extend(packages);
        let output = self.run("apt-get", &arguments, "finding the packages")?;
        Ok(installed_by(&output))
    }

    /// Downloads packages and unpacks them into one directory.
    pub fn unpack(&self, packages: &[Package]) -> Result<PathBuf, LabError> {
        let all: Vec<String> =
            packages.iter().map(|p| format!("{}={}", p.name, p.version)).collect();
        let mut arguments = vec!["download"];
        arguments.extend(all.iter().map(String::as_str));
        self.run("apt-get", &arguments, "fetching the packages")?;
        let from = self.packages();
        let unpacked = self.scratch.path().join("unpacked");
        fs::create_dir(&unpacked).map_err(LabError::at("make", &unpacked))?;
        for entry in fs::read_dir(&from).map_err(LabError::at("read", &from))? {
            let file = entry.map_err(LabError::at("read", &from))?.path();
            let arguments = [Path::new("-x"), &file, &unpacked].map(|p| p.display().to_string());
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            self.tool("dpkg-deb", &arguments, "unpacking the packages")?;
            fs::remove_file(&file).map_err(LabError::at("remove", &file))?;
        }
        Ok(unpacked)
    }

    fn packages(&self) -> PathBuf {
        self.scratch.path().join("packages")
    }

    fn run(&self, program: &str, arguments: &[&str], what: &str) -> Result<String, LabError> {
        let options = self.options.iter().flat_map(|option| ["-o", option]);
        let all: Vec<&str> = ["-q", "-y"].into_iter().chain(options).collect();
        self.tool(program, &[&all, arguments].concat(), what)
    }

    fn tool(&self, program: &str, arguments: &[&str], what: &str) -> Result<String, LabError> {
        let setup = |message: String| LabError::Setup { what: what.to_owned(), message };
        let output = Command::new(program)
            .args(arguments)
            .current_dir(self.packages())
            .env("LC_ALL", "C")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| setup(format!("{program}: {error}")))?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            let mut lines =
                message.lines().filter(|l| l.starts_with("E:") || l.starts_with("dpkg"));
            let line = lines.next().or(message.lines().next()).unwrap_or("no message");
            return Err(setup(format!("{program}: {line}")));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// dpkg's status without the packages whose names start with these prefixes.
fn without(status: &str, prefixes: &[&str]) -> String {
    let keep = |paragraph: &&str| {
        let name = paragraph.trim_start().strip_prefix("Package: ").unwrap_or_default();
        // apt does not accept an empty status file.
        !name.is_empty() && !prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    status.split("\n\n").filter(keep).map(|paragraph| format!("{paragraph}\n\n")).collect()
}

/// Parses the packages that `apt-get --simulate` would install: `Inst NAME [OLD] (NEW ARCHIVE
/// [ARCH])`.
fn installed_by(output: &str) -> Vec<Package> {
    let package = |line: &str| {
        let (name, rest) = line.strip_prefix("Inst ")?.split_once(' ')?;
        let version = rest.split_once('(')?.1.split([' ', ')']).next()?;
        Some(Package { name: name.to_owned(), version: version.to_owned() })
    };
    output.lines().filter_map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulation_is_read() {
        let output = "Reading package lists...\n\
            Inst qemu-system-data [1:7.2+dfsg-7] (1:10.0.2+ds-2 Debian Backports:oldstable [all]) []\n\
            Inst libfdt1 (1.6.1-4+b1 Debian:12.11/stable [amd64])\nConf libfdt1 (1.6.1-4+b1)\n";
        let found = installed_by(output);
        let names: Vec<_> = found.iter().map(|p| format!("{}={}", p.name, p.version)).collect();
        assert_eq!(names, ["qemu-system-data=1:10.0.2+ds-2", "libfdt1=1.6.1-4+b1"]);
    }

    #[test]
    fn packages_are_forgotten() {
        let status = "Package: qemu-utils\nStatus: x\n\nPackage: bash\nStatus: y\n\n";
        assert_eq!(without(status, &["qemu"]).trim(), "Package: bash\nStatus: y");
        assert_eq!(without(status, &[]).trim(), status.trim());
        assert_eq!(without(status, &[""]), "");
        assert_eq!(without("", &[]), "");
    }
}

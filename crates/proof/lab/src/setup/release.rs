//! Identifies the distribution, and the suite that has a recent enough QEMU.
//!
//! Source: os-release(5).

use std::fs;

use crate::LabError;

/// A release of Debian that the lab supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Code name, such as `bookworm`.
    pub codename: String,
    /// Whether the lab's packages come from its backports.
    pub backports: bool,
}

impl Release {
    /// Reads `/etc/os-release`.
    ///
    /// # Errors
    /// [`LabError::Unsupported`] with the packages to install on other systems.
    pub fn of_this_machine() -> Result<Self, LabError> {
        let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
        Self::of(&text).ok_or_else(|| LabError::Unsupported { advice: advice(&text) })
    }

    fn of(text: &str) -> Option<Self> {
        let backports = match (field(text, "ID")?, field(text, "VERSION_ID")?) {
            ("debian", "12") => true,
            ("debian", "13") => false,
            _ => return None,
        };
        Some(Self { codename: field(text, "VERSION_CODENAME")?.to_owned(), backports })
    }

    /// The suites to read.
    pub fn suites(&self) -> Vec<String> {
        let mut all = vec![self.codename.clone()];
        all.extend(self.target());
        all
    }

    /// The suite that has the lab's packages, if it is not the release itself.
    pub fn target(&self) -> Option<String> {
        self.backports.then(|| format!("{}-backports", self.codename))
    }
}

/// The value of a field, without quotes.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
    Some(line.trim().trim_matches(['"', '\'']))
}

fn advice(text: &str) -> String {
    let like = [field(text, "ID"), field(text, "ID_LIKE")].into_iter().flatten();
    let like: Vec<&str> = like.flat_map(str::split_whitespace).collect();
    let has = |name: &str| like.contains(&name);
    let qemu = if has("debian") || has("ubuntu") {
        "apt-get install qemu-system-x86"
    } else if has("fedora") || has("rhel") {
        "dnf install qemu-system-x86-core"
    } else if has("arch") {
        "pacman -S qemu-system-x86"
    } else if has("suse") || has("opensuse") {
        "zypper install qemu-x86"
    } else {
        "install qemu-system-x86_64 with your package manager"
    };
    format!(
        "here: {qemu}, and put a kernel (vmlinuz-VERSION) that has initramfs, devtmpfs and \
         virtio-console support built in, as Debian's cloud kernel 6.12 has, into \
         ~/.cache/numapilot/lab/{}/boot",
        crate::kernel::DIRECTORY
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_distinguished() {
        let bookworm = "PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\nVERSION_ID=\"12\"\n\
                        VERSION_CODENAME=bookworm\n";
        let release = Release::of(bookworm).unwrap();
        assert_eq!(release.suites(), ["bookworm", "bookworm-backports"]);
        let trixie = Release::of("ID=debian\nVERSION_ID='13'\nVERSION_CODENAME=trixie").unwrap();
        assert_eq!((trixie.suites(), trixie.target()), (vec!["trixie".to_owned()], None));
        assert_eq!(Release::of("ID=debian\nVERSION_ID=11\nVERSION_CODENAME=bullseye"), None);
        assert_eq!(Release::of(""), None);
    }

    #[test]
    fn others_are_reported_what_to_install() {
        assert!(advice("ID=ubuntu\nID_LIKE=debian").contains("apt-get install qemu-system-x86"));
        assert!(advice("ID=rocky\nID_LIKE=\"rhel centos fedora\"").contains("dnf install"));
        assert!(advice("ID=void").contains("your package manager"));
    }
}

//! The guest's files, collected in a directory from which the initramfs is made.
//!
//! Every file has the same path as on the host, so arguments, scripts and configuration work
//! unchanged. Files are hard links where possible, and copies otherwise.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use numapilot_place::elf::{Kind, inspect, interpreter};
use numapilot_place::find_program;
use rustix::io::Errno;

use super::libraries;
use crate::LabError;

/// Directories that the guest's kernel provides, which are not included.
pub const OWN: [&str; 3] = ["/proc", "/sys", "/dev"];

/// A directory that becomes the guest's root.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    /// The entries that exist already, by their path in the guest.
    done: HashSet<PathBuf>,
    /// Programs whose dependencies exist already.
    programs: HashSet<PathBuf>,
}

impl Tree {
    /// An empty tree in a directory.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), done: HashSet::new(), programs: HashSet::new() }
    }

    /// Makes an empty directory, unless something with that name exists.
    pub fn directory_if_none(&mut self, path: &Path, mode: u32) -> Result<(), LabError> {
        match fs::symlink_metadata(self.place(path)) {
            Ok(_) => Ok(()),
            Err(_) => self.directory(path, mode),
        }
    }

    /// Makes a directory with this mode, or sets the mode of an existing one. A link on the host
    /// remains a link.
    pub fn directory_unless_link(&mut self, path: &Path, mode: u32) -> Result<(), LabError> {
        match fs::symlink_metadata(self.place(path)) {
            Ok(there) if there.is_symlink() => Ok(()),
            _ => self.directory(path, mode),
        }
    }

    /// Makes a directory.
    fn directory(&mut self, path: &Path, mode: u32) -> Result<(), LabError> {
        let place = self.place(path);
        self.make(&place)?;
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(&place, mode).map_err(LabError::at("set permissions of", &place))
    }

    /// Writes a file with these contents.
    pub fn text(&mut self, path: &Path, contents: &[u8], mode: u32) -> Result<(), LabError> {
        let place = self.parent(path)?;
        free(&place)?;
        fs::write(&place, contents).map_err(LabError::at("write", &place))?;
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(&place, mode).map_err(LabError::at("set permissions of", &place))
    }

    /// Adds a file of the host under another name.
    pub fn file_as(&mut self, source: &Path, path: &Path) -> Result<(), LabError> {
        let place = self.parent(path)?;
        link_or_copy(source, &place)?;
        Ok(())
    }

    /// Adds a program of the host with its interpreter, loader and libraries.
    pub fn program(&mut self, path: &Path) -> Result<(), LabError> {
        self.include(path)?;
        // Scripts can name each other as interpreters.
        if !self.programs.insert(path.to_owned()) {
            return Ok(());
        }
        let Some(line) = interpreter(path).map_err(LabError::at("read", path))? else {
            return self.libraries(libraries::libraries_of(path)?);
        };
        self.program(&line.interpreter)?;
        let search = std::env::var_os("PATH").unwrap_or_default();
        // An interpreter that is missing here may exist in the guest for another reason.
        let found = line.named_by_env().and_then(|name| find_program(name, &search));
        found.map_or(Ok(()), |program| self.program(&program))
    }

    /// Adds libraries. The loader's list includes their own dependencies.
    pub fn libraries(&mut self, all: Vec<PathBuf>) -> Result<(), LabError> {
        all.iter().try_for_each(|library| self.include(library))
    }

    /// Adds a file, link or whole directory of the host, including the targets of links.
    pub fn include(&mut self, path: &Path) -> Result<(), LabError> {
        let path = std::path::absolute(path).map_err(LabError::at("find", path))?;
        let path = self.resolve(&path)?;
        if let Some(own) = OWN.iter().find(|own| path.starts_with(own)) {
            return Err(LabError::KernelsOwn { path, own });
        }
        // The source directory contains this tree.
        if path == self.root || !self.done.insert(path.clone()) {
            return Ok(());
        }
        let kind = fs::symlink_metadata(&path).map_err(LabError::at("read", &path))?;
        if kind.is_dir() {
            let mode = kind.permissions().mode() & 0o7777;
            self.directory(&path, mode | 0o700)?;
            give(&self.place(&path), &kind, mode | 0o700)?;
            let entries = fs::read_dir(&path).map_err(LabError::at("read", &path))?;
            for entry in entries {
                let entry = entry.map_err(LabError::at("read", &path))?;
                self.include_entry(&entry.path())?;
            }
            return Ok(());
        }
        if kind.is_file() {
            return self.file_as(&path, &path);
        }
        // Sockets, pipes and devices belong to the process that made them.
        Ok(())
    }

    /// Adds an entry of an included directory. A link to something that does not exist here, or is
    /// the kernel's, stays a link.
    fn include_entry(&mut self, path: &Path) -> Result<(), LabError> {
        let is_link = || fs::symlink_metadata(path).is_ok_and(|kind| kind.is_symlink());
        match self.include(path) {
            Err(LabError::System { cause, .. })
                if cause.kind() == io::ErrorKind::NotFound && is_link() =>
            {
                Ok(())
            }
            Err(LabError::KernelsOwn { .. }) if is_link() => Ok(()),
            done => done,
        }
    }

    /// Adds the dependencies of the programs and libraries in an included directory.
    pub fn needs_of(&mut self, path: &Path) -> Result<(), LabError> {
        // Names such as libx.so.1 are usually links.
        let mut waiting = vec![fs::canonicalize(path).map_err(LabError::at("read", path))?];
        while let Some(path) = waiting.pop() {
            let kind = fs::symlink_metadata(&path).map_err(LabError::at("read", &path))?;
            if kind.is_dir() {
                let entries = fs::read_dir(&path).map_err(LabError::at("read", &path))?;
                waiting.extend(entries.filter_map(Result::ok).map(|entry| entry.path()));
            } else if kind.is_file() {
                self.needs_of_file(&path)?;
            }
        }
        Ok(())
    }

    fn needs_of_file(&mut self, path: &Path) -> Result<(), LabError> {
        // A file that cannot be read here is not treated as a program.
        let Ok(binary) = inspect(path) else { return Ok(()) };
        if binary.path != path && binary.path.is_file() {
            return self.program(path);
        }
        match binary.kind {
            Kind::Dynamic { native: true, .. } => self.program(path),
            // A library does not name its loader, so this program's loader is used.
            Kind::Static if super::is_library(path) => {
                let Some(loader) = super::own_loader()? else { return Ok(()) };
                // Libraries that a plugin lacks may be provided by its program.
                match libraries::list(&loader, path) {
                    Ok(all) => self.libraries(all),
                    Err(LabError::NoLibrary { .. }) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            _ => Ok(()),
        }
    }

    /// Resolves links in every part of a path, and makes the same links in the guest.
    fn resolve(&mut self, path: &Path) -> Result<PathBuf, LabError> {
        const MOST_LINKS: usize = 40;
        let parts = |path: &Path| -> Vec<OsString> {
            path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
        };
        let mut waiting = parts(path);
        let mut real = PathBuf::from("/");
        let mut links = 0;
        while let Some(part) = waiting.pop() {
            match Path::new(&part).components().next() {
                Some(Component::RootDir) => real = PathBuf::from("/"),
                Some(Component::ParentDir) => drop(real.pop()),
                Some(Component::Normal(name)) => {
                    let next = real.join(name);
                    let kind = fs::symlink_metadata(&next).map_err(LabError::at("read", &next))?;
                    if !kind.is_symlink() {
                        real = next;
                        continue;
                    }
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(LabError::at("read", path)(Errno::LOOP));
                    }
                    let target = fs::read_link(&next).map_err(LabError::at("read", &next))?;
                    self.link(&target, &next)?;
                    waiting.extend(parts(&target));
                }
                _ => {}
            }
        }
        Ok(real)
    }

    fn link(&mut self, target: &Path, path: &Path) -> Result<(), LabError> {
        if self.done.insert(path.to_owned()) {
            let place = self.parent(path)?;
            symlink(target, &place).map_err(LabError::at("make", &place))?;
        }
        Ok(())
    }

    fn place(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The location of a file in the tree, after making its directory.
    fn parent(&mut self, path: &Path) -> Result<PathBuf, LabError> {
        let place = self.place(path);
        if let Some(parent) = place.parent() {
            self.make(parent)?;
        }
        Ok(place)
    }

    /// Makes a directory of the tree and its parents, accessible to every user of the guest
    /// regardless of this process's umask.
    fn make(&mut self, place: &Path) -> Result<(), LabError> {
        let missing: Vec<&Path> = place.ancestors().take_while(|path| !path.exists()).collect();
        fs::create_dir_all(place).map_err(LabError::at("make", place))?;
        for path in missing {
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(path, mode).map_err(LabError::at("set permissions of", path))?;
        }
        Ok(())
    }
}

/// Removes a file of the tree before it is written, because it may be a hard link to a file of the
/// host.
fn free(place: &Path) -> Result<(), LabError> {
    match fs::remove_file(place) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(LabError::at("replace", place)(e)),
        _ => Ok(()),
    }
}

/// Makes a hard link if the file system permits, and a copy otherwise.
fn link_or_copy(source: &Path, place: &Path) -> Result<(), LabError> {
    free(place)?;
    if fs::hard_link(source, place).is_ok() {
        return Ok(());
    }
    let mut from = File::open(source).map_err(LabError::at("read", source))?;
    let metadata = from.metadata().map_err(LabError::at("read", source))?;
    let mut to = File::create(place).map_err(LabError::at("write", place))?;
    io::copy(&mut from, &mut to).map_err(LabError::at("write", place))?;
    give(place, &metadata, metadata.permissions().mode() & 0o7777)
}

/// Gives a copy the owner of its original, if this user may, and a mode.
fn give(place: &Path, original: &fs::Metadata, mode: u32) -> Result<(), LabError> {
    match std::os::unix::fs::chown(place, Some(original.uid()), Some(original.gid())) {
        Err(e) if e.kind() != io::ErrorKind::PermissionDenied => {
            return Err(LabError::at("give away", place)(e));
        }
        _ => {}
    }
    // Changing the owner clears the set-user-ID bits, so the mode comes last.
    fs::set_permissions(place, fs::Permissions::from_mode(mode))
        .map_err(LabError::at("set permissions of", place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_made_with_its_first_entry_and_open_to_all_users() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("root");
        let mut tree = Tree::new(&root);
        tree.text(Path::new("/etc/hostname"), b"guest\n", 0o644).unwrap();
        for path in [&root, &root.join("etc")] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o755, "{path:?}");
        }
        assert_eq!(fs::read(root.join("etc/hostname")).unwrap(), b"guest\n");
    }

    #[test]
    fn links_that_lead_nowhere_stay_links_in_an_included_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let source = scratch.path().join("source");
        fs::create_dir(&source).unwrap();
        fs::write(source.join("file"), "text").unwrap();
        let links = ["/no/such/file", "file-that-is-missing", "/proc/self/mounts", "/dev/null"];
        for (at, target) in links.iter().enumerate() {
            symlink(target, source.join(at.to_string())).unwrap();
        }
        let mut tree = Tree::new(&scratch.path().join("root"));
        tree.include(&source).unwrap();
        tree.needs_of(&source).unwrap();
        let there = tree.place(&source);
        assert_eq!(fs::read(there.join("file")).unwrap(), b"text");
        for (at, target) in links.iter().enumerate() {
            assert_eq!(fs::read_link(there.join(at.to_string())).unwrap(), Path::new(target));
        }
        // What the user names must exist.
        let error = tree.include(&source.join("0")).unwrap_err().to_string();
        assert!(error.contains("cannot read /no:"), "{error}");
    }
}

//! The modules of a crate, one per file, and their imports from each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use crate::files::rust_files;
use crate::paths::Paths;

/// The path of a module from the crate's root.
pub type Module = Vec<String>;

/// The files of a crate, by module.
#[derive(Debug, Default)]
pub struct Modules {
    /// The file and its text.
    files: BTreeMap<Module, (String, String)>,
}

/// The maximum number of re-exports that are followed.
const MOST_EXPORTS: usize = 5;

impl Modules {
    /// Reads the modules in the `src` folder of a crate.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn read(sources: &Path) -> io::Result<Self> {
        let mut modules = Self::default();
        for path in rust_files(sources)? {
            let file = path.strip_prefix(sources).unwrap_or(&path).display().to_string();
            modules.add(&file, fs::read_to_string(&path)?);
        }
        Ok(modules)
    }

    /// Adds a file by its path relative to `src`.
    pub fn add(&mut self, file: &str, text: String) {
        self.files.insert(module_of(file), (file.to_owned(), text));
    }

    /// The files that each file imports. A path of a module to its parent, which children use by
    /// habit, does not count.
    #[must_use]
    pub fn imports(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let paths: BTreeMap<&Module, Paths<'_>> =
            self.files.iter().map(|(module, (_, text))| (module, Paths::of(text))).collect();
        let mut exports = BTreeMap::new();
        for (module, paths) in &paths {
            for (name, path) in &paths.exports {
                if let Some(path) = self.resolve(module, path) {
                    exports.insert(((*module).clone(), (*name).to_owned()), path);
                }
            }
        }
        let found = paths.iter().map(|(module, paths)| {
            let named = self.named(module, paths).into_iter();
            let used = named.filter_map(|path| self.holder(path, &exports));
            let used = used.filter(|used| used != *module && !is_around(used, module));
            (
                self.files[*module].0.as_str(),
                used.map(|used| self.files[&used].0.as_str()).collect(),
            )
        });
        found.collect()
    }

    /// The paths in a file, from the root of the crate.
    fn named(&self, module: &Module, paths: &Paths<'_>) -> Vec<Module> {
        let mut imported = BTreeMap::new();
        for (name, path) in paths.imports.iter().chain(&paths.exports) {
            imported.extend(self.resolve(module, path).map(|path| (*name, path)));
        }
        let in_code = paths.code.iter().filter_map(|path| match imported.get(path[0]) {
            Some(import) => Some([import.clone(), vec![path[1].to_owned()]].concat()),
            None => self.resolve(module, path),
        });
        let in_code: Vec<Module> = in_code.collect();
        imported.into_values().chain(in_code).collect()
    }

    /// A path from the root of the crate; `None` if it leads to another crate or to nothing.
    fn resolve(&self, module: &Module, path: &[&str]) -> Option<Module> {
        from_root(module, path).or_else(|| {
            let child = [module.clone(), vec![(*path.first()?).to_owned()]].concat();
            self.files.get(&child)?;
            Some(joined(module, path))
        })
    }

    /// The module that declares the target of a path.
    fn holder(
        &self,
        mut path: Module,
        exports: &BTreeMap<(Module, String), Module>,
    ) -> Option<Module> {
        for _ in 0..MOST_EXPORTS {
            let length = (0..=path.len()).rev().find(|at| self.files.contains_key(&path[..*at]))?;
            let (module, rest) = path.split_at(length);
            let Some(name) = rest.first() else { return Some(module.to_vec()) };
            match exports.get(&(module.to_vec(), name.clone())) {
                Some(export) => path = [export.clone(), rest[1..].to_vec()].concat(),
                None => return Some(module.to_vec()),
            }
        }
        None
    }
}

/// The module of a file, by its path relative to `src`.
#[must_use]
pub fn module_of(file: &str) -> Module {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let mut module: Module = stem.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        module.pop();
    }
    module
}

/// A path in a module that begins with `crate`, `self` or `super`, from the root of the crate;
/// `None` for any other path.
#[must_use]
pub fn from_root(module: &Module, path: &[&str]) -> Option<Module> {
    let (mut from, mut rest) = (module.clone(), path);
    match *path.first()? {
        "crate" => (from, rest) = (Module::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {
            while let ["super", after @ ..] = rest {
                from.pop();
                rest = after;
            }
        }
        _ => return None,
    }
    Some(joined(&from, rest))
}

fn joined(module: &Module, path: &[&str]) -> Module {
    module.iter().cloned().chain(path.iter().map(|segment| (*segment).to_owned())).collect()
}

/// Whether a module contains another one, except for the crate's root.
fn is_around(outer: &[String], inner: &[String]) -> bool {
    !outer.is_empty() && outer.len() < inner.len() && inner.starts_with(outer)
}

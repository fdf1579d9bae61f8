//! Locates numapilot's programs.

use std::env;
use std::path::PathBuf;

use crate::allocators::own_directories;
use crate::prepare::find_program;

/// The file of one of numapilot's programs: beside this one, beside the libraries, or on `PATH`.
#[must_use]
pub fn own_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let beside = env::current_exe().ok().and_then(|own| Some(own.parent()?.to_owned()));
    beside
        .into_iter()
        .chain(own_directories())
        .find_map(|directory| find_program(directory.join(name).as_os_str(), &path))
        .or_else(|| find_program(name.as_ref(), &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_searched_last() {
        let this = env::current_exe().unwrap();
        let name = this.file_name().unwrap().to_str().unwrap();
        assert_eq!(own_program(name).as_ref(), Some(&this));
        assert!(own_program("sh").is_some());
        assert_eq!(own_program("numapilot-no-such-program"), None);
    }
}

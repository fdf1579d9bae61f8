//! The environment of a program: the plan's variables, and entries that are added to variables of
//! the user, whose own entries take precedence.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::PlaceError;
use crate::allocators::HugePages;

/// Whether an allocator requests huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HugePageRequest {
    /// It cannot.
    NoSwitch,
    /// It does.
    Made,
    /// What the user has put into this variable, which has another value, decides.
    UpTo(&'static str),
}

/// The variables that differ from those of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Environment {
    own: BTreeMap<OsString, OsString>,
    /// Whether the program gets nothing from this process.
    is_alone: bool,
}

impl Environment {
    /// The plan's own variables.
    pub fn new(variables: &BTreeMap<String, String>) -> Result<Self, PlaceError> {
        for (name, value) in variables {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(PlaceError::Variable(name.escape_debug().to_string()));
            }
        }
        let own = variables.iter().map(|(k, v)| (k.into(), v.into())).collect();
        Ok(Self { own, is_alone: false })
    }

    /// The same for a program that is started elsewhere: it does not inherit the variables of this
    /// process.
    pub fn alone(variables: &BTreeMap<String, String>) -> Result<Self, PlaceError> {
        Ok(Self { is_alone: true, ..Self::new(variables)? })
    }

    fn inherited(&self, name: &OsStr) -> Option<OsString> {
        env::var_os(name).filter(|_| !self.is_alone)
    }

    /// The value in the program.
    pub fn get(&self, name: &str) -> Option<OsString> {
        let name = OsStr::new(name);
        self.own.get(name).cloned().or_else(|| self.inherited(name))
    }

    /// The value in the program, if it differs from that of this process.
    pub fn changed(&self, name: &str) -> Option<&OsStr> {
        self.own.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Whether the program has the variable.
    pub fn has(&self, name: &OsStr) -> bool {
        self.own.contains_key(name) || self.inherited(name).is_some()
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.own.insert(name.into(), value.into());
    }

    /// Sets a variable of the user, which may have any bytes.
    pub fn set_raw(&mut self, name: &OsStr, value: &OsStr) -> Result<(), PlaceError> {
        let is_bad = |text: &OsStr, bytes: &[u8]| text.as_bytes().iter().any(|b| bytes.contains(b));
        if name.is_empty() || is_bad(name, b"=\0") || is_bad(value, b"\0") {
            return Err(PlaceError::Variable(name.to_string_lossy().escape_debug().to_string()));
        }
        let mut whole = OsString::new();
        if name == "LD_PRELOAD"
            && let Some(ours) = self.own.get(name)
        {
            whole.push(ours);
            whole.push(":");
        }
        whole.push(value);
        self.own.insert(name.to_owned(), whole);
        Ok(())
    }

    /// The variables to set for the program.
    pub fn changes(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.own.iter().map(|(k, v)| (k.as_os_str(), v.as_os_str()))
    }

    /// Adds a library before those that are preloaded already.
    pub fn preload(&mut self, library: &Path) -> Result<(), PlaceError> {
        let name = library.as_os_str();
        if name.as_bytes().iter().any(|b| matches!(b, b' ' | b':' | b'\t' | b'\n')) {
            return Err(PlaceError::Unpreloadable(library.to_owned()));
        }
        let mut value = name.to_owned();
        if let Some(rest) = self.get("LD_PRELOAD").filter(|v| !v.is_empty()) {
            value.push(":");
            value.push(rest);
        }
        self.set("LD_PRELOAD", value);
        Ok(())
    }

    /// Adds a library after those that are preloaded already, by a name that the loader searches.
    pub fn preload_last(&mut self, name: &str) {
        let mut value = self.get("LD_PRELOAD").unwrap_or_default();
        if !value.is_empty() {
            value.push(":");
        }
        value.push(name);
        self.set("LD_PRELOAD", value);
    }

    /// Makes an allocator use huge pages, unless the user has set one of its options for them.
    pub fn huge_pages(&mut self, how: HugePages) -> HugePageRequest {
        match how {
            HugePages::NoSwitch => return HugePageRequest::NoSwitch,
            HugePages::Variables(names, value) => {
                let other = |name: &&&str| self.get(name).is_some_and(|users| users != value);
                if let Some(name) = names.iter().find(other) {
                    return HugePageRequest::UpTo(name);
                }
                if names.iter().all(|name| self.get(name).is_none()) {
                    for name in names {
                        self.set(name, value);
                    }
                }
            }
            HugePages::Entry { variable, separator, key, value } => {
                let mut list = self.get(variable).unwrap_or_default();
                let entries = list.as_bytes().split(|b| *b == separator as u8);
                let mut users = entries.filter_map(|entry| entry.strip_prefix(key.as_bytes()));
                // Of several, the last one counts.
                match users.next_back() {
                    Some(users) if users == value.as_bytes() => {}
                    Some(_) => return HugePageRequest::UpTo(variable),
                    None => {
                        if !list.is_empty() {
                            list.push(separator.to_string());
                        }
                        list.push(key);
                        list.push(value);
                        self.set(variable, list);
                    }
                }
            }
        }
        HugePageRequest::Made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::new(
            &variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        )
        .unwrap()
    }

    const ENTRY: HugePages = HugePages::Entry {
        variable: "NUMAPILOT_TEST_TUNABLES",
        separator: ':',
        key: "malloc.hugetlb=",
        value: "1",
    };

    #[test]
    fn preloads_stack_and_odd_paths_are_refused() {
        let mut env = environment(&[("LD_PRELOAD", "/mine.so")]);
        env.preload(Path::new("/a.so")).unwrap();
        env.preload(Path::new("/b.so")).unwrap();
        assert_eq!(env.get("LD_PRELOAD").unwrap(), "/b.so:/a.so:/mine.so");
        env.preload_last("libc.so.6");
        assert_eq!(env.get("LD_PRELOAD").unwrap(), "/b.so:/a.so:/mine.so:libc.so.6");
        assert!(matches!(
            env.preload(Path::new("/with space.so")),
            Err(PlaceError::Unpreloadable(_))
        ));
    }

    #[test]
    fn values_need_not_be_text() {
        let mut env = environment(&[]);
        let raw = OsStr::from_bytes(b"/\xff.so");
        env.set_raw(OsStr::new("A"), raw).unwrap();
        assert_eq!(env.get("A").unwrap(), raw);
        env.set("LD_PRELOAD", "/a.so");
        env.set_raw(OsStr::new("LD_PRELOAD"), raw).unwrap();
        assert_eq!(env.get("LD_PRELOAD").unwrap().as_bytes(), b"/a.so:/\xff.so");
        assert!(matches!(env.set_raw(OsStr::new("A=B"), raw), Err(PlaceError::Variable(_))));
    }

    #[test]
    fn what_execve_cannot_pass_is_refused() {
        for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0y")] {
            let variables = [(name.to_owned(), value.to_owned())].into();
            assert!(matches!(Environment::new(&variables), Err(PlaceError::Variable(_))));
        }
    }

    #[test]
    fn entries_are_appended_and_the_users_kept() {
        let value = |start: &[(&str, &str)]| {
            let mut env = environment(start);
            let request = env.huge_pages(ENTRY);
            (env.get("NUMAPILOT_TEST_TUNABLES").unwrap().into_string().unwrap(), request)
        };
        let made = |value: &str| (value.to_owned(), HugePageRequest::Made);
        let up_to_them =
            |value: &str| (value.to_owned(), HugePageRequest::UpTo("NUMAPILOT_TEST_TUNABLES"));
        let of = |list| value(&[("NUMAPILOT_TEST_TUNABLES", list)]);
        assert_eq!(value(&[]), made("malloc.hugetlb=1"));
        assert_eq!(of("a=2"), made("a=2:malloc.hugetlb=1"));
        assert_eq!(of("malloc.hugetlb=1:a=2"), made("malloc.hugetlb=1:a=2"));
        assert_eq!(of("malloc.hugetlb=0:a=2"), up_to_them("malloc.hugetlb=0:a=2"));
        const SWITCHES: HugePages =
            HugePages::Variables(&["NUMAPILOT_TEST_NEW", "NUMAPILOT_TEST_OLD"], "1");
        let mut env = environment(&[]);
        assert_eq!(env.huge_pages(SWITCHES), HugePageRequest::Made);
        assert_eq!(env.get("NUMAPILOT_TEST_NEW").unwrap(), "1");
        assert_eq!(env.get("NUMAPILOT_TEST_OLD").unwrap(), "1");
        let mut env = environment(&[("NUMAPILOT_TEST_OLD", "0")]);
        assert_eq!(env.huge_pages(SWITCHES), HugePageRequest::UpTo("NUMAPILOT_TEST_OLD"));
        assert_eq!(env.get("NUMAPILOT_TEST_OLD").unwrap(), "0");
        assert_eq!(env.get("NUMAPILOT_TEST_NEW"), None);
        assert_eq!(env.huge_pages(HugePages::NoSwitch), HugePageRequest::NoSwitch);
        // numapilot's own requests them unless the user forbids it.
        let own = crate::allocators::known("numapilot").unwrap().huge_pages;
        assert_eq!(environment(&[]).huge_pages(own), HugePageRequest::Made);
        let mut env = environment(&[("NUMAPILOT_ALLOC_THP", "0")]);
        assert_eq!(env.huge_pages(own), HugePageRequest::UpTo("NUMAPILOT_ALLOC_THP"));
    }
}

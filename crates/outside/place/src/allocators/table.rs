//! The known allocators: file names, Debian package, and the environment that makes each of them
//! use transparent huge pages.
//!
//! Sources: the projects' own documentation, and `AnonHugePages` of a program that fills 256 MiB on
//! a machine set to `madvise` (Debian 12). jemalloc(3), option `thp`: works. mimalloc's README,
//! `MIMALLOC_ALLOW_LARGE_OS_PAGES`, before version 2.1 `MIMALLOC_LARGE_OS_PAGES`: works. oneTBB,
//! `TBB_MALLOC_USE_HUGE_PAGES`: uses pages of the preallocated pool or a machine set to `always`,
//! so it is not a switch for `madvise`. gperftools, `TCMALLOC_MEMFS_MALLOC_PATH`: a hugetlbfs
//! mount, so it is not one either. numapilot: works without a variable. File names are those of the upstream builds and of Debian 12.

use numapilot_bind::env::ALLOC_THP;

/// A known allocator.
#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    /// Its name for `--allocator`.
    pub name: &'static str,
    /// File names, in order of preference.
    pub files: &'static [&'static str],
    /// Debian and Ubuntu package, or `None` if it must be built from source.
    pub package: Option<&'static str>,
    /// The address of its source.
    pub source: &'static str,
    /// How to make it use transparent huge pages.
    pub huge_pages: HugePages,
}

/// How to make an allocator request transparent huge pages (`madvise`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// It has no such switch, so it gets them only on a machine set to `always`.
    NoSwitch,
    /// Its own environment variables (one for each generation of it) are set to this value, unless
    /// the user has set one of them.
    Variables(&'static [&'static str], &'static str),
    /// An entry `key<sep>value` is added to a list in a variable that the user may also set.
    Entry {
        /// The variable.
        variable: &'static str,
        /// The separator of entries.
        separator: char,
        /// The key, with the character that ends it.
        key: &'static str,
        /// The value.
        value: &'static str,
    },
}

/// The name of the C library's own malloc.
pub const GLIBC: &str = "glibc";
/// The C library, by the name under which every program loads it.
pub(crate) const C_LIBRARY: &str = "libc.so.6";

/// The tunable with which glibc's malloc requests huge pages, since glibc 2.35.
pub const GLIBC_HUGE_PAGES: HugePages = HugePages::Entry {
    variable: "GLIBC_TUNABLES",
    separator: ':',
    key: "glibc.malloc.hugetlb=",
    value: "1",
};

/// All allocators that are found by name, in the order in which they are listed to the user.
pub const KNOWN: &[Known] = &[
    Known {
        name: "jemalloc",
        files: &["libjemalloc.so.2", "libjemalloc.so", "libjemalloc.so.1"],
        package: Some("libjemalloc2"),
        source: "https://github.com/jemalloc/jemalloc",
        huge_pages: HugePages::Entry {
            variable: "MALLOC_CONF",
            separator: ',',
            key: "thp:",
            value: "always",
        },
    },
    Known {
        name: "tcmalloc",
        files: &[
            "libtcmalloc.so.4",
            "libtcmalloc.so",
            "libtcmalloc_minimal.so.4",
            "libtcmalloc_minimal.so",
        ],
        package: Some("libtcmalloc-minimal4"),
        source: "https://github.com/gperftools/gperftools",
        huge_pages: HugePages::NoSwitch,
    },
    Known {
        name: "tcmalloc-minimal",
        files: &["libtcmalloc_minimal.so.4", "libtcmalloc_minimal.so"],
        package: Some("libtcmalloc-minimal4"),
        source: "https://github.com/gperftools/gperftools",
        huge_pages: HugePages::NoSwitch,
    },
    Known {
        name: "mimalloc",
        files: &["libmimalloc.so.3", "libmimalloc.so.2", "libmimalloc.so"],
        package: Some("libmimalloc2.0"),
        source: "https://github.com/microsoft/mimalloc",
        huge_pages: HugePages::Variables(
            &["MIMALLOC_ALLOW_LARGE_OS_PAGES", "MIMALLOC_LARGE_OS_PAGES"],
            "1",
        ),
    },
    Known {
        name: "tbbmalloc",
        files: &["libtbbmalloc_proxy.so.2", "libtbbmalloc_proxy.so"],
        package: Some("libtbbmalloc2"),
        source: "https://github.com/uxlfoundation/oneTBB",
        huge_pages: HugePages::NoSwitch,
    },
    Known {
        name: "hoard",
        files: &["libhoard.so"],
        package: None,
        source: "https://github.com/emeryberger/Hoard",
        huge_pages: HugePages::NoSwitch,
    },
    Known {
        name: "snmalloc",
        files: &["libsnmallocshim.so", "libsnmalloc.so"],
        package: None,
        source: "https://github.com/microsoft/snmalloc",
        huge_pages: HugePages::NoSwitch,
    },
    Known {
        name: "rpmalloc",
        files: &["librpmallocwrap.so", "librpmalloc.so"],
        package: None,
        source: "https://github.com/mjansson/rpmalloc",
        huge_pages: HugePages::NoSwitch,
    },
    Known {
        name: "supermalloc",
        files: &["libsupermalloc.so", "libsupermalloc_pthread.so"],
        package: None,
        source: "https://github.com/kuszmaul/SuperMalloc",
        huge_pages: HugePages::NoSwitch,
    },
    Known {
        name: "scalloc",
        files: &["libscalloc.so"],
        package: None,
        source: "https://github.com/cksystemsgroup/scalloc",
        huge_pages: HugePages::NoSwitch,
    },
    Known {
        name: "numapilot",
        files: &["libnumapilot_alloc.so"],
        package: None,
        source: "this project",
        // It is on by default. The user's own value is found by this.
        huge_pages: HugePages::Variables(&[ALLOC_THP], "1"),
    },
];

/// The allocator with this name, ignoring case.
#[must_use]
pub fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|k| k.name.eq_ignore_ascii_case(name))
}

//! The descriptions built into the binary: the machines of the papers and three current ones.

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        /// Name and text of every description in `machines/`, in alphabetical order.
        pub const SHIPPED: &[(&str, &str)] = &[$((
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../machines/", $name, ".toml")),
        )),*];
    };
}

shipped!(
    "cxl",
    "epyc-9004-nps4",
    "i9-7900x",
    "machine-a",
    "machine-b",
    "machine-c",
    "opteron-8385",
    "opteron-8387",
    "threadripper-1950x",
    "xeon-8153",
    "xeon-e7-4870",
    "xeon-snc",
);

/// The names of the shipped machines, for a message or a help text.
#[must_use]
pub fn shipped_names() -> String {
    SHIPPED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

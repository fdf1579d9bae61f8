//! The machine code of a library, as `objdump` of the GNU binutils shows it.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::process::Command;

/// The output of `objdump` for a library.
pub fn objdump(options: &[&str], library: &Path) -> String {
    let output = Command::new("objdump").args(options).arg(library).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "objdump {options:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Instructions of a library by offset, in AT&T syntax.
pub fn disassembled(library: &Path) -> BTreeMap<u64, String> {
    objdump(&["-d", "-w", "--no-show-raw-insn", "-M", "att"], library)
        .lines()
        .filter_map(|line| line.trim_start().split_once(":\t"))
        .filter_map(|(offset, text)| Some((u64::from_str_radix(offset, 16).ok()?, text.to_owned())))
        .collect()
}

/// A line of the disassembly.
#[derive(Clone, Copy)]
pub struct Instruction<'a>(pub &'a str);

impl<'a> Instruction<'a> {
    /// Name and operands, without prefixes.
    fn parts(&self) -> (&'a str, &'a str) {
        const PREFIXES: [&str; 8] =
            ["bnd", "notrack", "data16", "rex.W", "lock", "rep", "repz", "addr32"];
        let mut rest = self.0;
        loop {
            let (name, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            if !PREFIXES.contains(&name) {
                return (name, operands.trim());
            }
            rest = operands.trim_start();
        }
    }

    pub fn name(&self) -> &'a str {
        self.parts().0
    }

    fn is_branch(&self) -> bool {
        self.name().starts_with('j') || self.name() == "call"
    }

    /// Whether it is a call or jump through a pointer.
    pub fn is_indirect(&self) -> bool {
        self.is_branch() && self.parts().1.starts_with('*')
    }

    /// The target of a call or jump that contains it.
    pub fn branches_to(&self) -> Option<u64> {
        let (_, operands) = self.parts();
        let target = operands.split_whitespace().next()?;
        self.is_branch().then(|| u64::from_str_radix(target, 16).ok())?
    }

    /// The address of an operand relative to the instruction, which is in a comment.
    pub fn refers_to(&self) -> Option<u64> {
        let (_, comment) = self.0.split_once("# ").filter(|(code, _)| code.contains("(%rip)"))?;
        u64::from_str_radix(comment.split_whitespace().next()?, 16).ok()
    }

    /// The register that contains the target of a call or jump, as in `call *%r12`.
    pub fn pointer_register(&self) -> Option<&'a str> {
        self.parts().1.strip_prefix("*%")
    }

    /// Whether a register may have another value afterwards. A call may change all registers that
    /// the called function need not preserve.
    pub fn may_change(&self, register: &str) -> bool {
        const KEPT: [&str; 6] = ["rbx", "rbp", "r12", "r13", "r14", "r15"];
        let (name, operands) = self.parts();
        let changed = match name {
            "call" => return !KEPT.contains(&register),
            "cmp" | "test" | "push" => return false,
            "xchg" | "xadd" => operands,
            // The destination is the last operand.
            _ => operands
                .split('#')
                .next()
                .unwrap_or_default()
                .trim_end()
                .rsplit([',', ')'])
                .next()
                .unwrap_or_default(),
        };
        // Also its lower parts: `%eax`, `%r12d`, `%bl`.
        let stem = register.trim_start_matches('r').trim_end_matches('x');
        changed.split('%').skip(1).any(|changed| changed.contains(stem))
    }

    /// Whether it loads one of a table of 32-bit distances, as switches do before they jump.
    pub fn reads_a_table(&self) -> bool {
        let (name, operands) = self.parts();
        name == "movslq" && operands.contains(",4)")
    }
}

/// The compiler that built the library, which determines its code. A table is valid for one
/// compiler, `rustc_1.95.0`.
fn compiler() -> String {
    let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
    let output = Command::new(rustc).arg("--version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().take(2).collect::<Vec<_>>().join("_")
}

/// The name of the table for this compiler. Prints a message and returns `None` if there is none.
pub fn name_of_table(module: &str, what: &str) -> Option<String> {
    let name = format!("{what}_by_{}", compiler());
    let known = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("tests/preload/snapshots/preload__{module}__{name}.snap"));
    if !known.exists() && env::var_os("INSTA_UPDATE").is_none() {
        println!("skipped: no table {name}; INSTA_UPDATE=always cargo test makes one");
        return None;
    }
    Some(name)
}

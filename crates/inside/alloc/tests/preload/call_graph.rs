//! The functions that a function of a shared library may call, read from its machine code on
//! x86-64.
//!
//! The graph contains too much rather than too little: taking the address of a function counts as
//! calling it, and so does taking the address of data that holds one. A call through a pointer that
//! only the running program knows is reported as [`Node::Indirect`] of the calling function.
//!
//! Source: System V Application Binary Interface, AMD64 Architecture Processor Supplement, sections
//! 4.4 (relocations) and 5.2 (global offset and procedure linkage tables).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::path::Path;

use crate::disassembly::{Instruction, disassembled, objdump};
use crate::symbols::{Pointer, Symbol, functions, pointers, sections};

/// Something that can be reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// A function of the library, by its start.
    Function(u64),
    /// Data of the library that may hold addresses, by its start.
    Data(u64),
    /// A symbol of another library.
    Import(String),
    /// A call through a pointer, by the function that makes it.
    Indirect(u64),
}

/// The nodes that were reached, each with the node that led there; the roots have none.
pub type Reached = BTreeMap<Node, Option<Node>>;

pub struct CallGraph {
    code: BTreeMap<u64, String>,
    /// Ends and names of functions by their start.
    functions: BTreeMap<u64, (u64, String)>,
    /// Ends of named data by their start.
    data: BTreeMap<u64, u64>,
    exports: BTreeMap<String, u64>,
    /// The global offset table: only the dynamic linker writes there.
    tables: Vec<Range<u64>>,
    /// The values that the dynamic linker writes, by address.
    pointers: BTreeMap<u64, Pointer>,
    /// Addresses at which data may begin: section starts, and addresses that something refers to.
    /// Data without a name extends from one to the next.
    beginnings: BTreeSet<u64>,
}

impl CallGraph {
    /// Reads a library; returns the reason if it cannot be read.
    pub fn read(library: &Path) -> Result<Self, String> {
        let code = disassembled(library);
        let table = objdump(&["-t", "-C", "-w"], library);
        let symbols: Vec<Symbol> = table
            .lines()
            .filter_map(Symbol::read)
            .filter(|symbol| !matches!(symbol.section, "*UND*" | "*ABS*"))
            .collect();
        if !symbols.iter().any(Symbol::is_function) {
            return Err(format!("{} has no symbol table: it is stripped", library.display()));
        }
        let sections = sections(library);
        let mut graph = Self {
            functions: functions(&symbols, &sections, &code),
            tables: [".got", ".got.plt"].iter().filter_map(|n| sections.get(*n).cloned()).collect(),
            data: symbols
                .iter()
                .filter(|symbol| symbol.flags.ends_with('O') && symbol.bytes > 0)
                .map(|symbol| (symbol.start, symbol.start + symbol.bytes))
                .collect(),
            exports: symbols
                .iter()
                .filter(|symbol| symbol.is_function() && symbol.is_exported())
                .map(|symbol| (symbol.plain_name(), symbol.start))
                .collect(),
            pointers: pointers(library),
            beginnings: BTreeSet::new(),
            code,
        };
        let by_code = graph.code.values().filter_map(|text| Instruction(text).refers_to());
        let by_data = graph.pointers.values().filter_map(|pointer| match pointer {
            Pointer::Address(address) => Some(*address),
            Pointer::Symbol(_) => None,
        });
        let named = graph.data.keys().copied();
        let of_sections = sections.values().map(|section| section.start);
        graph.beginnings = by_code.chain(by_data).chain(named).chain(of_sections).collect();
        Ok(graph)
    }

    /// Functions that other libraries may call, by name.
    pub fn exports(&self) -> impl Iterator<Item = (&str, Node)> {
        self.exports.iter().map(|(name, start)| (name.as_str(), Node::Function(*start)))
    }

    /// Functions whose names satisfy a condition, exported or not.
    pub fn functions(&self, is_wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = Node> {
        let all = self.functions.iter();
        all.filter(move |(_, (_, name))| is_wanted(name)).map(|(start, _)| Node::Function(*start))
    }

    /// All nodes that these may call, directly or not.
    pub fn reachable(&self, roots: impl IntoIterator<Item = Node>) -> Reached {
        let mut reached = Reached::new();
        let mut next: VecDeque<Node> = roots.into_iter().collect();
        reached.extend(next.iter().map(|root| (root.clone(), None)));
        while let Some(node) = next.pop_front() {
            for successor in self.successors(&node) {
                if !reached.contains_key(&successor) {
                    reached.insert(successor.clone(), Some(node.clone()));
                    next.push_back(successor);
                }
            }
        }
        reached
    }

    /// How a node was reached, by the shortest path: `malloc -> ... -> pthread_create`.
    pub fn chain(&self, reached: &Reached, node: &Node) -> String {
        let mut names = Vec::new();
        let mut at = Some(node);
        while let Some(node) = at {
            // Data is part of the path, but calls nothing.
            if !matches!(node, Node::Data(_)) {
                names.push(self.name(node));
            }
            at = reached.get(node).and_then(Option::as_ref);
        }
        names.reverse();
        names.join(" -> ")
    }

    pub fn name(&self, node: &Node) -> String {
        let function = |start: &u64| match self.functions.get(start) {
            Some((_, name)) => name.clone(),
            None => format!("code at {start:#x}"),
        };
        match node {
            Node::Function(start) => function(start),
            Node::Data(start) => format!("data at {start:#x}"),
            Node::Import(name) => name.clone(),
            Node::Indirect(start) => format!("indirect: {}", function(start)),
        }
    }

    /// Whether a node is a function that reads or writes thread-local storage itself. The thread
    /// pointer (`%fs:0x0`) does not count: it only distinguishes threads.
    pub fn touches_thread_locals(&self, node: &Node) -> bool {
        let Node::Function(start) = node else { return false };
        self.body(*start).any(|instruction| {
            let text = &instruction.0;
            text.match_indices("%fs:").any(|(at, _)| !is_thread_pointer(&text[at..]))
        })
    }

    fn successors(&self, node: &Node) -> BTreeSet<Node> {
        match node {
            Node::Function(start) => self.calls(*start),
            Node::Data(start) => self.pointees(*start),
            Node::Import(_) | Node::Indirect(_) => BTreeSet::new(),
        }
    }

    /// The instructions of a function. Code without a symbol, such as that of the procedure linkage
    /// table, ends with the first instruction that does not lead to the next.
    fn body(&self, start: u64) -> impl Iterator<Item = Instruction<'_>> {
        let end = self.functions.get(&start).map(|(end, _)| *end);
        let mut leaves = false;
        let code = self.code.range(start..end.unwrap_or(u64::MAX));
        code.map(|(_, text)| Instruction(text)).take_while(move |instruction| {
            let goes_on = !leaves;
            leaves = end.is_none() && matches!(instruction.name(), "jmp" | "ret" | "ud2" | "hlt");
            goes_on
        })
    }

    fn calls(&self, start: u64) -> BTreeSet<Node> {
        let body: Vec<Instruction> = self.body(start).collect();
        let mut calls = BTreeSet::new();
        for (index, instruction) in body.iter().enumerate() {
            if let Some(target) = instruction.branches_to() {
                calls.insert(self.owner(target));
            } else if let Some(address) = instruction.refers_to() {
                match self.final_pointer(address) {
                    Some(pointer) => calls.insert(self.pointee(pointer)),
                    None => calls.insert(self.owner(address)),
                };
            }
            if instruction.is_indirect() && !self.is_known(&body[..=index]) {
                calls.insert(Node::Indirect(start));
            }
        }
        calls
    }

    /// Whether the target of the last of these instructions is known. It is a call or jump through
    /// a pointer. The address from which the pointer was read already counts as called.
    fn is_known(&self, code: &[Instruction]) -> bool {
        let Some((last, before)) = code.split_last() else { return false };
        if let Some(address) = last.refers_to() {
            return self.final_pointer(address).is_some();
        }
        // A switch continues in the same function.
        const SWITCH: usize = 6;
        if last.name() != "call" && before.iter().rev().take(SWITCH).any(Instruction::reads_a_table)
        {
            return true;
        }
        // A compiler reads an address once even if it needs it several times. The instructions in
        // front of the call are assumed to execute before it.
        let Some(register) = last.pointer_register() else { return false };
        let source = before.iter().rev().find(|instruction| instruction.may_change(register));
        let address =
            source.filter(|source| source.name() == "mov").and_then(Instruction::refers_to);
        address.is_some_and(|address| self.final_pointer(address).is_some())
    }

    /// The value that the dynamic linker wrote there, if nothing else may write there.
    fn final_pointer(&self, address: u64) -> Option<&Pointer> {
        let is_final = self.tables.iter().any(|table| table.contains(&address));
        self.pointers.get(&address).filter(|_| is_final)
    }

    /// The node that contains an address.
    fn owner(&self, address: u64) -> Node {
        if let Some((start, (end, _))) = self.functions.range(..=address).next_back()
            && address < *end
        {
            return Node::Function(*start);
        }
        if self.code.contains_key(&address) {
            return Node::Function(address);
        }
        match self.data.range(..=address).next_back() {
            Some((start, end)) if address < *end => Node::Data(*start),
            _ => Node::Data(address),
        }
    }

    fn pointee(&self, pointer: &Pointer) -> Node {
        match pointer {
            Pointer::Address(address) => self.owner(*address),
            Pointer::Symbol(name) => match self.exports.get(name) {
                Some(start) => Node::Function(*start),
                None => Node::Import(name.clone()),
            },
        }
    }

    fn pointees(&self, start: u64) -> BTreeSet<Node> {
        let next = || self.beginnings.range(start + 1..).next().copied();
        let end = self.data.get(&start).copied().or_else(next).unwrap_or(u64::MAX);
        self.pointers.range(start..end).map(|(_, pointer)| self.pointee(pointer)).collect()
    }
}

/// Whether an operand that begins with the segment of thread-local storage is its first word, which
/// holds the thread pointer.
fn is_thread_pointer(operand: &str) -> bool {
    operand.strip_prefix("%fs:0x0").is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// The graph of a small library contains exactly its calls.
#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{CallGraph, Node, is_thread_pointer};
    use crate::harness::{Subject, installed};

    #[test]
    fn thread_pointers_are_distinguished_from_other_words() {
        assert!(is_thread_pointer("%fs:0x0,%rax") && is_thread_pointer("%fs:0x0"));
        assert!(!is_thread_pointer("%fs:0x10,%rax") && !is_thread_pointer("%fs:0x028"));
        assert!(!is_thread_pointer("%fs:(%rax)"));
    }

    fn function(graph: &CallGraph, name: &str) -> Node {
        graph.functions(|other| other == name).next().unwrap()
    }

    /// Names that a function reaches outside the library or through pointers.
    fn left_for(graph: &CallGraph, name: &str) -> Vec<String> {
        let reached = graph.reachable([function(graph, name)]);
        let left = reached.keys().filter(|n| matches!(n, Node::Import(_) | Node::Indirect(_)));
        left.map(|node| graph.name(node)).collect()
    }

    #[test]
    fn finds_calls_of_every_kind() {
        if !cfg!(target_arch = "x86_64") {
            println!("skipped: call graphs are for x86-64 only");
            return;
        }
        if !installed("objdump") {
            return;
        }
        let library = Subject { name: "graph", ..Subject::preloaded() }.compile("call_graph.c");
        let graph = CallGraph::read(&library).unwrap();
        let left = |function| left_for(&graph, function);
        for function in ["directly", "through_others", "by_address", "at_the_end"] {
            assert_eq!(left(function), ["pthread_create"], "{function}");
        }
        for function in ["through_a_table", "through_a_pointer"] {
            let indirect = format!("indirect: {function}");
            assert_eq!(left(function), ["pthread_create".to_owned(), indirect], "{function}");
        }
        assert_eq!(left("through_an_argument"), ["indirect: through_an_argument"]);
        for function in ["not_at_all", "by_cases", "counts"] {
            assert!(left(function).is_empty(), "{function}: {:?}", left(function));
        }

        let reached = graph.reachable([function(&graph, "through_others")]);
        let chain = graph.chain(&reached, &Node::Import("pthread_create".to_owned()));
        assert!(chain.starts_with("through_others -> between -> creates -> "), "{chain}");
        assert!(chain.ends_with(" -> pthread_create"), "{chain}");

        assert!(graph.touches_thread_locals(&function(&graph, "counts")));
        assert!(!graph.touches_thread_locals(&function(&graph, "not_at_all")));
        assert!(graph.exports().any(|(name, _)| name == "directly"));
        assert!(!graph.exports().any(|(name, _)| name == "creates"));
    }

    #[test]
    fn says_when_there_are_no_symbols() {
        if !cfg!(target_arch = "x86_64") || !installed("objdump") || !installed("strip") {
            return;
        }
        let library = Subject { name: "graph", ..Subject::preloaded() }.compile("call_graph.c");
        let stripped = library.with_extension("stripped");
        let mut strip = Command::new("strip");
        assert!(strip.arg("-o").arg(&stripped).arg(library).status().unwrap().success());
        assert!(CallGraph::read(&stripped).is_err_and(|reason| reason.contains("stripped")));
    }
}

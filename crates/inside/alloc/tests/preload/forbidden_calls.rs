//! The calls that the allocation functions may make into other libraries: none may take a lock that
//! the C library may hold while it calls them. The C library frees memory under the locks of its
//! cache of stacks, its loader, its streams, its environment, and its lists of handlers.
//!
//! The calls are read from the machine code of the optimised library.

use std::fmt::Write;

use crate::call_graph::{CallGraph, Node, Reached};
use crate::disassembly::name_of_table;
use crate::harness::{Subject, installed};

/// The allocation functions of C, the best known first.
const OF_C: [&str; 13] = [
    "malloc",
    "free",
    "calloc",
    "realloc",
    "reallocarray",
    "free_sized",
    "free_aligned_sized",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "valloc",
    "pvalloc",
    "malloc_usable_size",
];

/// Functions that some C libraries have dropped; checked where they are exported.
const OF_C_ONCE: [&str; 1] = ["cfree"];

/// Whether it is an allocation function of C++.
fn is_operator(name: &str) -> bool {
    name.starts_with("operator new") || name.starts_with("operator delete")
}

/// Functions with these prefixes take a lock of the C library or allocate from it, whoever calls
/// them.
const FORBIDDEN: [&str; 43] = [
    "__cxa_atexit",
    "__cxa_finalize",
    "__cxa_thread_atexit",
    "__register_atfork",
    "__tls_get_addr",
    "abort",
    "aligned_alloc",
    "at_quick_exit",
    "atexit",
    "calloc",
    "dl_iterate_phdr",
    "dladdr",
    "dlclose",
    "dlopen",
    "dlsym",
    "dprintf",
    "exit",
    "fclose",
    "fflush",
    "fopen",
    "fprintf",
    "fputs",
    "free",
    "fwrite",
    "getenv",
    "malloc",
    "memalign",
    "on_exit",
    "perror",
    "posix_memalign",
    "printf",
    "pthread_atfork",
    "pthread_attr_",
    "pthread_create",
    "pthread_key_",
    "pthread_sigmask",
    "putenv",
    "puts",
    "realloc",
    "secure_getenv",
    "setenv",
    "snprintf",
    "vfprintf",
];

/// Functions that the allocation functions may reach, and the reason.
const ALLOWED: [(&str, &str); 13] = [
    ("__errno_location", "returns the address of errno"),
    ("__gxx_personality_v0", "named by the tables of operator new, for the unwinder to call"),
    ("bcmp", "compares memory"),
    ("clock_gettime", "calls the kernel, or reads the page that it shares"),
    ("environ", "read once: when the library is loaded, or at an earlier allocation"),
    ("getauxval", "reads what the kernel gave the program when it started"),
    ("memcpy", "copies memory"),
    ("memmove", "copies memory"),
    ("memset", "fills memory"),
    ("numapilot_bind_cpus", BINDS),
    (
        "pthread_setspecific",
        "sets a word of the thread; may allocate its table from us, once the cache exists",
    ),
    ("sched_getcpu", "calls the kernel, or reads the words that it shares"),
    ("strlen", "reads memory"),
];

/// Functions that C++'s operators may reach in addition: the program's handler, and its exceptions,
/// when there is no memory. malloc has neither.
const ALLOWED_FOR_OPERATORS: [(&str, &str); 4] = [
    ("__cxa_begin_catch", "used by operator new (std::nothrow) when the handler throws"),
    ("__cxa_end_catch", "used by operator new (std::nothrow) when the handler throws"),
    ("std::__throw_bad_alloc()", "used by operator new when there is no memory"),
    ("std::get_new_handler()", "used by operator new when there is no memory"),
];

/// Calls through pointers, and the functions that they may call.
const POINTERS: [(&str, &str); 16] = [
    ("<core::fmt::Formatter>::pad", FORMATS),
    ("<core::fmt::Formatter>::pad_integral", FORMATS),
    ("<core::fmt::Formatter>::pad_integral::write_prefix", FORMATS),
    ("<numapilot_alloc::os::output::Output as core::fmt::Write>::write_str", WRITES),
    (
        "<numapilot_alloc::os::output::Output as numapilot_alloc::telemetry::profile::encode::Write>::put",
        WRITES,
    ),
    ("core::fmt::write", FORMATS),
    ("numapilot_alloc::api::allocate_large", HANDLES),
    ("numapilot_alloc::api::refill", HANDLES),
    ("numapilot_alloc::os::bare_thread::begin", BEGINS),
    ("numapilot_alloc::os::bare_thread::clone", BEGINS),
    ("numapilot_alloc::telemetry::profile::note", UNWINDS),
    ("numapilot_alloc::telemetry::profile::stack::visit", UNWINDS),
    ("numapilot_alloc::telemetry::profile::write_to", WRITES),
    ("numapilot_alloc::telemetry::usage::Usage::count", WRITES),
    ("numapilot_alloc::telemetry::usage::Usage::write", WRITES),
    ("numapilot_alloc_call", HANDLES),
];

const FORMATS: &str = "a function that formats a part of a message: its address counts as a call";
const WRITES: &str = "a function that the caller passes: its address counts as a call";
const HANDLES: &str = "the program's new-handler, when there is no memory";
const BINDS: &str = "a function of libnumapilot_bind, which calls nothing";
const BEGINS: &str = "the first function of a thread of the library";
const UNWINDS: &str = "the unwinder, when the user requests a heap profile";

fn reason<'a>(table: &[(&str, &'a str)], name: &str) -> Option<&'a str> {
    table.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason)
}

/// The call graph of the optimised library; prints a message if there is none.
fn graph() -> Option<CallGraph> {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: call graphs are for x86-64 only");
        return None;
    }
    if !installed("objdump") {
        return None;
    }
    let graph = CallGraph::read(&Subject::optimised().preload.unwrap());
    graph.inspect_err(|reason| println!("skipped: {reason}")).ok()
}

/// The functions reachable from the allocation functions of C, and from those of C++.
fn reached(graph: &CallGraph) -> [Reached; 2] {
    let exported = |name: &str| graph.exports().find(|(other, _)| *other == name);
    let of_c: Vec<Node> = OF_C
        .iter()
        .map(|name| exported(name).unwrap_or_else(|| panic!("{name} is not exported")))
        .chain(OF_C_ONCE.iter().filter_map(|name| exported(name)))
        .map(|(_, root)| root)
        .collect();
    let operators = graph.exports().filter(|(name, _)| is_operator(name));
    let of_operators: Vec<Node> = operators.map(|(_, root)| root).collect();
    assert!(of_operators.len() >= 8, "only {} C++ operators", of_operators.len());
    [of_c, of_operators].map(|roots| graph.reachable(roots))
}

#[test]
fn the_c_library_is_entered_only_where_it_takes_no_lock() {
    let Some(graph) = graph() else { return };
    let mut complaints = String::new();
    let [of_c, of_operators] = reached(&graph);
    for (reached, more) in [(&of_c, &[][..]), (&of_operators, &ALLOWED_FOR_OPERATORS[..])] {
        for node in reached.keys() {
            let Node::Import(name) = node else { continue };
            let complaint = if FORBIDDEN.iter().any(|forbidden| name.starts_with(forbidden)) {
                "is forbidden"
            } else if reason(&ALLOWED, name).or(reason(more, name)).is_none() {
                "has no reason in the tables of allowed functions"
            } else {
                continue;
            };
            writeln!(complaints, "{name} {complaint}: {}", graph.chain(reached, node)).unwrap();
        }
    }
    assert!(complaints.is_empty(), "allocation functions reach what they may not:\n{complaints}");
}

/// A new call fails this test, through a pointer or not.
#[test]
fn the_calls_are_those_of_the_table() {
    let Some(graph) = graph() else { return };
    let Some(name) = name_of_table("forbidden_calls", "calls") else { return };
    let mut nodes = Reached::new();
    nodes.extend(reached(&graph).into_iter().flatten());
    let mut calls: Vec<String> = nodes
        .keys()
        .filter_map(|node| {
            let name = graph.name(node);
            let reason = match node {
                Node::Import(_) => {
                    reason(&ALLOWED, &name).or(reason(&ALLOWED_FOR_OPERATORS, &name))
                }
                Node::Indirect(_) => reason(&POINTERS, name.strip_prefix("indirect: ")?),
                Node::Function(_) | Node::Data(_) => return None,
            };
            let chain = || format!("NOT ALLOWED: {}", graph.chain(&nodes, node));
            Some(format!("{name}: {}", reason.map_or_else(chain, str::to_owned)))
        })
        .collect();
    calls.sort();
    calls.dedup();
    insta::assert_snapshot!(name, calls.join("\n"));
}

/// Functions that threads of the library may reach in other libraries, and the reason. The C
/// library does not know these threads, and they have no thread-local storage of their own.
const ALLOWED_FOR_THREADS: [(&str, &str); 10] = [
    ("__gxx_personality_v0", "named by the unwind tables of the code that formats messages"),
    ("bcmp", "compares memory"),
    ("environ", "not read again: it was read when the library was loaded"),
    ("clock_gettime", "sets errno only if the clock is missing, which it is not"),
    ("getauxval", "sets errno only if the entry is missing, which it is not"),
    ("memcpy", "copies memory"),
    ("memmove", "copies memory"),
    ("memset", "fills memory"),
    ("numapilot_bind_cpus", BINDS),
    ("strlen", "reads memory"),
];

/// The first functions of threads of the library: `run` of the modules for threads, and those that
/// write statistics.
fn is_entry(name: &str) -> bool {
    let path = name.strip_prefix("numapilot_alloc::").and_then(|path| path.rsplit_once("::"));
    path.is_some_and(|(module, function)| match function {
        "run" | "begin" => module.ends_with("thread"),
        "answer_all" => module == "telemetry::statistics",
        _ => false,
    })
}

#[test]
fn threads_of_the_library_use_no_thread_local_storage() {
    let Some(graph) = graph() else { return };
    let entries: Vec<Node> = graph.functions(is_entry).collect();
    assert!(!entries.is_empty(), "no thread begins with a function of a name that is known here");
    let reached = graph.reachable(entries);
    let mut complaints = String::new();
    for node in reached.keys() {
        let complaint = match node {
            Node::Import(name) if reason(&ALLOWED_FOR_THREADS, name).is_none() => {
                "has no reason in the table for threads"
            }
            node if graph.touches_thread_locals(node) => "uses thread-local storage",
            _ => continue,
        };
        let name = graph.name(node);
        writeln!(complaints, "{name} {complaint}: {}", graph.chain(&reached, node)).unwrap();
    }
    assert!(complaints.is_empty(), "threads of the library reach too much:\n{complaints}");
}

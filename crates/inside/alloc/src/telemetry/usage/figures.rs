//! The figures by name: once for JSON, where they are keys, and for Prometheus, where they
//! are metrics `numapilot_alloc_NAME`.

use super::{ClassUsage, NodeUsage};

/// A figure of a node.
pub struct NodeFigure {
    /// Its name, which ends with the unit.
    pub name: &'static str,
    /// Its meaning.
    pub help: &'static str,
    /// Its value.
    pub of: fn(&NodeUsage) -> usize,
}

/// A figure of a class.
pub struct ClassFigure {
    /// Its name; in objects unless it says otherwise.
    pub name: &'static str,
    /// Its meaning.
    pub help: &'static str,
    /// Its value.
    pub of: fn(&ClassUsage) -> usize,
}

/// The figures of each node.
pub const NODE: [NodeFigure; 12] = [
    NodeFigure {
        name: "in_use_bytes",
        help: "Memory that the program holds.",
        of: NodeUsage::in_use_bytes,
    },
    NodeFigure {
        name: "small_bytes",
        help: "Memory that the program holds in objects of up to 32 KiB.",
        of: NodeUsage::small_bytes,
    },
    NodeFigure {
        name: "large_bytes",
        help: "Memory that the program holds in larger blocks.",
        of: |node| node.large_bytes,
    },
    NodeFigure {
        name: "large_blocks",
        help: "Blocks of more than 32 KiB.",
        of: |node| node.large_blocks,
    },
    NodeFigure {
        name: "cached_bytes",
        help: "Free memory between objects in use, or held ready for the next ones.",
        of: NodeUsage::cached_bytes,
    },
    NodeFigure {
        name: "free_bytes",
        help: "Free pages with contents, soon to be given back.",
        of: |node| node.free_bytes,
    },
    NodeFigure {
        name: "returned_bytes",
        help: "Free pages that were given back to the kernel, or never touched.",
        of: |node| node.returned_bytes,
    },
    NodeFigure {
        name: "reached_bytes",
        help: "Address space ever handed out.",
        of: |node| node.reached_bytes,
    },
    NodeFigure {
        name: "accessible_bytes",
        help: "Address space made accessible.",
        of: |node| node.accessible_bytes,
    },
    NodeFigure {
        name: "overhead_bytes",
        help: "The allocator's own magazines and heaps of threads.",
        of: |node| node.overhead_bytes,
    },
    NodeFigure {
        name: "empty_magazines",
        help: "Magazines without objects that nobody holds.",
        of: |node| node.empty_magazines,
    },
    NodeFigure { name: "threads", help: "Threads that allocate here.", of: |node| node.threads },
];

/// The figures of each class on each node.
pub const CLASS: [ClassFigure; 6] = [
    ClassFigure {
        name: "spans",
        help: "Runs of pages that hold objects of the class.",
        of: |class| class.spans,
    },
    ClassFigure {
        name: "capacity",
        help: "Objects that have room in them.",
        of: |class| class.capacity,
    },
    ClassFigure { name: "in_use", help: "Objects that the program holds.", of: ClassUsage::in_use },
    ClassFigure {
        name: "in_spans",
        help: "Free objects in their spans.",
        of: |class| class.in_spans,
    },
    ClassFigure {
        name: "in_depots",
        help: "Free objects in magazines that no thread holds.",
        of: |class| class.in_depots,
    },
    ClassFigure {
        name: "in_threads",
        help: "Free objects that threads hold ready.",
        of: |class| class.in_threads,
    },
];

//! How the memory is used, by node and by class of objects.
//!
//! Nothing is counted while the program runs. When statistics are requested, the state is walked,
//! so the figures cost nothing until then. If the program continues meanwhile, they are from
//! slightly different moments; if it stands still, they are exact.
//!
//! | file | what |
//! |---|---|
//! | `walk` | counts a node |
//! | `figures` | the names of the figures, for JSON and Prometheus |
//! | `text`, `json`, `prometheus`, `xml` | the output formats |

mod figures;
mod json;
mod prometheus;
mod text;
mod walk;
mod xml;

use core::fmt;
use core::ops::{Add, Deref};
use core::slice;

pub use crate::config::Format;
use crate::global;
use crate::layout::size_class::{CLASSES, TABLE};
use crate::os::kernel::{self, Refused};
use crate::os::output::{Output, Sink};

/// Objects of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassUsage {
    /// Runs of pages that hold them.
    pub spans: usize,
    /// Number of objects for which they have room.
    pub capacity: usize,
    /// Free objects in their spans.
    pub in_spans: usize,
    /// Free objects in magazines that no thread holds.
    pub in_depots: usize,
    /// Free objects that threads hold.
    pub in_threads: usize,
}

impl ClassUsage {
    /// Objects that the program holds.
    pub fn in_use(&self) -> usize {
        self.capacity.saturating_sub(self.in_spans + self.in_depots + self.in_threads)
    }
}

impl Add for ClassUsage {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            spans: self.spans + other.spans,
            capacity: self.capacity + other.capacity,
            in_spans: self.in_spans + other.in_spans,
            in_depots: self.in_depots + other.in_depots,
            in_threads: self.in_threads + other.in_threads,
        }
    }
}

/// The place of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The node with this ID.
    Node(u32),
    /// A node that the kernel does not report.
    Unknown,
    /// All nodes, page by page.
    Interleaved,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(id) => id.fmt(f),
            Self::Unknown => f.pad("unknown"),
            Self::Interleaved => f.pad("interleaved"),
        }
    }
}

/// Memory of one node, or of the region that is interleaved. All memory that was ever handed out,
/// `reached_bytes`, is the sum of [`Self::in_use_bytes`], [`Self::cached_bytes`], `free_bytes` and
/// `returned_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeUsage {
    /// The place of the memory.
    pub place: Place,
    /// Threads with a cache here.
    pub threads: usize,
    /// Runs of pages of small objects.
    pub span_bytes: usize,
    /// Large blocks in use.
    pub large_blocks: usize,
    /// Their bytes, in whole pages.
    pub large_bytes: usize,
    /// Free pages with contents, which take memory.
    pub free_bytes: usize,
    /// Free pages given back to the kernel, or never touched.
    pub returned_bytes: usize,
    /// Address space that was ever handed out.
    pub reached_bytes: usize,
    /// Address space made accessible.
    pub accessible_bytes: usize,
    /// Magazines, caches of threads, and the node's own state.
    pub overhead_bytes: usize,
    /// Empty magazines among them.
    pub empty_magazines: usize,
    /// Small objects by class; class 0 has none.
    pub classes: [ClassUsage; CLASSES],
}

impl NodeUsage {
    /// The state before anything is counted.
    const NONE: Self = Self {
        place: Place::Unknown,
        threads: 0,
        span_bytes: 0,
        large_blocks: 0,
        large_bytes: 0,
        free_bytes: 0,
        returned_bytes: 0,
        reached_bytes: 0,
        accessible_bytes: 0,
        overhead_bytes: 0,
        empty_magazines: 0,
        classes: [ClassUsage { spans: 0, capacity: 0, in_spans: 0, in_depots: 0, in_threads: 0 };
            CLASSES],
    };

    /// Bytes of the small objects that the program holds.
    pub fn small_bytes(&self) -> usize {
        sized(&self.classes).map(|(size, class)| size * class.in_use()).sum()
    }

    /// Bytes that the program holds.
    pub fn in_use_bytes(&self) -> usize {
        self.small_bytes() + self.large_bytes
    }

    /// Bytes of spans that are not in an object in use: free objects, and the rest at the end.
    pub fn cached_bytes(&self) -> usize {
        self.span_bytes.saturating_sub(self.small_bytes())
    }

    /// Small objects that are free.
    pub fn free_objects(&self) -> usize {
        self.classes.iter().map(|class| class.capacity - class.in_use()).sum()
    }
}

/// The classes that have objects, with the size of an object in bytes.
fn sized(classes: &[ClassUsage; CLASSES]) -> impl Iterator<Item = (usize, &ClassUsage)> {
    let sizes = TABLE.iter().map(|info| info.size as usize);
    sizes.zip(classes).filter(|(_, class)| class.spans > 0)
}

/// Memory of all nodes. It is in memory of its own, so that a request changes no figure.
pub struct Usage {
    nodes: *mut NodeUsage,
    count: usize,
}

impl Usage {
    /// Counts everything.
    ///
    /// # Errors
    /// The error number if there is no memory for the result.
    pub fn count() -> Result<Self, i32> {
        let space = global::get().ok_or(libc::ENOMEM)?;
        let count = walk::places(space.nodes());
        let bytes = count * size_of::<NodeUsage>();
        let start = kernel::reserve(bytes).map_err(|Refused(number)| number)?;
        let usage = Self { nodes: start as *mut NodeUsage, count };
        // SAFETY: just reserved; page-aligned, and large enough for all nodes.
        unsafe {
            kernel::commit(start, bytes).map_err(|Refused(number)| number)?;
            for node in 0..count {
                usage.nodes.add(node).write(walk::place(space, node));
            }
        }
        Ok(usage)
    }

    /// The sum over all nodes.
    pub fn sum(&self, figure: impl Fn(&NodeUsage) -> usize) -> usize {
        self.iter().map(figure).sum()
    }

    /// Writes everything.
    ///
    /// # Errors
    /// The first error number of the sink.
    pub fn write(&self, format: Format, sink: Sink<'_>) -> Result<(), i32> {
        let mut output = Output::new(sink);
        let _: fmt::Result = match format {
            Format::Text => text::write(self, &mut output),
            Format::Json => json::write(self, &mut output),
            Format::Prometheus => prometheus::write(self, &mut output),
            Format::Xml => xml::write(self, &mut output),
        };
        output.finish()
    }
}

impl Deref for Usage {
    type Target = [NodeUsage];
    fn deref(&self) -> &[NodeUsage] {
        // SAFETY: all were written by `count`.
        unsafe { slice::from_raw_parts(self.nodes, self.count) }
    }
}

impl Drop for Usage {
    fn drop(&mut self) {
        // SAFETY: mapped by `count` only for this.
        unsafe { kernel::unreserve(self.nodes as usize, self.count * size_of::<NodeUsage>()) };
    }
}

/// Writes the current usage to a descriptor.
///
/// # Errors
/// The error number of the write, or that of missing memory.
pub fn write_to(descriptor: i32, format: Format) -> Result<(), i32> {
    let sink = &mut |text: &[u8]| kernel::write(descriptor, text).map_err(|Refused(number)| number);
    Usage::count()?.write(format, sink)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::ptr::null_mut;
    use std::string::String;
    use std::vec::Vec;

    use super::*;
    use crate::api::{self, Errno};

    fn class(usage: &Usage, size: usize) -> ClassUsage {
        let class = crate::layout::size_class::bin_of(size) / 2;
        usage.iter().fold(ClassUsage::default(), |sum, node| sum + node.classes[class])
    }

    #[test]
    fn what_is_allocated_is_counted_exactly() {
        // Sizes that no other test of this process uses.
        const SIZE: usize = 11_000;
        let before = Usage::count().unwrap();
        let small: Vec<_> = (0..1000).map(|_| api::allocate::<Errno>(SIZE)).collect();
        let large = api::allocate::<Errno>(300 << 20);
        let held = Usage::count().unwrap();
        assert_eq!(class(&held, SIZE).in_use() - class(&before, SIZE).in_use(), 1000);
        assert!(held.sum(|node| node.large_bytes) >= 300 << 20);
        for &object in &small {
            // SAFETY: just allocated, and no longer used.
            unsafe { api::release(object) };
        }
        assert_eq!(class(&Usage::count().unwrap(), SIZE).in_use(), class(&before, SIZE).in_use());
        assert_ne!(large, null_mut());
        // SAFETY: as above.
        unsafe { api::release(large) };
    }

    fn written(format: Format) -> String {
        let mut text = Vec::new();
        let mut sink = |bytes: &[u8]| {
            text.extend_from_slice(bytes);
            Ok(())
        };
        Usage::count().unwrap().write(format, &mut sink).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn tables_fit_a_terminal() {
        let object = api::allocate::<Errno>(100);
        assert!(written(Format::Text).lines().all(|line| line.len() <= 80));
        // SAFETY: just allocated, and no longer used.
        unsafe { api::release(object) };
    }
}

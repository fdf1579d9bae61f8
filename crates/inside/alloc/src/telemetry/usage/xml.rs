//! The document of malloc_info(3), with a node in place of an arena: its free memory by
//! size, what it has from the system, and the sums.

use core::fmt::{self, Write};

use super::{NodeUsage, Usage, sized};
use crate::os::output::Output;

/// Writes the elements that the GNU C library writes, as far as there are values for them.
pub fn write(usage: &Usage, to: &mut Output<'_>) -> fmt::Result {
    writeln!(to, r#"<malloc version="1">"#)?;
    for (number, node) in usage.iter().enumerate() {
        writeln!(to, r#"<heap nr="{number}">"#)?;
        writeln!(to, "<sizes>")?;
        for (size, class) in sized(&node.classes) {
            let count = class.capacity - class.in_use();
            if count > 0 {
                let total = count * size;
                write!(to, r#"  <size from="{size}" to="{size}" "#)?;
                writeln!(to, r#"total="{total}" count="{count}"/>"#)?;
            }
        }
        writeln!(to, "</sizes>")?;
        sums(to, |figure| figure(node))?;
        writeln!(to, "</heap>")?;
    }
    sums(to, |figure| usage.sum(figure))?;
    writeln!(to, "</malloc>")
}

/// The elements that a node and the totals have in common.
fn sums(to: &mut Output<'_>, of: impl Fn(fn(&NodeUsage) -> usize) -> usize) -> fmt::Result {
    let (objects, cached) = (of(NodeUsage::free_objects), of(NodeUsage::cached_bytes));
    let (blocks, large) = (of(|node| node.large_blocks), of(|node| node.large_bytes));
    let (held, reached) = (of(held_bytes), of(|node| node.reached_bytes));
    let accessible = of(|node| node.accessible_bytes);
    writeln!(to, r#"<total type="fast" count="{objects}" size="{cached}"/>"#)?;
    writeln!(to, r#"<total type="rest" count="0" size="{}"/>"#, of(|node| node.free_bytes))?;
    writeln!(to, r#"<total type="mmap" count="{blocks}" size="{large}"/>"#)?;
    writeln!(to, r#"<system type="current" size="{held}"/>"#)?;
    writeln!(to, r#"<system type="max" size="{reached}"/>"#)?;
    writeln!(to, r#"<aspace type="total" size="{accessible}"/>"#)?;
    writeln!(to, r#"<aspace type="mprotect" size="{accessible}"/>"#)
}

/// Memory that was not returned to the kernel.
fn held_bytes(node: &NodeUsage) -> usize {
    node.reached_bytes.saturating_sub(node.returned_bytes)
}

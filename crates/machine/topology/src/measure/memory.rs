//! Memory of one node, filled, in huge pages where the kernel provides them.

use std::cell::Cell;

use numapilot_sys::mapping::{Mapping, Residency};
use numapilot_sys::mempolicy::{self, Mode};
use serde::Serialize;

use super::{chase, on_cpu};
use crate::{CpuId, Machine, Node, NodeId, NodeSet};

/// Pages whose node is looked up after filling.
const PROBES: usize = 64;
/// The least memory that gives a useful measurement.
const LEAST_BYTES: u64 = 32 << 20;

/// How a node's memory was obtained.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Placed {
    /// Bytes for latency; bandwidth uses as many again.
    pub bytes: u64,
    /// Share of it in huge pages, 0 to 1; `None` where the kernel does not say.
    pub huge_pages: Option<f64>,
    /// Why mbind(2) failed and first touch was used instead; `None` when mbind(2) worked.
    pub first_touch: Option<String>,
    /// Whether pages looked up afterwards are on the node; `None` where the kernel does
    /// not say.
    pub verified: Option<bool>,
}

/// Two areas of one node's memory: a cycle to follow, and plain words to read.
pub struct NodeMemory {
    pub chase: Mapping,
    /// Where in the cycle the last chase ended. The next one continues there, so that it does not
    /// read lines that a cache may still hold.
    pub at: Cell<usize>,
    pub stream: Mapping,
    pub placed: Placed,
}

impl NodeMemory {
    /// Memory of `node`, filled by a thread on `cpu`.
    ///
    /// # Errors
    /// The reason, as a message for the user.
    pub fn new(
        machine: &Machine,
        node: &Node,
        cpu: Option<CpuId>,
        bytes: u64,
    ) -> Result<Self, String> {
        if !machine.allowed.nodes.contains(node.id) {
            return Err("this process may not allocate there (cpuset mems)".to_owned());
        }
        let bytes = fitting(node, bytes)?;
        let len = usize::try_from(bytes).map_err(|_| "more memory than can be addressed")?;
        let map = || Mapping::anonymous(len).map_err(|e| format!("no memory could be mapped: {e}"));
        let (mut chase, mut stream) = (map()?, map()?);
        let first_touch = match bind(&chase, node.id).and_then(|()| bind(&stream, node.id)) {
            Ok(()) => None,
            Err(_) if machine.nodes.len() > 1 && node.cpus.is_empty() => {
                return Err("mbind is refused, and a node without CPUs has no first touch".into());
            }
            Err(error) => Some(format!("mbind is refused ({error})")),
        };
        // The kernel refuses this where huge pages are switched off; `huge_share` then reports it.
        let _ = chase.advise(libc::MADV_HUGEPAGE);
        let _ = stream.advise(libc::MADV_HUGEPAGE);
        let mut fill = || {
            chase::write_cycle(chase.words_mut(), u64::from(node.id.0) + 1);
            stream.words_mut().fill(1);
        };
        match cpu {
            Some(cpu) => {
                on_cpu(cpu, fill).map_err(|e| format!("no thread could be started: {e}"))?
            }
            None => fill(),
        }
        let verified = is_on(&chase, node.id);
        if verified == Some(false) {
            return Err("its pages came from another node; free some of its memory".to_owned());
        }
        let huge_pages = huge_share(&chase);
        Ok(Self {
            placed: Placed { bytes, huge_pages, first_touch, verified },
            chase,
            at: Cell::new(0),
            stream,
        })
    }
}

/// Limits both areas together to half of the node's free memory, because a bound allocation that
/// finds no page invokes the out-of-memory killer.
fn fitting(node: &Node, bytes: u64) -> Result<u64, String> {
    let free = node.free_bytes.unwrap_or(node.memory_bytes);
    let fits = bytes.min(free / 4) / (2 << 20) * (2 << 20);
    if fits < LEAST_BYTES {
        return Err(format!("only {} MiB of it are free", free >> 20));
    }
    Ok(fits)
}

fn bind(mapping: &Mapping, node: NodeId) -> std::io::Result<()> {
    let set: NodeSet = [node].into_iter().collect();
    mempolicy::bind(mapping, Mode::Bind, set.as_words(), 0)
}

/// Whether pages spread over the mapping are on the node.
fn is_on(mapping: &Mapping, node: NodeId) -> Option<bool> {
    let start = mapping.as_ptr() as usize;
    let pages: Vec<usize> = (0..PROBES).map(|i| start + mapping.len() / PROBES * i).collect();
    let wanted = i32::try_from(node.0).ok()?;
    let status = mempolicy::move_pages(0, &pages, None, 0).ok()?;
    Some(status.iter().all(|on| *on == wanted))
}

/// Share of a mapping that the kernel backs with huge pages.
fn huge_share(mapping: &Mapping) -> Option<f64> {
    let Residency { rss_bytes, huge_bytes } = mapping.residency().ok()?;
    // Sizes are far below 2^52.
    (rss_bytes > 0).then(|| huge_bytes as f64 / rss_bytes as f64)
}

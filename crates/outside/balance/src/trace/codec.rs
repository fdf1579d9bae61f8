//! Encodes an interval as a row of numbers.

use numapilot_topology::{NodeId, NodeSet};

use super::Recorded;
use crate::decision::{Moved, Order, Why};
use crate::evidence::{Access, Evidence, Page};
use crate::traffic::Traffic;

const WRITE: u64 = 1;
const HUGE: u64 = 2;
const LATENCY: u64 = 4;

pub fn encode(recorded: &Recorded) -> Vec<u8> {
    let mut out = Out::default();
    let Recorded { pid, now_ns, evidence, orders, done } = recorded;
    out.signed(i64::from(*pid));
    out.unsigned(*now_ns);
    out.evidence(evidence);
    out.unsigned(orders.len() as u64);
    for order in orders {
        out.page(order.start);
        out.unsigned(u64::from(order.pages));
        out.unsigned(u64::from(order.to.0));
        out.unsigned(order.why as u64);
    }
    out.unsigned(u64::from(done.is_some()));
    if let Some((moved, took_ns)) = done {
        out.unsigned(*took_ns);
        out.unsigned(moved.len() as u64);
        for moved in moved {
            out.page(moved.page);
            out.unsigned(u64::from(moved.from.0));
            out.unsigned(u64::from(moved.to.0));
        }
    }
    out.bytes
}

/// Decodes an interval; `None` if [`encode`] cannot have written it.
pub fn decode(bytes: &[u8], nodes: usize) -> Option<Recorded> {
    let mut from = In { bytes, page: 0 };
    let pid = i32::try_from(from.signed()?).ok()?;
    let now_ns = from.unsigned()?;
    let evidence = from.evidence(nodes)?;
    let mut orders = Vec::new();
    for _ in 0..from.unsigned()? {
        let start = from.page()?;
        let pages = from.small()?;
        let to = from.node()?;
        let why = match from.unsigned()? {
            0 => Why::Collocate,
            1 => Why::Interleave,
            2 => Why::Undo,
            _ => return None,
        };
        orders.push(Order { start, pages, to, why });
    }
    let done = match from.flag()? {
        false => None,
        true => {
            let took_ns = from.unsigned()?;
            let mut moved = Vec::new();
            for _ in 0..from.unsigned()? {
                moved.push(Moved { page: from.page()?, from: from.node()?, to: from.node()? });
            }
            Some((moved, took_ns))
        }
    };
    from.bytes.is_empty().then_some(Recorded { pid, now_ns, evidence, orders, done })
}

#[derive(Default)]
struct Out {
    bytes: Vec<u8>,
    page: u64,
}

impl Out {
    fn unsigned(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn signed(&mut self, value: i64) {
        self.unsigned(((value << 1) ^ (value >> 63)).cast_unsigned());
    }

    fn float(&mut self, value: f64) {
        self.bytes.extend(value.to_le_bytes());
    }

    fn page(&mut self, page: Page) {
        self.signed(page.0.wrapping_sub(self.page).cast_signed());
        self.page = page.0;
    }

    fn evidence(&mut self, evidence: &Evidence) {
        let Evidence {
            duration_ns,
            accesses,
            accesses_per_sample,
            counted,
            memory_used,
            kernel_collocates,
            can_split,
            usable,
        } = evidence;
        self.unsigned(*duration_ns);
        self.unsigned(u64::from(accesses_per_sample.is_some()));
        accesses_per_sample.iter().for_each(|value| self.float(*value));
        self.unsigned(u64::from(counted.is_some()));
        for row in counted.iter().flat_map(Traffic::matrix) {
            row.iter().for_each(|value| self.float(*value));
        }
        self.float(*memory_used);
        self.unsigned(u64::from(*kernel_collocates));
        self.unsigned(u64::from(*can_split));
        self.unsigned(usable.len() as u64);
        usable.iter().for_each(|node| self.unsigned(u64::from(node.0)));
        self.unsigned(accesses.len() as u64);
        for access in accesses {
            let flag = |set: bool, flag: u64| if set { flag } else { 0 };
            self.page(access.page);
            self.unsigned(
                flag(access.write, WRITE)
                    | flag(access.huge, HUGE)
                    | flag(access.latency_ns.is_some(), LATENCY),
            );
            self.unsigned(u64::from(access.from.0));
            self.unsigned(u64::from(access.home.0));
            access.latency_ns.iter().for_each(|ns| self.unsigned(u64::from(*ns)));
        }
    }
}

struct In<'a> {
    bytes: &'a [u8],
    page: u64,
}

impl In<'_> {
    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    fn small(&mut self) -> Option<u32> {
        u32::try_from(self.unsigned()?).ok()
    }

    fn flag(&mut self) -> Option<bool> {
        match self.unsigned()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn float(&mut self) -> Option<f64> {
        let (bytes, rest) = self.bytes.split_first_chunk::<8>()?;
        self.bytes = rest;
        Some(f64::from_le_bytes(*bytes))
    }

    fn page(&mut self) -> Option<Page> {
        self.page = self.page.wrapping_add(self.signed()?.cast_unsigned());
        // A page number has at most 52 bits.
        (self.page <= u64::MAX / Page::BYTES).then_some(Page(self.page))
    }

    fn node(&mut self) -> Option<NodeId> {
        self.small().map(NodeId)
    }

    fn evidence(&mut self, nodes: usize) -> Option<Evidence> {
        let duration_ns = self.unsigned()?;
        let accesses_per_sample = if self.flag()? { Some(self.float()?) } else { None };
        let counted = match self.flag()? {
            false => None,
            true => {
                let mut matrix = Vec::new();
                for _ in 0..nodes {
                    matrix.push((0..nodes).map(|_| self.float()).collect::<Option<Vec<f64>>>()?);
                }
                Some(Traffic::counted(matrix)?)
            }
        };
        let memory_used = self.float()?;
        let kernel_collocates = self.flag()?;
        let can_split = self.flag()?;
        let mut usable = NodeSet::new();
        for _ in 0..self.unsigned()? {
            // Node IDs are small: a damaged one must not allocate a set of gigabytes.
            usable.insert(self.node().filter(|node| node.0 < 1 << 16)?);
        }
        let mut accesses = Vec::new();
        for _ in 0..self.unsigned()? {
            let page = self.page()?;
            let flags = self.unsigned().filter(|flags| flags & !(WRITE | HUGE | LATENCY) == 0)?;
            let (from, home) = (self.node()?, self.node()?);
            let latency_ns = if flags & LATENCY != 0 { Some(self.small()?) } else { None };
            let (write, huge) = (flags & WRITE != 0, flags & HUGE != 0);
            accesses.push(Access { page, from, home, write, huge, latency_ns });
        }
        Some(Evidence {
            duration_ns,
            accesses,
            accesses_per_sample,
            counted,
            memory_used,
            kernel_collocates,
            can_split,
            usable,
        })
    }
}

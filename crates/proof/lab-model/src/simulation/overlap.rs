//! Memory-level parallelism: how the latencies of a CPU's misses overlap.
//!
//! There are three kinds of misses. A dependent miss, whose address comes from a value that an
//! earlier miss loaded, waits for that miss, so its whole latency counts: the value is a pointer to
//! a nearby address, or an index into the same array as before. A miss on the next line of a stream
//! has been prefetched: its cost is what the lines in flight leave, minus the time since the
//! stream's last line. All other misses overlap by the processor's memory-level parallelism.

use super::factor::Factor;

/// A prefetcher keeps this many times as many lines in flight as the program's own misses. This is
/// an assumption, like the parallelism itself, and suffices for the CPUs of a node to use up their
/// controller's bandwidth by sequential reads.
pub const PREFETCH_FACTOR: f64 = 8.0;
/// Number of streams that a prefetcher tracks.
const STREAMS: usize = 16;
/// Number of distinct endings of line numbers.
const ENDS: usize = 256;
/// Number of consecutive lines that make a stream.
const CONFIRMED: u32 = 2;
/// The element sizes of arrays that are indexed.
const INDEX_SCALES: [u64; 4] = [4, 8, 16, 64];
/// Number of loaded values that are remembered.
const VALUES: usize = 4;
/// An address this close to a loaded value was computed from it, as for a field of a node.
const NODE_BYTES: u64 = 4096;

/// A line that almost no address is in.
const NO_LINE: u32 = u32::MAX;

/// The streams. The lower half of a line's number suffices: a collision continues a stream that is
/// 256 GiB away.
#[derive(Debug)]
struct Streams {
    streams: [Stream; STREAMS],
    /// The number of expected lines with each ending: most misses continue no stream, which one
    /// lookup shows.
    expected: [u8; ENDS],
    oldest: usize,
    /// The stream of the latest miss.
    latest: usize,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    next_up: u32,
    next_down: u32,
    lines: u32,
    /// When the last line arrived.
    llc_ps: u64,
}

impl Stream {
    #[inline]
    fn continues_at(&self, line: u32) -> bool {
        (self.next_up == line) | (self.next_down == line)
    }
}

impl Streams {
    fn new() -> Self {
        let none = Stream { next_up: NO_LINE, next_down: NO_LINE, lines: 0, llc_ps: 0 };
        let mut expected = [0; ENDS];
        expected[end(NO_LINE)] = 2 * STREAMS as u8;
        Self { streams: [none; STREAMS], expected, oldest: 0, latest: 0 }
    }

    /// The stream that this line continues.
    #[inline]
    fn position(&self, line: u32) -> Option<usize> {
        if self.expected[end(line)] == 0 {
            return None;
        }
        self.streams.iter().position(|stream| stream.continues_at(line))
    }

    /// Sets the lines that continue a stream.
    #[inline]
    fn expect(&mut self, i: usize, next_up: u32, next_down: u32) {
        let stream = &mut self.streams[i];
        for gone in [stream.next_up, stream.next_down] {
            self.expected[end(gone)] -= 1;
        }
        (stream.next_up, stream.next_down) = (next_up, next_down);
        for next in [next_up, next_down] {
            self.expected[end(next)] += 1;
        }
    }

    /// Adds a line to its stream, or starts a new one. Returns the number of consecutive lines, and
    /// the time since the previous one arrived.
    #[inline]
    fn advance(&mut self, line: u32, now_ps: u64) -> (u32, u64) {
        let (up, down) = (line.wrapping_add(1), line.wrapping_sub(1));
        let Some(i) = self.position(line) else {
            let i = self.oldest;
            self.oldest = (i + 1) % STREAMS;
            self.expect(i, up, down);
            (self.streams[i].lines, self.latest) = (1, i);
            return (1, 0);
        };
        if self.streams[i].next_up == line {
            self.expect(i, up, NO_LINE);
        } else {
            self.expect(i, NO_LINE, down);
        }
        let stream = &mut self.streams[i];
        stream.lines = stream.lines.saturating_add(1);
        self.latest = i;
        (stream.lines, now_ps.saturating_sub(stream.llc_ps))
    }

    /// The line of the latest miss has arrived.
    #[inline]
    fn came(&mut self, now_ps: u64) {
        self.streams[self.latest].llc_ps = now_ps;
    }
}

/// The ending of a line's number.
#[inline]
fn end(line: u32) -> usize {
    line as usize % ENDS
}

/// Recent misses of one CPU.
#[derive(Debug)]
pub(crate) struct Overlap {
    /// The remaining share of the latency of an independent miss, and of a stream's.
    independent: Factor,
    streamed: Factor,
    streams: Streams,
    values: [u64; VALUES],
    next_value: usize,
    /// Whether a value was loaded since the latest miss.
    is_fresh: bool,
    /// The start addresses of the arrays, if the last value was an index.
    bases: [u64; INDEX_SCALES.len()],
}

/// How a miss overlaps with others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Dependent,
    Streamed {
        /// Time since the stream's last line arrived.
        since_ps: u64,
    },
    Independent,
}

impl Overlap {
    pub(crate) fn new(parallelism: f64) -> Self {
        Self {
            independent: Factor::new(1.0 / parallelism),
            streamed: Factor::new(1.0 / (parallelism * PREFETCH_FACTOR)),
            streams: Streams::new(),
            values: [u64::MAX; VALUES],
            next_value: 0,
            is_fresh: false,
            bases: [0; INDEX_SCALES.len()],
        }
    }

    /// Records a value that a load has returned.
    #[inline]
    pub(crate) fn loaded(&mut self, value: u64) {
        self.values[self.next_value] = value;
        self.next_value = (self.next_value + 1) % VALUES;
        self.is_fresh = true;
    }

    /// The kind of a miss at this virtual address and time. `had`: the line is in the CPU's private
    /// caches, but without the right to write.
    pub(crate) fn classify(&mut self, address: u64, had: bool, now_ps: u64) -> Kind {
        let (lines, since_ps) = self.streams.advance((address >> 6) as u32, now_ps);
        if lines > CONFIRMED {
            return Kind::Streamed { since_ps };
        }
        self.dependence(address, had)
    }

    fn dependence(&mut self, address: u64, had: bool) -> Kind {
        let latest = self.values[(self.next_value + VALUES - 1) % VALUES];
        let bases = INDEX_SCALES.map(|scale| address.wrapping_sub(latest.wrapping_mul(scale)));
        // No new value has been loaded if a line is read and then written at once, as by an atomic
        // addition; a line that was lost since the last write counts as dependent too.
        let indexed = (self.is_fresh || !had)
            && bases.iter().zip(&self.bases).any(|(now, before)| now == before);
        (self.bases, self.is_fresh) = (bases, false);
        let pointed = self.values.iter().any(|v| address.abs_diff(*v) < NODE_BYTES);
        if indexed || pointed { Kind::Dependent } else { Kind::Independent }
    }

    /// The time that the miss that was just classified adds to the CPU's time.
    #[inline]
    pub(crate) fn stall_ps(&mut self, kind: Kind, latency_ps: u64, now_ps: u64) -> u64 {
        let stall_ps = match kind {
            Kind::Dependent => latency_ps,
            Kind::Streamed { since_ps } => self.streamed.times(latency_ps).saturating_sub(since_ps),
            Kind::Independent => self.independent.times(latency_ps),
        };
        self.streams.came(now_ps + stall_ps);
        stall_ps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firmware_uses_the_first_lines_too() {
        let mut overlap = Overlap::new(2.0);
        for address in [128, 64, 0, 0, u64::MAX, 0] {
            overlap.classify(address, false, 0);
        }
    }

    #[test]
    fn lines_in_order_make_a_stream_both_ways() {
        let mut overlap = Overlap::new(2.0);
        for way in [1i64, -1] {
            let kinds: Vec<Kind> = (0..5i64)
                .map(|i| overlap.classify((1i64 << 30).wrapping_add(way * i * 64) as u64, false, 0))
                .collect();
            assert_eq!(kinds[0], Kind::Independent);
            assert!(matches!(kinds[3], Kind::Streamed { .. }), "{way} {kinds:?}");
        }
    }

    #[test]
    fn a_miss_at_a_loaded_index_waits_from_the_second_on() {
        let mut overlap = Overlap::new(2.0);
        let base = 0x7000_0000;
        let kinds: Vec<Kind> = [9u64, 700, 80_000, 33]
            .into_iter()
            .map(|index| {
                overlap.loaded(index);
                overlap.classify(base + index * 8, false, 0)
            })
            .collect();
        assert_eq!(kinds[1..], [Kind::Dependent; 3]);
    }

    #[test]
    fn a_line_that_is_read_and_then_written_depends_on_nothing() {
        let mut overlap = Overlap::new(2.0);
        overlap.loaded(9);
        for address in [0x7000_0000, 0x9000_0000] {
            let kinds = [false, true].map(|had| overlap.classify(address, had, 0));
            assert_eq!(kinds, [Kind::Independent; 2]);
        }
    }

    #[test]
    fn a_miss_at_a_loaded_address_waits() {
        let mut overlap = Overlap::new(2.0);
        overlap.loaded(0x7000_0000);
        assert_eq!(overlap.classify(0x7000_0010, false, 0), Kind::Dependent);
        assert_eq!(overlap.classify(0x9000_0000, false, 0), Kind::Independent);
        assert_eq!(overlap.stall_ps(Kind::Dependent, 100, 0), 100);
        assert_eq!(overlap.stall_ps(Kind::Independent, 100, 0), 50);
    }

    #[test]
    fn a_stream_without_work_takes_what_its_lines_in_flight_leave() {
        let mut overlap = Overlap::new(2.0);
        let each_ps = (8000.0 / (2.0 * PREFETCH_FACTOR)) as u64;
        let mut now_ps = 0;
        for line in 0..100u64 {
            let work_ps = if line < 50 { 0 } else { each_ps / 4 };
            now_ps += work_ps;
            let kind = overlap.classify((1 << 30) + line * 64, false, now_ps);
            let stall_ps = overlap.stall_ps(kind, 8000, now_ps);
            now_ps += stall_ps;
            if line > u64::from(CONFIRMED) {
                assert_eq!(work_ps + stall_ps, each_ps, "line {line}");
            }
        }
    }
}

//! What a CPU can do at the same time: how far the latencies of its misses overlap.
//!
//! Three kinds of misses. One whose address follows from a value that an earlier one loaded
//! waits for it, so its whole latency counts: the value is a pointer close by, or an index
//! into the same array as the time before. One on the line after the last of a stream was
//! fetched ahead: it takes what the prefetcher's lines in flight leave, less the time since
//! the stream's last line. All others overlap as the processor's memory-level parallelism
//! says.

use super::factor::Factor;

/// A prefetcher keeps this many times as many lines in flight as the program's own misses:
/// assumed, as is the parallelism itself; enough for the CPUs of a node to use up its
/// controller's bandwidth by reading in order.
pub const PREFETCH_FACTOR: f64 = 8.0;
/// Streams that a prefetcher follows.
const STREAMS: usize = 16;
/// Ends of lines' numbers that are told apart.
const ENDS: usize = 256;
/// Lines in order that make a stream.
const CONFIRMED: u32 = 2;
/// Sizes of what indices count.
const INDEX_SCALES: [u64; 4] = [4, 8, 16, 64];
/// Loaded values that are remembered.
const VALUES: usize = 4;
/// An address so close to a loaded value was computed from it: a field of a node.
const NODE_BYTES: u64 = 4096;

/// Hardly any address is in this line.
const NO_LINE: u32 = u32::MAX;

/// Streams. Of a line's number the lower half will do: who takes two for one continues a stream
/// that is 256 GiB away.
#[derive(Debug)]
struct Streams {
    streams: [Stream; STREAMS],
    /// How many of the streams' next lines have a number that ends like this: most misses continue
    /// none, and are done with one look.
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
    /// When the last line came.
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

    /// Lets a stream go on with these lines.
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

    /// A line of a stream, or the first of a new one. How many that makes in order, and the
    /// time since the one before came.
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

    /// The line of the latest miss has come.
    #[inline]
    fn came(&mut self, now_ps: u64) {
        self.streams[self.latest].llc_ps = now_ps;
    }
}

/// How a line's number ends.
#[inline]
fn end(line: u32) -> usize {
    line as usize % ENDS
}

/// Recent misses of one CPU.
#[derive(Debug)]
pub(crate) struct Overlap {
    /// What of a latency is left of a miss among others, and of one of a stream.
    independent: Factor,
    streamed: Factor,
    streams: Streams,
    values: [u64; VALUES],
    next_value: usize,
    /// Whether a value came since the latest miss.
    is_fresh: bool,
    /// Where the arrays would begin if the last value had been an index.
    bases: [u64; INDEX_SCALES.len()],
}

/// How a miss overlaps with others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Dependent,
    Streamed {
        /// Since the stream's last line came.
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

    /// Notes a value that a load has brought.
    #[inline]
    pub(crate) fn loaded(&mut self, value: u64) {
        self.values[self.next_value] = value;
        self.next_value = (self.next_value + 1) % VALUES;
        self.is_fresh = true;
    }

    /// The kind of a miss at this virtual address and time; `had`: the line is in the CPU's
    /// private caches, but must be asked for to be written.
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
        // Nothing new has been loaded where a line is read and then written at once, as by an
        // atomic addition; a line that was lost since the last write is waited for as well.
        let indexed = (self.is_fresh || !had)
            && bases.iter().zip(&self.bases).any(|(now, before)| now == before);
        (self.bases, self.is_fresh) = (bases, false);
        let pointed = self.values.iter().any(|v| address.abs_diff(*v) < NODE_BYTES);
        if indexed || pointed { Kind::Dependent } else { Kind::Independent }
    }

    /// What the miss that was just classified, at this time, adds to the CPU's time.
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

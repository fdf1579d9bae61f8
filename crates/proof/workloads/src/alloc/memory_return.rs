//! `alloc-return`: how soon freed memory returns to the kernel.
//!
//! The program allocates objects, writes to them and frees them, all of them or all but one in N.
//! It then reads the resident set ten times a second, first while it does next to nothing and then
//! while it does nothing at all. A database after a large query behaves like this (memory over
//! time: Durner, Leis, Neumann 2019, figures 3 and 9).
//!
//! While it watches, the program allocates only what it documents: it reads figures into a buffer
//! on the stack.

use std::fs::File;
use std::hint::black_box;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

use super::object::WORD;
use crate::WorkloadError;
use crate::answer::hexadecimal;
use crate::memory::{available_bytes, peak_rss_bytes};
use crate::outcome::Figures;

/// Time between two readings.
pub const STEP: Duration = Duration::from_millis(100);
/// Time between two bursts of activity, as in a server between two requests.
const PAUSE: Duration = Duration::from_millis(20);
/// Sizes of the objects of a burst in words: 16 to 4048 bytes.
const BURST_WORDS: std::ops::Range<usize> = 2..512;
const BURST_STEP: usize = 6;

/// What to allocate, and how long to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of all objects together.
    pub bytes: u64,
    /// Bytes of one object; rounded up to words of 8 bytes.
    pub object_bytes: u64,
    /// One object in this many is kept.
    pub keep: Option<NonZeroU64>,
    /// How long to watch.
    pub watch: Duration,
}

/// What the program does while it watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Activity {
    /// Allocates and frees 85 objects of 16 to 4048 bytes every 20 ms.
    Little,
    /// Nothing.
    None,
}

/// The resident set at one moment.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Moment {
    /// Time since the last object was freed.
    pub seconds: f64,
    /// Resident set.
    pub rss_bytes: u64,
}

/// The resident set after the objects were freed.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// What the program did meanwhile.
    pub activity: Activity,
    /// The resident set with all objects allocated.
    pub full_rss_bytes: u64,
    /// The resident set afterwards, every [`STEP`].
    pub moments: Vec<Moment>,
}

impl Curve {
    /// The time, in seconds, at which the resident set was first below `bytes`.
    #[must_use]
    pub fn below(&self, bytes: u64) -> Option<f64> {
        self.moments.iter().find(|moment| moment.rss_bytes < bytes).map(|moment| moment.seconds)
    }
}

/// Result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The options of the run.
    #[serde(flatten)]
    pub figures: Figures,
    /// Wall time of allocating, writing and freeing.
    pub seconds: f64,
    /// Objects per second of `seconds`.
    pub items_per_second: f64,
    /// Checksum over the tags read from all objects.
    #[serde(serialize_with = "hexadecimal")]
    pub checksum: u64,
    /// High-water mark of this process's resident memory.
    pub peak_rss_bytes: u64,
    /// First with a little activity, then without.
    pub curves: Vec<Curve>,
}

/// Runs the benchmark once for each [`Activity`].
///
/// # Errors
/// [`WorkloadError`] when there is too little memory or no `/proc`, or when an object did not hold
/// what was written into it.
pub fn run(options: &Options) -> Result<Outcome, WorkloadError> {
    let words = options.object_bytes.div_ceil(WORD).max(1);
    let each = words.saturating_mul(WORD);
    let objects = (options.bytes / each).max(1);
    // The list of objects counts as well, because it is also allocated and freed.
    let needed = objects.saturating_mul(each + size_of::<Object>() as u64);
    let available = available_bytes()?;
    if needed > available {
        return Err(WorkloadError::TooLittleMemoryForObjects { needed, available });
    }
    // At most what is available.
    #[allow(clippy::cast_possible_truncation)]
    let words = words as usize;
    let mut resident = Resident::open()?;
    let (mut worked, mut checksum) = (Duration::ZERO, 0_u64);
    let mut curves = Vec::new();
    for activity in [Activity::Little, Activity::None] {
        let mut moments = Vec::with_capacity(steps(options.watch) + 1);
        let start = Instant::now();
        let mut list = allocate(objects, words);
        let full_rss_bytes = resident.bytes()?;
        let (kept, sum) = free(&mut list, options.keep);
        drop(list);
        worked += start.elapsed();
        watch(&mut resident, activity, &mut moments)?;
        checksum = checksum.wrapping_add(sum).wrapping_add(sum_of(&kept));
        curves.push(Curve { activity, full_rss_bytes, moments });
    }
    let expected = 2_u64.wrapping_mul((0..objects).map(tag).fold(0, u64::wrapping_add));
    if checksum != expected {
        return Err(WorkloadError::DamagedObjects { computed: checksum, expected });
    }
    let seconds = worked.as_secs_f64();
    Ok(Outcome {
        figures: Figures {
            workload: "alloc-return",
            threads: 1,
            parameters: json!({
                "bytes": objects * each,
                "object_bytes": each,
                "keep_one_in": options.keep,
                "watched_seconds": options.watch.as_secs_f64(),
            }),
        },
        seconds,
        items_per_second: 2.0 * objects as f64 / seconds,
        checksum,
        peak_rss_bytes: peak_rss_bytes()?,
        curves,
    })
}

/// A tag that depends on the object's position, and is never 0.
fn tag(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// An object whose words all hold its tag. It is two words itself, half of an object of the other
/// benchmarks, because the list of millions of them must stay small.
struct Object(Box<[u64]>);

impl Object {
    fn new(words: usize, tag: u64) -> Self {
        // Without black_box, the compiler may remove an allocation whose contents are not used.
        Self(black_box(vec![tag; words].into_boxed_slice()))
    }

    /// The tag, if all words hold it.
    fn tag(&self) -> u64 {
        let words = black_box(&self.0);
        let (first, last) = (words.first().copied(), words.last().copied());
        first.filter(|_| first == last).unwrap_or_default()
    }
}

/// A little activity.
fn burst() {
    BURST_WORDS.step_by(BURST_STEP).for_each(|words| drop(Object::new(words, 1)));
}

fn allocate(objects: u64, words: usize) -> Vec<Object> {
    // The number of objects fits into memory.
    #[allow(clippy::cast_possible_truncation)]
    let mut list = Vec::with_capacity(objects as usize);
    list.extend((0..objects).map(|number| Object::new(words, tag(number))));
    list
}

/// Frees all objects of the list but those to keep. Returns the kept ones, and the sum of the tags
/// of the others.
fn free(list: &mut Vec<Object>, keep: Option<NonZeroU64>) -> (Vec<Object>, u64) {
    let (mut kept, mut sum) = (Vec::new(), 0_u64);
    for (number, object) in (0_u64..).zip(list.drain(..)) {
        if keep.is_some_and(|n| number.is_multiple_of(n.get())) {
            kept.push(object);
        } else {
            sum = sum.wrapping_add(object.tag());
        }
    }
    (kept, sum)
}

fn sum_of(objects: &[Object]) -> u64 {
    objects.iter().map(Object::tag).fold(0, u64::wrapping_add)
}

fn steps(watch: Duration) -> usize {
    usize::try_from(watch.as_millis() / STEP.as_millis()).unwrap_or(usize::MAX)
}

/// Fills `moments` up to its capacity.
fn watch(
    resident: &mut Resident,
    activity: Activity,
    moments: &mut Vec<Moment>,
) -> Result<(), WorkloadError> {
    let start = Instant::now();
    while moments.len() < moments.capacity() {
        let due = STEP * u32::try_from(moments.len()).unwrap_or(u32::MAX);
        while start.elapsed() < due {
            if activity == Activity::Little {
                burst();
            }
            thread::sleep(PAUSE.min(due.saturating_sub(start.elapsed())));
        }
        let seconds = start.elapsed().as_secs_f64();
        moments.push(Moment { seconds, rss_bytes: resident.bytes()? });
    }
    Ok(())
}

/// Reads the resident set without allocating.
struct Resident {
    file: File,
    page_bytes: u64,
}

impl Resident {
    fn open() -> Result<Self, WorkloadError> {
        let file = File::open("/proc/self/statm").map_err(|e| unreadable(e.to_string()))?;
        Ok(Self { file, page_bytes: procfs::page_size() })
    }

    fn bytes(&mut self) -> Result<u64, WorkloadError> {
        let mut buffer = [0; 128];
        let length = self.file.read_at(&mut buffer, 0).map_err(|e| unreadable(e.to_string()))?;
        let text = str::from_utf8(&buffer[..length]).unwrap_or_default();
        let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
        let pages = pages.ok_or_else(|| unreadable("it has no second number".to_owned()))?;
        Ok(pages * self.page_bytes)
    }
}

fn unreadable(reason: String) -> WorkloadError {
    WorkloadError::Proc { what: "/proc/self/statm", reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(keep: Option<NonZeroU64>) -> Outcome {
        let watch = Duration::from_millis(200);
        run(&Options { bytes: 1 << 20, object_bytes: 60, keep, watch }).unwrap()
    }

    #[test]
    fn every_step_is_recorded_for_both_kinds() {
        let outcome = small(None);
        assert_eq!(outcome.figures.parameters["object_bytes"], 64);
        let kinds: Vec<Activity> = outcome.curves.iter().map(|curve| curve.activity).collect();
        assert_eq!(kinds, [Activity::Little, Activity::None]);
        for curve in &outcome.curves {
            assert_eq!(curve.moments.len(), 3);
            assert!(curve.moments.iter().all(|moment| moment.rss_bytes > 100_000));
            assert!(curve.moments.windows(2).all(|two| two[0].seconds < two[1].seconds));
        }
    }

    #[test]
    fn what_is_kept_is_read_as_well() {
        assert_eq!(small(None).checksum, small(NonZeroU64::new(7)).checksum);
        let mut list = allocate(100, 8);
        let (kept, sum) = free(&mut list, NonZeroU64::new(7));
        assert_eq!(kept.len(), 15);
        let all = (0..100).map(tag).fold(0, u64::wrapping_add);
        assert_eq!(sum.wrapping_add(sum_of(&kept)), all);
    }

    #[test]
    fn the_first_moment_below_counts() {
        let moment = |seconds, rss_bytes| Moment { seconds, rss_bytes };
        let moments = vec![moment(0.0, 900), moment(0.1, 50), moment(0.2, 80)];
        let curve = Curve { activity: Activity::None, full_rss_bytes: 900, moments };
        assert_eq!(curve.below(70), Some(0.1));
        assert_eq!(curve.below(50), None);
    }

    #[test]
    fn more_than_there_is_is_refused() {
        let options = Options { bytes: u64::MAX / 2, object_bytes: 64, keep: None, watch: STEP };
        let error = run(&options).unwrap_err().to_string();
        assert!(error.contains("lower --bytes"), "{error}");
    }
}

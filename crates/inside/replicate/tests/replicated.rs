//! Replicated values as programs use them, on real threads.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use numapilot_replicate::{Copies, Error, Replicated};

#[test]
fn every_node_has_a_copy_on_pages_of_its_own() {
    let words: Vec<u64> = (0..100_000).collect();
    let copies = Copies::from_slice(&words).unwrap();
    assert_eq!(copies.local(), &words[..]);
    let mut pages: Vec<usize> = Vec::new();
    for (_, copy) in copies.each() {
        assert_eq!(copy, &words[..]);
        pages.push(copy.as_ptr() as usize);
        assert_eq!(copy.as_ptr() as usize % 4096, 0);
    }
    pages.sort_unstable();
    pages.dedup();
    assert_eq!(pages.len(), copies.each().count());
    for home in copies.homes().map(Result::unwrap) {
        assert_eq!(home.pages, size_of_val(&words[..]).div_ceil(4096), "{home:?}");
        assert_eq!(home.at_home, home.pages, "{home:?}");
    }
}

#[test]
fn values_of_any_size_and_alignment() {
    #[repr(align(16384))]
    #[derive(Clone, Copy)]
    struct Wide(u8);
    assert_eq!(Copies::<[u64]>::from_slice(&[]).unwrap().local(), &[]);
    assert_eq!(Copies::from_slice(&[(); 3]).unwrap().local().len(), 3);
    let wide = Copies::from_slice(&[Wide(7)]).unwrap();
    assert_eq!(std::ptr::from_ref(wide.local()) as *const u8 as usize % 16384, 0);
    assert_eq!(wide.local()[0].0, 7);
    // At this size copies begin where huge pages can.
    let large = Copies::from_fn(3 << 20, |index| index as u8).unwrap();
    assert!(large.each().all(|(_, copy)| (copy.as_ptr() as usize).is_multiple_of(2 << 20)));
}

#[test]
fn too_much_is_an_error_and_nothing_is_lost() {
    let table = Replicated::new(Copies::from_slice(&[1u8]).unwrap());
    let error = Copies::<[u8]>::from_fn(1 << 47, |_| 0).unwrap_err();
    assert!(matches!(error, Error::NoMemory { .. }), "{error:?}");
    let error = Copies::<[u64]>::from_fn(usize::MAX / 4, |_| 0).unwrap_err();
    assert_eq!(error, Error::TooLarge);
    assert_eq!(table.reader().unwrap().read(), &[1]);
}

/// Counts the live values.
struct Counted<'a>(&'a AtomicUsize, String);

impl<'a> Counted<'a> {
    fn new(live: &'a AtomicUsize, text: &str) -> Self {
        live.fetch_add(1, Relaxed);
        Self(live, text.to_owned())
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn old_versions_go_when_their_last_reader_does() {
    let live = AtomicUsize::new(0);
    let make = |text: &str| Copies::per_node(|_| Counted::new(&live, text)).unwrap();
    let value = Replicated::new(make("first"));
    let nodes = live.load(Relaxed);
    let mut reader = value.reader().unwrap();
    let mut other = value.reader().unwrap();
    assert_eq!(reader.read().1, "first");
    value.publish(make("second"));
    assert_eq!(live.load(Relaxed), 2 * nodes, "a reader pins the first");
    assert_eq!(other.read().1, "second");
    assert_eq!(reader.read().1, "second");
    value.publish(make("third"));
    assert_eq!(live.load(Relaxed), 2 * nodes, "the first is freed, a reader pins the second");
    reader.rest();
    drop(other);
    value.publish(make("fourth"));
    assert_eq!(live.load(Relaxed), nodes, "no reader pins an old version");
    assert_eq!(reader.copies().unwrap().each().count(), nodes);
    drop(reader);
    drop(value);
    assert_eq!(live.load(Relaxed), 0);
}

#[test]
fn what_fails_half_way_is_taken_back() {
    let live = AtomicUsize::new(0);
    let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        Copies::per_node(|_| {
            let _first = Counted::new(&live, "");
            panic!("no value for this node");
            #[allow(unreachable_code, reason = "gives the closure its type")]
            Counted::new(&live, "")
        })
    }));
    assert!(made.is_err());
    assert_eq!(live.load(Relaxed), 0);
}

#[test]
fn readers_see_one_version_whole() {
    const WORDS: usize = 1000;
    let value = Replicated::new(Copies::from_slice(&[0usize; WORDS]).unwrap());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers = [(); 3].map(|()| {
            scope.spawn(|| {
                let (mut last, mut seen) = (0, 0);
                while !done.load(Relaxed) {
                    // Short-lived readers reuse pins.
                    let mut reader = value.reader().unwrap();
                    for _ in 0..10 {
                        let now = reader.read();
                        assert!(now.iter().all(|word| *word == now[0]), "two versions mixed");
                        assert!(now[0] >= last, "an older version");
                        seen += usize::from(now[0] != last);
                        last = now[0];
                    }
                }
                seen
            })
        });
        for version in 1..=500 {
            value.publish(Copies::from_slice(&[version; WORDS]).unwrap());
        }
        // Each thread sees the last version, however late it starts.
        while value.reader().unwrap().read()[0] != 500 {}
        done.store(true, Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    assert_eq!(value.reader().unwrap().read()[WORDS - 1], 500);
}

#[test]
fn more_readers_than_fit_into_a_chunk() {
    let value = Replicated::new(Copies::from_slice(&[5]).unwrap());
    let mut readers: Vec<_> = (0..100).map(|_| value.reader().unwrap()).collect();
    assert!(readers.iter_mut().all(|reader| reader.read() == [5]));
    value.publish(Copies::from_slice(&[6]).unwrap());
    assert!(readers.iter_mut().all(|reader| reader.read() == [6]));
}

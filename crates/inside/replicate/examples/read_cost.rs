//! Measures the cost of reading a replicated value, compared with reading through a plain pointer.
//!
//! ```console
//! $ cargo run --release -p numapilot-replicate --example read_cost
//! $ valgrind --tool=callgrind target/release/examples/read_cost plain 32768
//! ```
//!
//! A lookup finds a key in a hash table and returns its value, which is the next key. The ways run
//! in turn, and the result is the median of their ratios to the plain pointer.

use std::env;
use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use numapilot_replicate::{Copies, Reader, Replicated};

/// Lookups per turn.
const LOOKUPS: u64 = 1 << 20;
/// Lookups with one reference, in the way that keeps it for a while.
const KEPT: u64 = 64;
const TURNS: usize = 21;

/// Key and value.
type Slot = [u64; 2];

/// A table in which each key leads to another; all keys form one cycle.
fn table(bytes: usize) -> Vec<Slot> {
    let slots = (bytes / size_of::<Slot>()).next_power_of_two() as u64;
    let mut table = vec![[0; 2]; slots as usize];
    for key in 0..slots {
        // A full cycle of a linear congruential generator (Hull, Dobell 1962).
        let next = key.wrapping_mul(0x9e37_79b9_7f4a_7c15 & !3 | 1).wrapping_add(12345) % slots;
        table[hash(key, slots)] = [key, next];
    }
    table
}

/// The slot of a key. Multiplication by an odd factor permutes the slots.
#[inline]
fn hash(key: u64, slots: u64) -> usize {
    (key.wrapping_mul(0xd6e8_feb8_6659_fd93) & (slots - 1)) as usize
}

#[inline]
fn lookup(table: &[Slot], key: u64) -> u64 {
    let [found, value] = table[hash(key, table.len() as u64)];
    if found == key { value } else { 0 }
}

/// The ways to read, by name.
const WAYS: [&str; 4] = ["plain", "copies", "replicated", "replicated-kept"];

fn turn(
    way: &str,
    plain: &[Slot],
    copies: &Copies<[Slot]>,
    reader: &mut Reader<'_, [Slot]>,
) -> u64 {
    let mut key = 0;
    match way {
        "plain" => (0..LOOKUPS).for_each(|_| key = lookup(black_box(plain), key)),
        "copies" => (0..LOOKUPS).for_each(|_| key = lookup(black_box(copies).local(), key)),
        "replicated" => (0..LOOKUPS).for_each(|_| key = lookup(reader.read(), key)),
        _ => {
            for _ in 0..LOOKUPS / KEPT {
                let table = reader.read();
                (0..KEPT).for_each(|_| key = lookup(black_box(table), key));
            }
        }
    }
    key
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let sizes = match arguments.get(1) {
        Some(bytes) => vec![bytes.parse()?],
        None => vec![32 << 10, 1 << 20, 64 << 20],
    };
    eprintln!("the node is found by {:?}", numapilot_replicate::way()?);
    println!("{:>12}  {:<16} {:>9} {:>8}", "table", "way", "ns/lookup", "/ plain");
    for bytes in sizes {
        let table = table(bytes);
        let copies = Copies::from_slice(&table)?;
        let replicated = Replicated::new(Copies::from_slice(&table)?);
        let mut reader = replicated.reader()?;
        let plain = copies.local();
        if let Some(way) = arguments.first() {
            black_box(turn(way, plain, &copies, &mut reader));
            continue;
        }
        let mut times = vec![[0.0; WAYS.len()]; TURNS];
        let expected = turn("plain", plain, &copies, &mut reader);
        for (index, times) in times.iter_mut().enumerate() {
            // Each turn begins with another way.
            for step in 0..WAYS.len() {
                let way = (step + index) % WAYS.len();
                let begun = Instant::now();
                let key = turn(WAYS[way], plain, &copies, &mut reader);
                times[way] = begun.elapsed().as_secs_f64() * 1e9 / LOOKUPS as f64;
                assert_eq!(key, expected, "{}", WAYS[way]);
            }
        }
        for (way, name) in WAYS.into_iter().enumerate() {
            let ns = median(times.iter().map(|times| times[way]).collect());
            let ratio = median(times.iter().map(|times| times[way] / times[0]).collect());
            println!("{bytes:>12}  {name:<16} {ns:>9.2} {ratio:>8.3}");
        }
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

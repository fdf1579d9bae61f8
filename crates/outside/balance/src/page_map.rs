//! Maps with pages or regions as keys.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes one number. Page numbers need no keyed hash.
#[derive(Default)]
pub struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // Fibonacci hashing, with the high bits moved down to where tables use them.
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

/// A map with pages or regions as keys.
pub type PageMap<K, V> = HashMap<K, V, BuildHasherDefault<Mixed>>;

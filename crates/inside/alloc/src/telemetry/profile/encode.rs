//! The wire format of protocol buffers, as far as a profile needs it.
//!
//! Source: protobuf.dev, "Encoding". A message is a sequence of fields, each a key (`number << 3 |
//! type`) and a value: a variable-length integer (type 0), or bytes after their length (type 2),
//! which may be a message.

use crate::os::output::{Line, Output};

const VARINT: u64 = 0;
const BYTES: u64 = 2;

/// A destination for fields.
pub trait Write {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);

    /// An integer, seven bits per byte, the lowest first.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put(&[value as u8 | 0x80]);
            value >>= 7;
        }
        self.put(&[value as u8]);
    }

    /// A field that is an integer. A missing field means 0.
    fn integer(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3 | VARINT);
            self.varint(value);
        }
    }

    /// A field that is text, or a message.
    fn blob(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | BYTES);
        self.varint(bytes.len() as u64);
        self.put(bytes);
    }

    /// A field that is a message.
    fn message(&mut self, field: u64, fields: impl FnOnce(&mut Message))
    where
        Self: Sized,
    {
        let mut message = Message::new();
        fields(&mut message);
        self.blob(field, message.bytes());
    }

    /// A field that is a list of integers.
    fn integers(&mut self, field: u64, values: impl Iterator<Item = u64>)
    where
        Self: Sized,
    {
        self.message(field, |list| values.for_each(|value| list.varint(value)));
    }
}

/// A message within another one; those of a profile are short.
pub type Message = Line<1024>;

impl<const N: usize> Write for Line<N> {
    fn put(&mut self, bytes: &[u8]) {
        // The longest is a sample: 48 locations of 3 bytes and four values of 10.
        let _ = self.append_all(bytes);
    }
}

impl Write for Output<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let _ = self.write_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_specification_are_encoded() {
        let mut message = Message::new();
        message.integer(1, 150);
        message.blob(2, b"testing");
        message.message(3, |inner| inner.integer(1, 150));
        message.integers(6, [3, 270, 86942].into_iter());
        let expected: &[u8] = &[
            0x08, 0x96, 0x01, 0x12, 0x07, b't', b'e', b's', b't', b'i', b'n', b'g', 0x1a, 0x03,
            0x08, 0x96, 0x01, 0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05,
        ];
        assert_eq!(message.bytes(), expected);
    }
}

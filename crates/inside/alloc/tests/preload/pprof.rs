//! Reads a heap profile: as much of protocol buffers and of pprof's `profile.proto` as the tests
//! need, written independently of the code that writes it.

use std::collections::BTreeMap;

/// A field: its number, and an integer or bytes.
enum Value<'a> {
    Integer(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().expect("a number is cut off");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a number is too long");
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Value::Integer(varint(&mut bytes)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Bytes(value)
            }
            other => panic!("type {other}"),
        };
        fields.push((key >> 3, value));
    }
    fields
}

fn integers(mut bytes: &[u8]) -> Vec<u64> {
    let mut values = Vec::new();
    while !bytes.is_empty() {
        values.push(varint(&mut bytes));
    }
    values
}

/// Integers of a message by field.
fn numbers(message: &[u8]) -> BTreeMap<u64, u64> {
    let integer = |(field, value)| match value {
        Value::Integer(value) => Some((field, value)),
        Value::Bytes(_) => None,
    };
    fields(message).into_iter().filter_map(integer).collect()
}

/// One stack.
#[derive(Debug)]
pub struct Sample {
    /// Addresses, the innermost first.
    pub stack: Vec<u64>,
    /// Objects and bytes allocated, objects and bytes in use.
    pub values: Vec<u64>,
    /// Bytes of an object.
    pub size: u64,
}

/// A mapped file.
#[derive(Debug)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub file: String,
}

#[derive(Debug, Default)]
pub struct Profile {
    pub types: Vec<(String, String)>,
    pub samples: Vec<Sample>,
    pub mappings: BTreeMap<u64, Mapping>,
    pub period: u64,
    pub default_type: String,
}

impl Profile {
    /// Reads a profile and checks that everything in it refers to something.
    pub fn read(bytes: &[u8]) -> Self {
        let all = fields(bytes);
        let messages = |number: u64| {
            all.iter().filter_map(move |(field, value)| match value {
                Value::Bytes(bytes) if *field == number => Some(*bytes),
                _ => None,
            })
        };
        let strings: Vec<String> =
            messages(6).map(|text| String::from_utf8(text.to_vec()).unwrap()).collect();
        assert_eq!(strings[0], "");
        let string = |number: u64| strings[usize::try_from(number).unwrap()].clone();
        let top = numbers(bytes);
        let mappings: BTreeMap<u64, Mapping> = messages(3)
            .map(numbers)
            .map(|m| (m[&1], Mapping { start: m[&2], end: m[&3], file: string(m[&5]) }))
            .collect();
        let mut locations = BTreeMap::new();
        for location in messages(4).map(numbers) {
            if let Some(mapping) = location.get(&2) {
                let mapping = &mappings[mapping];
                assert!((mapping.start..mapping.end).contains(&location[&3]), "{location:?}");
            }
            assert!(locations.insert(location[&1], location[&3]).is_none(), "{location:?}");
        }
        let samples = messages(2).map(|message| {
            let lists: BTreeMap<u64, &[u8]> = fields(message)
                .into_iter()
                .filter_map(|(field, value)| match value {
                    Value::Bytes(bytes) => Some((field, bytes)),
                    Value::Integer(_) => None,
                })
                .collect();
            let label = numbers(lists[&3]);
            assert_eq!(string(label[&1]), "bytes");
            let stack = integers(lists[&1]).iter().map(|number| locations[number]).collect();
            Sample { stack, values: integers(lists[&2]), size: label[&3] }
        });
        let samples = samples.collect();
        let types = messages(1).map(numbers).map(|t| (string(t[&1]), string(t[&2]))).collect();
        let (period, default_type) = (top[&12], string(top[&14]));
        Self { types, samples, mappings, period, default_type }
    }
}

//! Real files with a few faults.
//!
//! A parser refuses random text at its first word, so such text does not test the rest. A real file
//! in which a piece is missing, repeated or replaced reaches it: conversions of numbers, sums,
//! indices, and checks of one field against another.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// The maximum number of faults in a file.
const FAULTS: usize = 4;
/// The maximum length of a piece that is removed or repeated.
const PIECE: usize = 60;
/// Values at or beyond the limits of a type, and texts that look like numbers but are not.
const NUMBERS: [&str; 16] = [
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999999",
    "1e308",
    "nan",
    "0x10",
    "",
];
/// Bytes that have a meaning in some format, or in none.
const BYTES: [u8; 16] = *b"0-,.:;=[]()\"\n \0\xff";

/// A fault.
#[derive(Clone, Debug)]
enum Fault {
    /// A piece is missing.
    Missing(Index, usize),
    /// A piece is repeated.
    Repeated(Index, usize, usize),
    /// A byte is replaced.
    Replaced(Index, u8),
    /// A number is replaced.
    Number(Index, &'static str),
    /// Two lines are exchanged.
    Exchanged(Index, Index),
    /// The rest is missing.
    CutOff(Index),
}

/// The file with one to four faults, as bytes that need not be UTF-8.
pub fn damaged_bytes(file: impl Into<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let file = file.into();
    let at = || any::<Index>();
    let fault = prop_oneof![
        (at(), 1..PIECE).prop_map(|(at, length)| Fault::Missing(at, length)),
        (at(), 1..PIECE, 2..5usize).prop_map(|(at, length, n)| Fault::Repeated(at, length, n)),
        (at(), prop_oneof![select(&BYTES[..]), any::<u8>()])
            .prop_map(|(at, b)| Fault::Replaced(at, b)),
        (at(), select(&NUMBERS[..])).prop_map(|(at, number)| Fault::Number(at, number)),
        (at(), at()).prop_map(|(one, other)| Fault::Exchanged(one, other)),
        at().prop_map(Fault::CutOff),
    ];
    vec(fault, 1..=FAULTS)
        .prop_map(move |faults| faults.iter().fold(file.clone(), |file, fault| fault.applied(file)))
}

/// The damaged file as text; bytes that are not UTF-8 become U+FFFD.
pub fn damaged(file: &'static str) -> impl Strategy<Value = String> {
    damaged_bytes(file.as_bytes()).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

impl Fault {
    fn applied(&self, mut file: Vec<u8>) -> Vec<u8> {
        if file.is_empty() {
            return file;
        }
        let piece = |at: &Index, length: usize| {
            let start = at.index(file.len());
            start..(start + length).min(file.len())
        };
        match self {
            Self::Missing(at, length) => {
                file.drain(piece(at, *length));
            }
            Self::Repeated(at, length, times) => {
                let piece = piece(at, *length);
                let repeated = file[piece.clone()].repeat(*times);
                file.splice(piece, repeated);
            }
            Self::Replaced(at, byte) => {
                let at = at.index(file.len());
                file[at] = *byte;
            }
            Self::Number(at, number) => {
                let numbers = numbers(&file);
                if !numbers.is_empty() {
                    file.splice(at.get(&numbers).clone(), number.bytes());
                }
            }
            Self::Exchanged(one, other) => {
                let mut lines: Vec<&[u8]> = file.split_inclusive(|byte| *byte == b'\n').collect();
                let (one, other) = (one.index(lines.len()), other.index(lines.len()));
                lines.swap(one, other);
                file = lines.concat();
            }
            Self::CutOff(at) => file.truncate(at.index(file.len())),
        }
        file
    }
}

/// The positions of the numbers in a file.
fn numbers(file: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut all: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, _) in file.iter().enumerate().filter(|(_, byte)| byte.is_ascii_digit()) {
        match all.last_mut() {
            Some(last) if last.end == at => last.end = at + 1,
            _ => all.push(at..at + 1),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    use super::*;

    const FILE: &str = "one 1\ntwo 22\n";

    #[test]
    fn numbers_are_found() {
        assert_eq!(numbers(FILE.as_bytes()), [4..5, 10..12]);
        assert_eq!(numbers(b"none"), []);
    }

    #[test]
    fn faults_of_all_kinds_come_up() {
        let mut runner = TestRunner::deterministic();
        let mut draw = || damaged(FILE).new_tree(&mut runner).unwrap().current();
        let drawn: Vec<String> = (0..2000).map(|_| draw()).collect();
        let any = |is: fn(&&String) -> bool| drawn.iter().any(|text| is(&text));
        assert!(any(|text| text.is_empty()), "cut off at the beginning");
        assert!(any(|text| *text == "one 1\ntwo 18446744073709551616\n"), "a number");
        assert!(any(|text| *text == "two 22\none 1\n"), "lines exchanged");
        assert!(any(|text| *text == "one 1\n"), "a line missing");
        assert!(any(|text| text.matches("two").count() > 1), "a piece repeated");
        assert!(any(|text| text.contains('\u{fffd}')), "a byte that is no text");
    }
}

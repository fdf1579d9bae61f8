//! Architectures on which no system calls are made in other threads.

use std::io;

/// A stopped thread: there is none here.
#[derive(Debug)]
pub enum Thread {}

impl Thread {
    pub fn stop(_: i32) -> io::Result<Self> {
        let cause = "system calls in other threads are made on x86-64 only";
        Err(io::Error::new(io::ErrorKind::Unsupported, cause))
    }

    pub fn call(&mut self, _: libc::c_long, _: [u64; 6]) -> io::Result<u64> {
        match *self {}
    }

    pub fn write(&mut self, _: &[u64]) -> io::Result<u64> {
        match *self {}
    }

    pub fn read<const WORDS: usize>(&mut self) -> io::Result<[u64; WORDS]> {
        match *self {}
    }

    pub fn resume(self) -> io::Result<()> {
        match self {}
    }
}

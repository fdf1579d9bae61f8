//! Keeps the last lines of the guest's console, for messages about its end.

use std::collections::VecDeque;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Number of bytes that are kept.
const KEPT: usize = 16 << 10;
/// Number of lines that are shown.
const SHOWN: usize = 20;
/// Texts of lines that name a cause. After most of them, the kernel prints registers and a stack.
const CAUSES: [&str; 3] = ["Kernel panic", "BUG: ", "Out of memory"];

/// The last output of the guest's kernel.
#[derive(Clone, Debug, Default)]
pub struct Console(Arc<Mutex<VecDeque<u8>>>);

impl Console {
    /// Starts reading the console.
    pub fn listen(mut socket: UnixStream) -> Self {
        let console = Self::default();
        let kept = console.clone();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = socket.read(&mut buffer) {
                kept.keep(&buffer[..read]);
            }
        });
        console
    }

    fn keep(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let excess = kept.len().saturating_sub(KEPT);
        kept.drain(..excess);
    }

    /// The last lines, without control characters. If the last line with a cause is above them, it
    /// comes first.
    pub fn last_lines(&self) -> String {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(kept.make_contiguous()).replace('\r', "");
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.chars().filter(|c| !c.is_control()).collect::<String>())
            .filter(|line| !line.trim().is_empty())
            .collect();
        let (above, last) = lines.split_at(lines.len().saturating_sub(SHOWN));
        let is_cause = |line: &&String| CAUSES.iter().any(|cause| line.contains(cause));
        match above.iter().rfind(is_cause) {
            Some(cause) => format!("{cause}\n...\n{}", last.join("\n")),
            None => last.join("\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept() {
        let console = Console::default();
        for i in 0..3000 {
            console.keep(format!("line {i}\r\n\n").as_bytes());
        }
        console.keep(b"\x1b[1mKernel panic");
        let text = console.last_lines();
        assert_eq!(text.lines().count(), SHOWN);
        assert!(text.ends_with("line 2999\n[1mKernel panic"), "{text}");
    }

    #[test]
    fn what_ended_the_kernel_stands_above_a_long_stack() {
        let console = Console::default();
        console.keep(b"quiet\nKernel panic - not syncing: gone\nCPU: 1\n");
        (0..SHOWN).for_each(|i| console.keep(format!("frame {i}\n").as_bytes()));
        let text = console.last_lines();
        assert!(text.starts_with("Kernel panic - not syncing: gone\n...\nframe 0\n"), "{text}");
        assert!(text.ends_with("frame 19"), "{text}");
    }
}

//! The node of the CPU that the caller runs on, without a system call.
//!
//! Every slow path needs it. The C library knows the CPU: it reads the number from the thread's
//! rseq area, which the kernel keeps up to date (Linux's include/uapi/linux/rseq.h; glibc 2.35), or
//! uses the vDSO, as musl does. The kernel is asked for the node of a CPU once, when a thread is
//! first seen on that CPU.

use core::sync::atomic::{AtomicU16, Ordering};

use numapilot_syscall::{Refused, caller};

use crate::os::kernel;

/// The largest number of CPUs that Linux supports (CONFIG_NR_CPUS).
const CPUS: usize = 8192;

/// By CPU: the ID of its node plus 1; 0 where no thread was seen yet.
type Table = [AtomicU16; CPUS];

static TABLE: Table = [const { AtomicU16::new(0) }; CPUS];

/// ID of the node on which the caller runs; `None` if it cannot be found.
#[inline]
pub fn current_node() -> Option<u32> {
    look_up(&TABLE, kernel::current_cpu(), caller::cpu_and_node)
}

/// The node of this CPU. If that is not known, the node on which `ask` finds the caller.
#[inline]
fn look_up(
    table: &Table,
    cpu: Option<usize>,
    ask: impl FnOnce() -> Result<(u32, u32), Refused>,
) -> Option<u32> {
    let known = cpu.and_then(|cpu| table.get(cpu)).map_or(0, |node| node.load(Ordering::Relaxed));
    if known != 0 {
        return Some(u32::from(known) - 1);
    }
    let (cpu, node) = ask().ok()?;
    if let (Some(entry), Ok(node)) = (table.get(cpu as usize), u16::try_from(node + 1)) {
        entry.store(node, Ordering::Relaxed);
    }
    Some(node)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::boxed::Box;
    use std::mem::{MaybeUninit, size_of};

    use super::*;

    fn table() -> Box<Table> {
        Box::new([const { AtomicU16::new(0) }; CPUS])
    }

    fn not_asked() -> Result<(u32, u32), Refused> {
        panic!("the CPU was seen before")
    }

    #[test]
    fn a_cpu_is_asked_for_once() {
        let table = table();
        assert_eq!(look_up(&table, Some(5), || Ok((5, 3))), Some(3));
        assert_eq!(look_up(&table, Some(5), not_asked), Some(3));
        // Node 0 is distinguished from an unknown node.
        assert_eq!(look_up(&table, Some(6), || Ok((6, 0))), Some(0));
        assert_eq!(look_up(&table, Some(6), not_asked), Some(0));
    }

    #[test]
    fn a_thread_that_moves_meanwhile_teaches_the_cpu_that_it_is_on() {
        let table = table();
        assert_eq!(look_up(&table, Some(1), || Ok((9, 4))), Some(4));
        assert_eq!(look_up(&table, Some(9), not_asked), Some(4));
        assert_eq!(look_up(&table, Some(1), || Ok((1, 0))), Some(0));
    }

    #[test]
    fn what_does_not_fit_and_what_nobody_tells_is_asked_for_each_time() {
        let table = table();
        for _ in 0..2 {
            assert_eq!(look_up(&table, Some(CPUS), || Ok((CPUS as u32, 7))), Some(7));
            assert_eq!(look_up(&table, None, || Ok((2, 1))), Some(1));
            assert_eq!(look_up(&table, Some(3), || Err(Refused(libc::EPERM))), None);
        }
    }

    /// On every CPU that this thread may use, the answer is that of the kernel.
    #[test]
    fn the_answer_is_the_kernels() {
        let mut allowed = MaybeUninit::<libc::cpu_set_t>::uninit();
        let bytes = size_of::<libc::cpu_set_t>();
        // SAFETY: sets of CPUs of the named size; the thread's own set is restored.
        unsafe {
            assert_eq!(libc::sched_getaffinity(0, bytes, allowed.as_mut_ptr()), 0);
            let allowed = allowed.assume_init();
            for cpu in (0..8 * bytes).filter(|&cpu| libc::CPU_ISSET(cpu, &allowed)) {
                let mut one = MaybeUninit::<libc::cpu_set_t>::zeroed().assume_init();
                libc::CPU_SET(cpu, &mut one);
                assert_eq!(libc::sched_setaffinity(0, bytes, &raw const one), 0);
                let asked = caller::cpu_and_node().ok();
                assert_eq!(kernel::current_cpu(), Some(cpu));
                for _ in 0..2 {
                    assert_eq!(current_node().zip(Some(cpu as u32)), asked.map(|(c, n)| (n, c)));
                }
            }
            libc::sched_setaffinity(0, bytes, &raw const allowed);
        }
    }
}

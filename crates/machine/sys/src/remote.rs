//! System calls in a thread of another process, by ptrace(2): for settings that a thread can make
//! only for itself (set_mempolicy(2), prctl(2)).
//!
//! ```text
//!  seize, interrupt, wait ----> stopped ----> registers of a call ----> enters, leaves the kernel
//!                                  |                  ^                          |
//!                                  |                  '------- next call --------'
//!                                  '--- detach <--- registers, signal mask and stack as before
//! ```
//!
//! The thread runs no code of its own meanwhile: only the instruction of a system call in its vDSO.
//! What a call points to is in a page of its own, which is unmapped afterwards. A call that the stop
//! has interrupted begins again, by the kernel or (where that would let it return EINTR) by its
//! registers; so a timeout may begin anew. Signals are blocked until the thread continues.

use std::io;

use crate::mempolicy::{Mode, raw_count};
use crate::prctl::ThpSwitch;

#[cfg(target_arch = "x86_64")]
mod thread;
#[cfg(not(target_arch = "x86_64"))]
#[path = "remote/unsupported.rs"]
mod thread;

use thread::Thread;

/// Whether system calls can be made in other threads on this architecture.
pub const IS_SUPPORTED: bool = cfg!(target_arch = "x86_64");

/// Words of a mask of nodes: the kernel refuses masks shorter than its MAX_NUMNODES, which is at
/// most 1024 today.
const MASK_WORDS: usize = 16;

/// A stopped thread of another process.
#[derive(Debug)]
pub struct Remote(Thread);

/// Stops thread `tid`, does `work` in it, and lets it continue.
///
/// # Errors
/// `ESRCH` if it has ended, `EPERM` without the right to trace it or if another process traces it,
/// `ETIMEDOUT` if it does not stop within a second (it waits for a device, a child after vfork(2), or
/// its share of CPU time), another if it has a seccomp filter that cannot be suspended,
/// [`io::ErrorKind::Unsupported`] on another architecture and for a 32-bit program; and those of
/// `work`.
pub fn within<T: Send>(
    tid: i32,
    work: impl FnOnce(&mut Remote) -> io::Result<T> + Send,
) -> io::Result<T> {
    // Only the thread that traces may make requests. When it ends, the kernel detaches the other
    // one, whatever state that is in.
    std::thread::scope(|scope| {
        let tracer = scope.spawn(move || {
            let mut remote = Remote(Thread::stop(tid)?);
            let result = work(&mut remote);
            let resumed = remote.0.resume();
            let result = result?;
            resumed.map(|()| result)
        });
        tracer.join().unwrap_or_else(|_| Err(io::Error::other("the tracing thread died")))
    })
}

impl Remote {
    /// Sets its memory policy, as [`crate::mempolicy::set_mempolicy`] does for the caller.
    ///
    /// # Errors
    /// As there.
    pub fn set_mempolicy(&mut self, mode: Mode, flags: i32, nodes: &[u64]) -> io::Result<()> {
        let used = nodes.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        let nodes = &nodes[..used];
        let bits = raw_count(nodes);
        let mask = if bits == 0 { 0 } else { self.0.write(nodes)? };
        let mode = i64::from(mode as i32 | flags);
        self.0.call(libc::SYS_set_mempolicy, [mode.cast_unsigned(), mask, bits as u64, 0, 0, 0])?;
        Ok(())
    }

    /// Its memory policy: the raw mode with flags, and the node mask.
    ///
    /// # Errors
    /// As [`crate::mempolicy::get_mempolicy`].
    pub fn mempolicy(&mut self) -> io::Result<(i32, Vec<u64>)> {
        let at = self.0.write(&[0; MASK_WORDS + 1])?;
        let (mode, mask) = (at, at + size_of::<u64>() as u64);
        let bits = (MASK_WORDS * 64) as u64;
        self.0.call(libc::SYS_get_mempolicy, [mode, mask, bits, 0, 0, 0])?;
        let words = self.0.read::<{ MASK_WORDS + 1 }>()?;
        // The mode is an int, in the first half of the first word.
        Ok((words[0] as i32, words[1..].to_vec()))
    }

    /// Sets the switch of huge pages of its process, as [`crate::prctl::set_thp_switch`] does.
    ///
    /// # Errors
    /// As there.
    pub fn set_thp_switch(&mut self, switch: ThpSwitch) -> io::Result<()> {
        let (disable, flags) = switch.raw();
        let option = u64::from(libc::PR_SET_THP_DISABLE.cast_unsigned());
        self.0.call(libc::SYS_prctl, [option, u64::from(disable), flags, 0, 0, 0]).map(drop)
    }

    /// The switch of huge pages of its process.
    ///
    /// # Errors
    /// As [`crate::prctl::thp_switch`].
    pub fn thp_switch(&mut self) -> io::Result<ThpSwitch> {
        let option = u64::from(libc::PR_GET_THP_DISABLE.cast_unsigned());
        self.0.call(libc::SYS_prctl, [option, 0, 0, 0, 0, 0]).map(ThpSwitch::of_raw)
    }
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::mempolicy::mems_allowed;

    /// A child with one thread, which waits in a system call.
    struct Sleeper(Child);

    impl Sleeper {
        fn start() -> Self {
            let cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            Self(cat.unwrap())
        }

        fn tid(&self) -> i32 {
            self.0.id().cast_signed()
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn what_is_set_in_another_process_is_read_back_there_alone() {
        let sleeper = Sleeper::start();
        let allowed = mems_allowed().unwrap();
        let (before, set, after) = within(sleeper.tid(), |remote| {
            let before = remote.mempolicy()?;
            remote.set_mempolicy(Mode::Interleave, 0, &allowed)?;
            let set = remote.mempolicy()?;
            remote.set_mempolicy(Mode::Default, 0, &[])?;
            Ok((before, set, remote.mempolicy()?))
        })
        .unwrap();
        assert_eq!(set.0, Mode::Interleave as i32);
        assert_eq!(set.1, allowed[..MASK_WORDS]);
        assert_eq!((before, after.0), (after.clone(), Mode::Default as i32));
        let here = crate::prctl::thp_switch().unwrap();
        within(sleeper.tid(), |remote| {
            remote.set_thp_switch(ThpSwitch::Disabled)?;
            assert_eq!(remote.thp_switch()?, ThpSwitch::Disabled);
            remote.set_thp_switch(ThpSwitch::Enabled)?;
            assert_eq!(remote.thp_switch()?, ThpSwitch::Enabled);
            Ok(())
        })
        .unwrap();
        assert_eq!(crate::prctl::thp_switch().unwrap(), here);
    }

    #[test]
    fn a_thread_that_waits_continues_as_if_nothing_had_happened() {
        use std::io::{Read, Write};
        let mut sleeper = Sleeper::start();
        let (mut input, mut output) =
            (sleeper.0.stdin.take().unwrap(), sleeper.0.stdout.take().unwrap());
        for round in 0..50u8 {
            within(sleeper.tid(), |remote| remote.mempolicy()).unwrap();
            input.write_all(&[round]).unwrap();
            let mut byte = [0];
            output.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [round]);
        }
    }

    /// The kernel restarts a sleep through another call, with the time that is left.
    #[test]
    fn a_thread_that_sleeps_sleeps_on() {
        let mut sleeper = Sleeper(Command::new("sleep").arg("0.5").spawn().unwrap());
        for _ in 0..5 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            within(sleeper.tid(), |remote| remote.mempolicy()).unwrap();
        }
        assert!(sleeper.0.wait().unwrap().success());
    }

    /// A handler runs after the thread has been let go, and the wait for its signal ends.
    #[test]
    fn a_signal_in_between_is_delivered_afterwards() {
        let script = "trap 'kill $!; exit 7' USR1; sleep 600 & wait";
        let mut shell = Sleeper(Command::new("sh").args(["-c", script]).spawn().unwrap());
        let tid = shell.tid();
        // It has its handler once it waits for the child.
        let children = format!("/proc/{tid}/task/{tid}/children");
        while std::fs::read_to_string(&children).unwrap().is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        within(tid, |remote| {
            crate::process::PidFd::open(tid)?.signal(libc::SIGUSR1)?;
            remote.mempolicy()
        })
        .unwrap();
        assert_eq!(shell.0.wait().unwrap().code(), Some(7));
    }

    #[test]
    fn a_refused_call_and_a_thread_that_has_ended_are_errors() {
        let mut sleeper = Sleeper::start();
        let none = within(sleeper.tid(), |remote| remote.set_mempolicy(Mode::Bind, 0, &[]));
        assert_eq!(none.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        sleeper.0.kill().unwrap();
        sleeper.0.wait().unwrap();
        let gone = within(sleeper.tid(), |remote| remote.mempolicy());
        assert_eq!(gone.unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}

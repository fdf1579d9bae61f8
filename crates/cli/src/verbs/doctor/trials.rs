//! Tries the system calls that place threads and memory.
//!
//! Policy and affinity belong to a thread, so the calls are made in one that ends
//! afterwards. A seccomp filter may answer a call by killing the process (systemd's
//! `SystemCallFilter=` does): under a filter each call is first made in a process of its
//! own, `numapilot doctor --trial NAME`.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread;

use numapilot_sys::mapping::Mapping;
use numapilot_sys::mempolicy::{self, Mode};
use numapilot_sys::{affinity, prctl};

/// A call that is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Affinity,
    SetMempolicy,
    Mbind,
    MovePages,
    MoveShared,
    WeightedInterleave,
    ThpSwitch,
}

impl Call {
    pub const ALL: [Self; 7] = [
        Self::Affinity,
        Self::SetMempolicy,
        Self::Mbind,
        Self::MovePages,
        Self::MoveShared,
        Self::WeightedInterleave,
        Self::ThpSwitch,
    ];

    /// Its name among the checks.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Affinity => "sched_setaffinity",
            Self::SetMempolicy => "set_mempolicy",
            Self::Mbind => "mbind",
            Self::MovePages => "move_pages",
            Self::MoveShared => "move shared pages",
            Self::WeightedInterleave => "weighted interleave",
            Self::ThpSwitch => "huge pages per program",
        }
    }

    /// The call with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|call| call.name() == name)
    }

    /// Makes the call with arguments that change nothing: the present affinity, a page to its
    /// present node. Policies are those of the calling thread.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn make(self) -> io::Result<()> {
        match self {
            Self::Affinity => affinity::get(0).and_then(|mask| affinity::set(0, &mask)),
            Self::SetMempolicy => policy(Mode::Interleave),
            Self::Mbind => mbind(),
            Self::MovePages => move_page(mempolicy::MF_MOVE),
            Self::MoveShared => move_page(mempolicy::MF_MOVE_ALL),
            Self::WeightedInterleave => policy(Mode::WeightedInterleave),
            // This belongs to the process, not to the thread.
            Self::ThpSwitch => prctl::thp_switch().and_then(prctl::set_thp_switch),
        }
    }
}

fn policy(mode: Mode) -> io::Result<()> {
    mempolicy::mems_allowed().and_then(|nodes| mempolicy::set_mempolicy(mode, 0, &nodes))
}

fn mbind() -> io::Result<()> {
    let nodes = mempolicy::mems_allowed()?;
    mempolicy::bind(&Mapping::anonymous(1 << 16)?, Mode::Bind, &nodes, 0)
}

fn move_page(flags: u32) -> io::Result<()> {
    let mut page = Mapping::anonymous(4096)?;
    page.as_mut_slice()[0] = 1;
    let address = [page.as_ptr() as usize];
    let node = mempolicy::move_pages(0, &address, None, 0)?[0];
    if node < 0 {
        return Err(io::Error::from_raw_os_error(-node));
    }
    let status = mempolicy::move_pages(0, &address, Some(&[node]), flags)?[0];
    if status < 0 { Err(io::Error::from_raw_os_error(-status)) } else { Ok(()) }
}

/// The result of each call.
pub struct Trials(Vec<(Call, io::Result<()>)>);

impl Trials {
    /// Makes all calls. `filtered` tells whether a seccomp filter may kill the process.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub fn run(filtered: bool) -> io::Result<Self> {
        let make = move |call: Call| match filtered && kills(call) {
            true => Err(io::Error::other("the filter kills a process that makes the call")),
            false => call.make(),
        };
        thread::Builder::new()
            .spawn(move || Self::with(make))?
            .join()
            .map_err(|_| io::Error::other("the thread that tries the calls panicked"))
    }

    /// Results given by a function.
    pub fn with(answer: impl Fn(Call) -> io::Result<()>) -> Self {
        Self(Call::ALL.into_iter().map(|call| (call, answer(call))).collect())
    }

    /// The result of a call.
    pub fn of(&self, call: Call) -> &io::Result<()> {
        // `ALL` is in the order of the declaration.
        &self.0[call as usize].1
    }
}

/// Whether a process that makes the call is ended by `SIGSYS`.
fn kills(call: Call) -> bool {
    Command::new("/proc/self/exe")
        .args(["doctor", "--trial", call.name()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.signal() == Some(libc::SIGSYS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_found_by_its_name_and_its_place() {
        for (place, call) in Call::ALL.into_iter().enumerate() {
            assert_eq!(Call::named(call.name()), Some(call));
            assert_eq!(call as usize, place);
        }
        assert_eq!(Call::named("nothing"), None);
    }

    #[test]
    fn trying_leaves_policy_and_affinity_alone() {
        let before = (affinity::get(0).unwrap(), mempolicy::get_mempolicy().unwrap());
        let thp = prctl::thp_switch().unwrap();
        Trials::run(false).unwrap();
        assert_eq!((affinity::get(0).unwrap(), mempolicy::get_mempolicy().unwrap()), before);
        assert_eq!(prctl::thp_switch().unwrap(), thp);
    }
}

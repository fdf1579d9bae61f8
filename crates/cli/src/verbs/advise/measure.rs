//! The instrumented run: the counters of `stat`, samples of the program's code, and its malloc.

use std::fs;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Context;
use numapilot_observe::code::{CodeProfile, CodeSampler};
use numapilot_observe::pmu::Attach;
use numapilot_observe::{Observation, Session, Tree};
use numapilot_place::allocators::{InUse, in_use};
use numapilot_place::{Prepared, Supervisor};
use numapilot_sys::prctl;
use numapilot_topology::Machine;

use crate::verbs::watch::{Reader, Watch, Watched};

/// What the run has shown.
pub struct Measured {
    /// The counters.
    pub observation: Observation,
    /// Samples of the code, or why there are none.
    pub code: Result<CodeProfile, String>,
    /// The process that used most CPU time, by its name, and its malloc, if it could be inspected.
    pub malloc: Option<(String, InUse)>,
    /// The status of a program that was started here.
    pub status: Option<ExitStatus>,
}

/// Takes samples while the target is observed.
struct Instruments {
    sampler: Result<CodeSampler, String>,
    malloc: Option<(String, InUse)>,
    looks: u32,
}

impl Instruments {
    fn new(whose: &Attach, machine: &Machine) -> Self {
        let sampler = CodeSampler::open(whose, &machine.online_cpus());
        Self { sampler, malloc: None, looks: 0 }
    }

    fn finish(self) -> (Result<CodeProfile, String>, Option<(String, InUse)>) {
        (self.sampler.map(CodeSampler::finish), self.malloc)
    }
}

impl Reader for Instruments {
    fn interval(&mut self, _: f64, _: &Observation) -> anyhow::Result<()> {
        Ok(())
    }

    fn look(&mut self) {
        let Ok(sampler) = &mut self.sampler else { return };
        sampler.take_samples();
        self.looks += 1;
        // All files of a process are read for this, so it is done at growing intervals.
        if self.looks.is_power_of_two()
            && let Some(pid) = sampler.profile().busiest_process()
            && let Ok(found) = in_use(pid)
            && let Ok(name) = fs::read_to_string(format!("/proc/{pid}/comm"))
        {
            self.malloc = Some((name.trim_end().to_owned(), found));
        }
    }
}

/// Starts the program and observes it to its end.
pub fn started(
    prepared: &Prepared,
    machine: &Machine,
    signals: &Supervisor,
    timeout: Option<Duration>,
) -> anyhow::Result<Measured> {
    // If a filter refuses this, processes that become daemons are not seen.
    let _ = prctl::adopt_orphans();
    let mut instruments = Instruments::new(&Attach::NextExec, machine);
    let mut session = Session::before_exec(machine.node_ids());
    let program = prepared.spawn(|_| {})?;
    session.follow(program.pid());
    let mut watch = Watch { signals, interval: None, timeout, reader: &mut instruments };
    let finished = watch
        .until_end(&mut session, Watched::Target(program))?
        .context("the program was not waited for")?;
    let (code, malloc) = instruments.finish();
    let observation = session.finish(Some((finished.wall, finished.usage)));
    Ok(Measured { observation, code, malloc, status: Some(finished.status) })
}

/// Observes a running process.
pub fn running(
    pid: i32,
    machine: &Machine,
    signals: &Supervisor,
    timeout: Option<Duration>,
) -> anyhow::Result<Measured> {
    let mut session = Session::attach(&[pid], machine.node_ids())?;
    let threads = Attach::Threads(Tree::of(&[pid])?.threads().collect());
    let mut instruments = Instruments::new(&threads, machine);
    let mut watch = Watch { signals, interval: None, timeout, reader: &mut instruments };
    watch.until_end(&mut session, Watched::Nothing)?;
    let (code, malloc) = instruments.finish();
    Ok(Measured { observation: session.finish(None), code, malloc, status: None })
}

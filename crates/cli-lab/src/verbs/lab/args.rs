//! The machine options of `lab run` and `lab shell`.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::bail;
use numapilot_cli_kit::units::{duration, size};
use numapilot_lab::User;
use numapilot_lab::{Request, Shape, Streams, Tuning};
use numapilot_lab_model::{Model, Parameter, QUANTUM_PS, VARIABLE, Variation};
use numapilot_topology::description::{ByteSize, named};

/// The machine options that `lab run` and `lab shell` share.
#[derive(Clone, clap::Args)]
pub struct MachineArgs {
    /// The machine: a name of `lab list`, or a description file.
    #[arg(short, long, value_name = "NAME|FILE")]
    pub machine: String,
    /// CPUs of each node that has any [default: `cpus_per_node` of the description].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus_per_node: Option<u32>,
    /// Memory of each node [default: `memory_per_node` of the description].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory_per_node: Option<u64>,
    /// Divide the capacities of caches and TLBs by N [default: `cache_scale` of the description].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    cache_scale: Option<u32>,
    /// Copy a file, a directory or a program into the guest, with the libraries it needs; may be
    /// repeated.
    #[arg(long, value_name = "PATH|PROGRAM")]
    include: Vec<OsString>,
    /// Space for files that the guest writes. The guest's files are in memory: its first node gets
    /// this much in addition.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size)]
    disk: u64,
    /// Append to the guest kernel's command line; may be repeated.
    #[arg(long, value_name = "TEXT")]
    append: Vec<String>,
    /// Transparent huge pages in the guest [default: the kernel's].
    #[arg(long, value_name = "WHEN", value_parser = ["always", "madvise", "never"])]
    thp: Option<String>,
    /// Automatic NUMA balancing (AutoNUMA) in the guest: on, off, or tiering (between fast and slow
    /// memory only) [default: the kernel's].
    #[arg(long, value_name = "MODE", value_parser = balancing)]
    numa_balancing: Option<u8>,
    /// Divide the scan delay and the scan periods of AutoNUMA by N, and the size of a scan (256 MiB)
    /// by the machine's cache_scale, as a program's data should be. By default, the kernel first
    /// scans a program's pages after 1 s on the guest's clock, and then every 1 to 60 s: too rarely
    /// for a program that runs for less than a second. --time-scale shortens these times too, and
    /// both factors multiply [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    autonuma_scale: Option<u64>,
    /// Run the guest's clocks N times as fast as simulated time, so that ticks, timers, AutoNUMA
    /// and daemons act N times as often for the same amount of work. The reported figures are in
    /// simulated time. Every clock that a program reads in the guest (clock_gettime, the time stamp
    /// counter, the time of day) is scaled: a duration that a program prints is N times the
    /// simulated one, and a sleep of 1 s takes 1/N simulated seconds. With 1, a program reads
    /// simulated time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    time_scale: u64,
    /// How far the emulated CPUs may be apart in simulated time, from 0.1us to 50us: they run one
    /// after another, each for this long. Set it to see how much a figure depends on it
    /// [default: 1us].
    #[arg(long, value_name = "TIME", value_parser = quantum)]
    quantum: Option<Duration>,
    /// Multiply a parameter of the model that no description of a machine states, to see how much a
    /// figure depends on it: memory-level-parallelism, quantum, time-scale or cache-scale; may be
    /// repeated.
    #[arg(long, value_name = "NAME=FACTOR", value_delimiter = ',', env = VARIABLE)]
    vary: Vec<Variation>,
    /// Weights of the nodes for weighted interleave, as in 0=3,1=1 [default: the kernel's].
    #[arg(long, value_name = "NODE=WEIGHT", value_delimiter = ',', value_parser = weight)]
    weights: Vec<NodeWeight>,
    /// Run as this user, by name or number [default: root].
    #[arg(long, value_name = "USER", value_parser = user)]
    user: Option<numapilot_lab::User>,
    /// Do not model caches, TLBs and memory: only instructions take time, no figures are reported,
    /// and the guest runs faster.
    #[arg(long)]
    no_model: bool,
    /// Give up if the guest has not booted within this time on the host's clock.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    boot_timeout: Duration,
}

impl MachineArgs {
    /// The variations of the model.
    pub fn varied(&self) -> Vec<String> {
        self.vary.iter().map(ToString::to_string).collect()
    }

    /// The request to run `command` on this machine.
    ///
    /// # Errors
    /// The machine is unknown, or cannot be emulated.
    pub fn request(
        self,
        command: Vec<OsString>,
        timeout: Option<Duration>,
        streams: Streams,
        seed: u64,
    ) -> anyhow::Result<Request> {
        let (name, mut description) = named(&self.machine)?;
        if let Some(lab) = &mut description.lab {
            lab.cpus_per_node = self.cpus_per_node.unwrap_or(lab.cpus_per_node);
            lab.memory_per_node = self.memory_per_node.map_or(lab.memory_per_node, ByteSize);
            lab.cache_scale = self.cache_scale.unwrap_or(lab.cache_scale);
        }
        let (mut quantum, mut time_scale) = (self.quantum, self.time_scale);
        for variation in &self.vary {
            let times = |value: f64| value * variation.factor;
            let whole = |what: &str, value: f64| match times(value).round() {
                scale if scale >= 1.0 => Ok(scale),
                _ => bail!("--vary {variation}: {what} is {value}, and cannot be less than 1"),
            };
            match variation.parameter {
                Parameter::MemoryLevelParallelism => {
                    let known = &mut description.processor.memory_level_parallelism;
                    *known = known.map(times);
                }
                Parameter::Quantum => {
                    let nanoseconds = quantum
                        .map_or(QUANTUM_PS as f64 / 1e3, |quantum| quantum.as_nanos() as f64);
                    quantum = Some(Duration::from_nanos(times(nanoseconds).round() as u64));
                }
                Parameter::TimeScale => {
                    time_scale = whole("the time scale", time_scale as f64)? as u64;
                }
                Parameter::CacheScale => {
                    if let Some(lab) = &mut description.lab {
                        lab.cache_scale =
                            whole("the cache scale", f64::from(lab.cache_scale))? as u32;
                    }
                }
            }
        }
        if let Some(varied) = quantum.filter(|quantum| !QUANTA.contains(quantum)) {
            bail!("--vary quantum: {varied:?} is too much or too little; {QUANTA_TEXT}");
        }
        let shape = Shape::new(&name, &description)?;
        let model = Model::from_description(&description, &shape.layout())?;
        Ok(Request {
            shape,
            seed,
            time_scale,
            quantum,
            model,
            counts: !self.no_model,
            command,
            include: self.include,
            append: self.append,
            tuning: Tuning {
                thp: self.thp,
                numa_balancing: self.numa_balancing,
                autonuma_scale: self.autonuma_scale,
                weights: self.weights.iter().map(|w| (w.node, w.weight)).collect(),
            },
            user: self.user,
            free_bytes: self.disk,
            boot_timeout: self.boot_timeout,
            timeout,
            streams,
        })
    }
}

/// Parses the length of a quantum.
pub fn quantum(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if QUANTA.contains(&time) { Ok(time) } else { Err(QUANTA_TEXT.to_owned()) }
}

/// The quanta that the emulator accepts.
const QUANTA: RangeInclusive<Duration> = Duration::from_nanos(100)..=Duration::from_micros(50);
const QUANTA_TEXT: &str = "a quantum has 0.1us to 50us";

/// Parses `on`, `off` or `tiering` to the kernel's number (Documentation/admin-guide/sysctl).
pub fn balancing(text: &str) -> Result<u8, String> {
    match text {
        "off" | "0" => Ok(0),
        "on" | "1" => Ok(1),
        "tiering" | "2" => Ok(2),
        _ => Err(format!("'{text}' is not a mode; write on, off or tiering")),
    }
}

/// The weight of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeWeight {
    /// The node.
    pub node: usize,
    /// Consecutive pages on this node.
    pub weight: u8,
}

/// Parses `0=3`.
pub fn weight(text: &str) -> Result<NodeWeight, String> {
    let bad = || format!("'{text}' is not NODE=WEIGHT with a weight from 1 to 255; write 0=3");
    let (node, weight) = text.split_once('=').ok_or_else(bad)?;
    let weight: u8 = weight.parse().map_err(|_| bad())?;
    let node = node.parse().map_err(|_| bad())?;
    if weight == 0 { Err(bad()) } else { Ok(NodeWeight { node, weight }) }
}

/// Parses a user name of this machine, or `UID[:GID]`; without GID, the user's own group is used.
pub fn user(text: &str) -> Result<User, String> {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    of(text, &passwd)
        .ok_or_else(|| format!("'{text}' is neither a user in /etc/passwd nor UID or UID:GID"))
}

fn of(text: &str, passwd: &str) -> Option<User> {
    let entry = |column: usize, value: &str| {
        passwd.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let user =
                User { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? };
            (*fields.get(column)? == value).then_some(user)
        })
    };
    if let Some((uid, gid)) = text.split_once(':') {
        return Some(User { uid: uid.parse().ok()?, gid: gid.parse().ok()? });
    }
    entry(0, text).or_else(|| entry(2, text)).or_else(|| {
        let uid = text.parse().ok()?;
        Some(User { uid, gid: uid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found() {
        let passwd = "root:x:0:0::/root:/bin/sh\npostgres:x:105:110::/:/bin/sh\n";
        assert_eq!(of("postgres", passwd), Some(User { uid: 105, gid: 110 }));
        assert_eq!(of("105", passwd), Some(User { uid: 105, gid: 110 }));
        assert_eq!(of("1000", passwd), Some(User { uid: 1000, gid: 1000 }));
        assert_eq!(of("1000:50", passwd), Some(User { uid: 1000, gid: 50 }));
        assert_eq!(of("nobody-here", passwd), None);
        assert_eq!(of("1:x", passwd), None);
    }

    #[test]
    fn weights_are_read() {
        assert_eq!(weight("2=9"), Ok(NodeWeight { node: 2, weight: 9 }));
        for bad in ["", "2", "=", "2=0", "2=256", "x=1"] {
            assert!(weight(bad).is_err(), "{bad}");
        }
    }
}

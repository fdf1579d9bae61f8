//! The daemons of Slurm with two nodes, both on this machine.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::{err, out};

/// How long the daemons may take until both nodes are idle.
const PATIENCE: Duration = Duration::from_secs(60);
const DAEMONS: [&str; 3] = ["munged", "slurmctld", "slurmd"];

/// The daemons, which are killed when this is dropped.
pub struct Cluster {
    daemons: Vec<Child>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// A port that nobody uses at this moment.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Sources: slurm.conf(5), munged(8).
fn configuration(folder: &Path) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let (host, folder) = (host.trim(), folder.display());
    let mut text = format!(
        "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nSlurmUser=root\n\
         SlurmdUser=root\nAuthInfo=socket={folder}/munge.socket\n\
         CommunicationParameters=NoInAddrAny,NoCtldInAddrAny\nProctrackType=proctrack/linuxproc\n\
         TaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\nMpiDefault=none\n\
         StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool.%n\n\
         SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/%n.pid\n",
        free_port()
    );
    for node in ["n1", "n2"] {
        let port = free_port();
        text +=
            &format!("NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1\n");
    }
    text + "PartitionName=all Nodes=ALL Default=YES State=UP\n"
}

/// Starts the daemons with more lines of slurm.conf, or says why they do not work here.
pub fn start(folder: &Path, more: &str) -> Result<Cluster, String> {
    for daemon in DAEMONS {
        if Command::new(daemon).arg("-V").output().is_err() {
            return Err(format!("no {daemon}"));
        }
    }
    if !rustix::process::getuid().is_root() {
        return Err("Slurm's daemons need root".to_owned());
    }
    fs::write(folder.join("slurm.conf"), configuration(folder) + more).unwrap();
    fs::create_dir(folder.join("state")).unwrap();
    let mut key = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(folder.join("key"))
        .unwrap();
    key.write_all(&[7; 128]).unwrap();
    let mut cluster = Cluster { daemons: Vec::new() };
    let mut spawn = |program: &str, arguments: &[String]| {
        let log = fs::File::create(folder.join(format!("log.{}", cluster.daemons.len()))).unwrap();
        let child = Command::new(program)
            .args(arguments)
            .env("SLURM_CONF", folder.join("slurm.conf"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        cluster.daemons.push(child);
    };
    let file = |option: &str, name: &str| format!("--{option}={}", folder.join(name).display());
    spawn(
        "munged",
        &[
            "--foreground".to_owned(),
            "--force".to_owned(),
            file("key-file", "key"),
            file("socket", "munge.socket"),
            file("pid-file", "munged.pid"),
            file("seed-file", "munged.seed"),
        ],
    );
    spawn("slurmctld", &["-D".to_owned()]);
    for node in ["n1", "n2"] {
        spawn("slurmd", &["-D".to_owned(), "-N".to_owned(), node.to_owned()]);
    }
    let until = Instant::now() + PATIENCE;
    loop {
        let states = Command::new("sinfo")
            .args(["-h", "-N", "-o", "%T"])
            .env("SLURM_CONF", folder.join("slurm.conf"))
            .output()
            .map_err(|_| "no sinfo; Debian: slurm-client".to_owned())?;
        if out(&states) == "idle\nidle\n" {
            return Ok(cluster);
        }
        if Instant::now() > until {
            return Err(format!(
                "Slurm's nodes did not become idle: {}{}",
                out(&states),
                err(&states)
            )
            .trim()
            .replace('\n', " "));
        }
        sleep(Duration::from_millis(100));
    }
}

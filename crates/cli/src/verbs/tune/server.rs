//! `tune --server COMMAND`: how to see that a server is ready, its load, and their CPUs.

use anyhow::{Context, bail};
use numapilot_topology::{CpuSet, Machine, parse_cpus};
use numapilot_tune::run::{Apart, Service};
use serde_json::{Value, json};

use super::measure_args::ServerArgs;

impl ServerArgs {
    /// What makes the program a server; `None` for a program.
    pub fn service(&self, machine: &Machine) -> anyhow::Result<Option<Service>> {
        let (Some(_), Some(ready), Some(load)) = (&self.server, &self.ready, &self.load) else {
            return Ok(None);
        };
        let cpus = self.load_cpus.as_deref().map(|text| apart(text, machine)).transpose()?;
        Ok(Some(Service {
            ready: ready.clone(),
            ready_timeout: self.ready_timeout,
            stop_timeout: self.stop_timeout,
            load: load.clone(),
            cpus: cpus
                .map(|(load, server)| Apart { load: load.to_string(), server: server.to_string() }),
        }))
    }

    /// Narrows a machine to the CPUs that the server may use.
    pub fn narrow(&self, machine: &mut Machine) -> anyhow::Result<()> {
        if let Some(text) = &self.load_cpus {
            machine.allowed.cpus = apart(text, machine)?.1;
        }
        Ok(())
    }

    /// Distinguishes this search from those of other servers and loads.
    pub fn identity(&self) -> Vec<(&'static str, Value)> {
        if self.server.is_none() {
            return Vec::new();
        }
        vec![
            ("ready command", json!(self.ready)),
            ("load", json!(self.load)),
            ("load's CPU list", json!(self.load_cpus)),
        ]
    }
}

/// The CPUs of the load and those of the server.
fn apart(text: &str, machine: &Machine) -> anyhow::Result<(CpuSet, CpuSet)> {
    let load = parse_cpus(text, machine).with_context(|| format!("--load-cpus {text}"))?;
    let server = machine.allowed.cpus.difference(&load);
    if server.is_empty() {
        bail!(
            "--load-cpus {text} leaves no CPU to the server; this process may use {}",
            machine.allowed.cpus
        );
    }
    Ok((load, server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_and_the_server_share_no_cpu() {
        let machine = Machine::uniform(2, 2);
        let (load, server) = apart("0,2", &machine).unwrap();
        assert_eq!((load.to_string(), server.to_string()), ("0,2".into(), "1,3".into()));
        assert!(apart("all", &machine).unwrap_err().to_string().contains("no CPU to the server"));
        assert!(format!("{:#}", apart("9", &machine).unwrap_err()).contains("--load-cpus 9"));
    }
}

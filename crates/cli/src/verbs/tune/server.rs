//! `tune --server COMMAND`: how to see that a server is ready, its load, and their CPUs.

use std::collections::BTreeSet;
use std::ffi::OsString;

use anyhow::{Context, bail};
use numapilot_cli_kit::terminal::{Terminal, printable};
use numapilot_place::find_program;
use numapilot_topology::{CpuSet, Machine, parse_cpus};
use numapilot_tune::run::{Apart, Limits, Runner, Service};
use serde_json::{Value, json};

use super::measure_args::{RestartWhen, ServerArgs};

impl ServerArgs {
    /// What makes the program a server; `None` for a program.
    pub fn service(&self, machine: &Machine) -> anyhow::Result<Option<Service>> {
        let (Some(_), Some(ready), Some(load)) = (&self.server, &self.ready, &self.load) else {
            return Ok(None);
        };
        Ok(Some(Service {
            ready: ready.clone(),
            ready_timeout: self.ready_timeout,
            stop_timeout: self.stop_timeout,
            load: load.clone(),
            cpus: cpus_apart(self.load_cpus.as_deref(), machine)?,
            restart: self.restart.into(),
        }))
    }

    /// Refuses limits that a server which keeps running cannot be judged by.
    pub fn check_limits(&self, limits: &Limits) -> anyhow::Result<()> {
        if self.restart == RestartWhen::Never && limits.rss_bytes.is_some() {
            bail!(
                "--limit rss=SIZE: the memory of a server that keeps running (--restart never) is \
                 that of all plans"
            );
        }
        Ok(())
    }

    /// Narrows a machine to the CPUs that the server may use.
    pub fn narrow(&self, machine: &mut Machine) -> anyhow::Result<()> {
        if let Some(text) = &self.load_cpus {
            machine.allowed.cpus = apart(text, machine)?.1;
        }
        Ok(())
    }

    /// The programs that `--ready`, `--load` and a shell in `--server` name, as far as their words
    /// tell.
    pub fn programs(&self) -> BTreeSet<OsString> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let words = self.shell_words().into_iter();
        words.filter(|word| find_program(word, &path).is_some()).collect()
    }

    /// The words of what a shell runs.
    pub fn shell_words(&self) -> Vec<OsString> {
        let is_of_shell = |c: char| c.is_whitespace() || "\"'`$(){}[]<>|&;=".contains(c);
        let server = self.server.iter().map(|server| &server.text);
        let texts = server.chain(&self.ready).chain(&self.load);
        let words = texts.flat_map(|text| text.split(is_of_shell));
        words.filter(|word| !word.is_empty()).map(OsString::from).collect()
    }

    /// Distinguishes this search from those of other servers and loads.
    pub fn identity(&self) -> Vec<(&'static str, Value)> {
        if self.server.is_none() {
            return Vec::new();
        }
        let restart = match self.restart {
            RestartWhen::Plan => "plan",
            RestartWhen::Never => "never",
        };
        vec![
            ("ready command", json!(self.ready)),
            ("load", json!(self.load)),
            ("load's CPU list", json!(self.load_cpus)),
            ("restart", json!(restart)),
        ]
    }
}

/// Stops a server that has run from run to run, and names what it left.
pub fn stop_server(terminal: &Terminal, runner: &mut Runner<'_>) -> anyhow::Result<()> {
    let left = runner.finish()?;
    let left: Vec<String> =
        left.ended.iter().chain(&left.removed).map(|name| printable(name)).collect();
    if !left.is_empty() {
        terminal.say(format_args!("left by the server, and ended or removed: {}", left.join(", ")));
    }
    Ok(())
}

/// The CPUs of the load, by the text of `--load-cpus`, and those of the server.
pub fn cpus_apart(text: Option<&str>, machine: &Machine) -> anyhow::Result<Option<Apart>> {
    let Some(text) = text else { return Ok(None) };
    let (load, server) = apart(text, machine)?;
    Ok(Some(Apart { load: load.to_string(), server: server.to_string() }))
}

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
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_programs_of_shell_commands_are_their_words_on_the_path() {
        let args = ServerArgs {
            server: None,
            ready: Some("test -e /dev/null && no-such-program".into()),
            load: Some("b=\"cat -n\"; $b x.csv | sort >y.csv; (env A=b ls)".into()),
            load_cpus: None,
            restart: RestartWhen::Plan,
            ready_timeout: Duration::from_secs(1),
            stop_timeout: Duration::from_secs(1),
        };
        let programs: Vec<_> = args.programs().into_iter().collect();
        assert_eq!(programs, ["cat", "env", "ls", "sort", "test"]);
    }

    #[test]
    fn the_load_and_the_server_share_no_cpu() {
        let machine = Machine::uniform(2, 2);
        let (load, server) = apart("0,2", &machine).unwrap();
        assert_eq!((load.to_string(), server.to_string()), ("0,2".into(), "1,3".into()));
        assert!(apart("all", &machine).unwrap_err().to_string().contains("no CPU to the server"));
        assert!(format!("{:#}", apart("9", &machine).unwrap_err()).contains("--load-cpus 9"));
    }
}
